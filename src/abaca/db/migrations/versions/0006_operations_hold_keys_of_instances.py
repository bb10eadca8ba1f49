# SPDX-License-Identifier: Apache-2.0
"""Operations on share instances hold keys of these, beside those of shares or in their place."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# What is about one instance alone; all others hold the key of its share as well.
_OF_INSTANCE = ("access-rules-sync", "share-create")
_OF_BOTH = ("share-delete", "share-extend", "share-shrink")

_operations = sa.table(
    "operations",
    sa.column("id"),
    sa.column("kind"),
    sa.column("keys", sa.JSON),
    sa.column("args", sa.JSON),
    sa.column("resource_id"),
)
_keys = sa.table("operation_keys", *map(sa.column, ("operation_id", "key", "place", "seq", "held_key")))


def _unfinished(*kinds: str) -> list[sa.Row[tuple[object, ...]]]:
    """The operations of these kinds that have not ended, each with the row of its first key."""
    statement = (
        sa.select(_operations.c.id, _operations.c.kind, _operations.c.args, _operations.c.resource_id, _keys)
        .join(_keys, _keys.c.operation_id == _operations.c.id)
        .where(_operations.c.kind.in_(kinds), _keys.c.key == sa.literal("share:") + _operations.c.resource_id)
    )
    return list(op.get_bind().execute(statement))


def upgrade() -> None:
    for row in _unfinished(*_OF_INSTANCE, *_OF_BOTH):
        instance_id = row.args["instance_id"] if row.kind == "access-rules-sync" else row.args["instance"]["id"]
        mine = f"share-instance:{instance_id}"
        kept = [row.key] if row.kind in _OF_BOTH else []
        _let_have(row, [*kept, mine])


def downgrade() -> None:
    statement = (
        sa.select(_operations.c.id, _operations.c.resource_id, _keys)
        .join(_keys, _keys.c.operation_id == _operations.c.id)
        .where(_keys.c.key.startswith("share-instance:"))
    )
    rows = op.get_bind().execute(statement.order_by(_keys.c.held_key.is_(None), _keys.c.seq))
    held: set[str] = set()
    for row in {one.id: one for one in rows}.values():
        _let_have(row, [f"share:{row.resource_id}"], held)


def _let_have(row: sa.Row[tuple[object, ...]], wanted: list[str], held: set[str] | None = None) -> None:
    """Let an operation have these keys; what has begun holds them, two of a key never."""
    bind = op.get_bind()
    bind.execute(sa.delete(_keys).where(_keys.c.operation_id == row.id))
    is_held = row.held_key is not None and not (held is not None and held & set(wanted))
    if held is not None and is_held:
        held.update(wanted)
    rows = [
        {"operation_id": row.id, "key": one, "place": row.place, "seq": row.seq, "held_key": one if is_held else None}
        for one in wanted
    ]
    bind.execute(sa.insert(_keys), rows)
    bind.execute(sa.update(_operations).where(_operations.c.id == row.id).values(keys=wanted))
