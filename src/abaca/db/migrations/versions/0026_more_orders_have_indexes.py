# SPDX-License-Identifier: Apache-2.0
"""Shares and snapshots by size, by their last change and by status, and attachments by server, have indexes.

Outside of a transaction on PostgreSQL: nobody who writes waits while an index is made. A run that ends half-way is
repeated: what it has made stays, and an index that it left half-made is dropped and made anew.
"""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None
# read by `abaca db upgrade`
outside_transaction = True

# by table: columns of each index
INDEXES = [
    ("shares", ("project_id", "size", "id")),
    ("shares", ("size", "id")),
    ("shares", ("project_id", "updated_at", "id")),
    ("shares", ("updated_at", "id")),
    ("share_instances", ("status", "id")),
    ("snapshots", ("project_id", "size", "created_at", "id")),
    ("snapshots", ("size", "created_at", "id")),
    ("snapshots", ("project_id", "updated_at", "id")),
    ("snapshots", ("updated_at", "id")),
    ("snapshot_instances", ("status", "id")),
    ("attachments", ("project_id", "server_id", "mount_point", "id")),
]
# which those of states make needless
REPLACED = ("share_instances", "snapshot_instances")
_IS_VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)"


def upgrade() -> None:
    concurrently = op.get_context().dialect.name == "postgresql"
    for table, columns in INDEXES:
        _make(f"ix_{table}_{'_'.join(columns)}", table, columns, concurrently=concurrently)
    for table in REPLACED:
        op.execute(f"DROP INDEX {'CONCURRENTLY ' if concurrently else ''}IF EXISTS ix_{table}_status")


def _make(name: str, table: str, columns: tuple[str, ...], *, concurrently: bool) -> None:
    if not concurrently:
        op.create_index(name, table, list(columns))
        return
    is_valid = op.get_bind().execute(sa.text(_IS_VALID), {"name": name}).scalar()
    if is_valid is False:
        op.execute(f"DROP INDEX CONCURRENTLY {name}")
    if not is_valid:
        op.execute(f"CREATE INDEX CONCURRENTLY {name} ON {table} ({', '.join(columns)})")


def downgrade() -> None:
    for table in REPLACED:
        op.create_index(f"ix_{table}_status", table, ["status"])
    for table, columns in INDEXES:
        op.drop_index(f"ix_{table}_{'_'.join(columns)}", table_name=table)
