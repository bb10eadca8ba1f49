# SPDX-License-Identifier: Apache-2.0
"""Operations hold keys, wait for conditions, have children, and go from queue to queue."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def _text(length: int) -> sa.String:
    """What only programs read: PostgreSQL compares it byte by byte."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


_NEW = ("home", "keys", "wait", "signals", "overdue_since", "parent_id", "place", "children", "joins_each")
_LIVE = "state IN ('queued', 'running', 'paused')"
# What an operation's key was, by what it is about, and what it is now.
_KEY = """
    CASE
        WHEN resource_type = 'share' THEN 'share:' || "key"
        WHEN kind = 'backend-ensure-dry-run' THEN 'dry-run:' || resource_id
        ELSE "key"
    END
"""


def upgrade() -> None:
    with op.batch_alter_table("operations") as batch:
        batch.add_column(sa.Column("home", _text(255), nullable=True))
        batch.add_column(sa.Column("keys", sa.JSON(), nullable=True))
        batch.add_column(sa.Column("wait", sa.JSON(), nullable=True))
        batch.add_column(sa.Column("signals", sa.Integer(), nullable=True))
        batch.add_column(sa.Column("overdue_since", sa.Float(), nullable=True))
        batch.add_column(sa.Column("parent_id", _text(36), nullable=True))
        batch.add_column(sa.Column("place", sa.BigInteger(), nullable=True))
        batch.add_column(sa.Column("children", sa.Integer(), nullable=True))
        batch.add_column(sa.Column("joins_each", sa.Boolean(), nullable=True))
    array = "json_build_array" if op.get_context().dialect.name == "postgresql" else "json_array"
    op.execute(
        f"UPDATE operations SET home = queue, signals = 0, children = 0, joins_each = false, keys = {array}({_KEY})"  # noqa: S608 - constants
    )
    op.execute("UPDATE operations SET state = 'waiting' WHERE state = 'queued' AND not_before > 0")
    _make_tables()
    # what has begun holds its key, whether or not it runs at this moment
    op.execute(
        "INSERT INTO operation_keys (operation_id, key, place, seq, held_key) "  # noqa: S608 - constants
        f"SELECT id, {_KEY}, seq, seq, CASE WHEN running_key IS NOT NULL THEN {_KEY} END FROM operations WHERE {_LIVE} "
        "OR state = 'waiting'"
    )
    with op.batch_alter_table("operations") as batch:
        batch.drop_index("ix_operations_key_state_seq")
        batch.drop_constraint("uq_operations_running_key", type_="unique")
        batch.drop_column("running_key")
        batch.drop_column("key")
        batch.alter_column("home", existing_type=_text(255), nullable=False)
        batch.alter_column("keys", existing_type=sa.JSON(), nullable=False)
        batch.alter_column("signals", existing_type=sa.Integer(), nullable=False)
        batch.alter_column("children", existing_type=sa.Integer(), nullable=False)
        batch.alter_column("joins_each", existing_type=sa.Boolean(), nullable=False)
        batch.create_index("ix_operations_parent_id", ["parent_id"])
    _rename_mounts("left_mounts", "orphaned_mounts")


def _make_tables() -> None:
    op.create_table(
        "operation_keys",
        sa.Column("operation_id", _text(36), nullable=False),
        sa.Column("key", _text(255), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("held_key", _text(255), nullable=True),
        sa.ForeignKeyConstraint(
            ["operation_id"], ["operations.id"], name="fk_operation_keys_operation_id_operations", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("operation_id", "key", name="pk_operation_keys"),
        sa.UniqueConstraint("held_key", name="uq_operation_keys_held_key"),
    )
    op.create_index("ix_operation_keys_key_place_seq", "operation_keys", ["key", "place", "seq"])
    op.create_table(
        "operation_waits",
        sa.Column("operation_id", _text(36), nullable=False),
        sa.Column("condition", _text(255), nullable=False),
        sa.ForeignKeyConstraint(
            ["operation_id"], ["operations.id"], name="fk_operation_waits_operation_id_operations", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("operation_id", "condition", name="pk_operation_waits"),
    )
    op.create_index("ix_operation_waits_condition", "operation_waits", ["condition"])


def _rename_mounts(old: str, new: str) -> None:
    for name in ("server_id", "retry_at"):
        op.drop_index(f"ix_{old}_{name}", old)
    op.rename_table(old, new)
    for name in ("server_id", "retry_at"):
        op.create_index(f"ix_{new}_{name}", new, [name])
    if op.get_context().dialect.name == "postgresql":
        op.execute(f"ALTER INDEX pk_{old} RENAME TO pk_{new}")
        return
    with op.batch_alter_table(new, recreate="always") as batch:
        batch.drop_constraint(f"pk_{old}", type_="primary")
        batch.create_primary_key(f"pk_{new}", ["id"])


def downgrade() -> None:
    with op.batch_alter_table("operations") as batch:
        batch.add_column(sa.Column("key", _text(255), nullable=True))
        batch.add_column(sa.Column("running_key", _text(255), nullable=True))
    first = "keys ->> 0" if op.get_context().dialect.name == "postgresql" else "json_extract(keys, '$[0]')"
    op.execute(f'UPDATE operations SET "key" = COALESCE({first}, resource_id)')  # noqa: S608 - constants
    op.execute('UPDATE operations SET "key" = substr("key", 7) WHERE "key" LIKE \'share:%\'')
    op.execute("UPDATE operations SET running_key = \"key\" WHERE state = 'running'")
    op.execute("UPDATE operations SET state = 'queued' WHERE state = 'waiting'")
    op.drop_table("operation_waits")
    op.drop_table("operation_keys")
    with op.batch_alter_table("operations") as batch:
        batch.drop_index("ix_operations_parent_id")
        for column in (
            "home",
            "keys",
            "wait",
            "signals",
            "overdue_since",
            "parent_id",
            "place",
            "children",
            "joins_each",
        ):
            batch.drop_column(column)
        batch.alter_column("key", existing_type=_text(255), nullable=False)
        batch.create_unique_constraint("uq_operations_running_key", ["running_key"])
        batch.create_index("ix_operations_key_state_seq", ["key", "state", "seq"])
    _rename_mounts("orphaned_mounts", "left_mounts")
