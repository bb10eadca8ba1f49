# SPDX-License-Identifier: Apache-2.0
"""Each instance has a state of its own for each rule of its share."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_ID = sa.String(36).with_variant(sa.String(36, collation="C"), "postgresql")
_NOT_ACTIVE = sa.text("state != 'active'")

# Which state on any instance the release before is told, the worst first.
_WORST = "CASE min(CASE m.state {places} END) {states} END"
_ORDER = (
    "error",
    "denying",
    "queued_to_deny",
    "queued_to_apply",
    "applying",
    "queued_to_update",
    "updating",
    "active",
)


def upgrade() -> None:
    op.create_table(
        "instance_access_rules",
        sa.Column("access_rule_id", _ID, nullable=False),
        sa.Column("share_instance_id", _ID, nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("access_rule_id", "share_instance_id", name="pk_instance_access_rules"),
        sa.ForeignKeyConstraint(
            ["access_rule_id"],
            ["access_rules.id"],
            name="fk_instance_access_rules_access_rule_id_access_rules",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["share_instance_id"],
            ["share_instances.id"],
            name="fk_instance_access_rules_share_instance_id_share_instances",
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_instance_access_rules_share_instance_id", "instance_access_rules", ["share_instance_id"])
    op.create_index(
        "ix_instance_access_rules_state",
        "instance_access_rules",
        ["state"],
        sqlite_where=_NOT_ACTIVE,
        postgresql_where=_NOT_ACTIVE,
    )
    op.execute(
        "INSERT INTO instance_access_rules (access_rule_id, share_instance_id, state, created_at, updated_at) "
        "SELECT r.id, i.id, r.state, r.created_at, r.updated_at "
        "FROM access_rules AS r JOIN share_instances AS i ON i.share_id = r.share_id"
    )
    op.drop_index("ix_access_rules_state", table_name="access_rules")
    with op.batch_alter_table("access_rules") as table:
        table.alter_column("state", existing_type=sa.String(32), nullable=True)
        table.add_column(sa.Column("is_denied", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.execute("UPDATE access_rules SET is_denied = true WHERE state IN ('queued_to_deny', 'denying')")


def downgrade() -> None:
    places = " ".join(f"WHEN '{state}' THEN {place}" for place, state in enumerate(_ORDER))
    states = " ".join(f"WHEN {place} THEN '{state}'" for place, state in enumerate(_ORDER))
    op.execute(
        f"UPDATE access_rules SET state = coalesce((SELECT {_WORST.format(places=places, states=states)} "  # noqa: S608
        "FROM instance_access_rules AS m WHERE m.access_rule_id = access_rules.id), 'queued_to_apply')"
    )
    with op.batch_alter_table("access_rules") as table:
        table.drop_column("is_denied")
        table.alter_column("state", existing_type=sa.String(32), nullable=False)
    op.create_index(
        "ix_access_rules_state", "access_rules", ["state"], sqlite_where=_NOT_ACTIVE, postgresql_where=_NOT_ACTIVE
    )
    op.drop_table("instance_access_rules")
