# SPDX-License-Identifier: Apache-2.0
"""What is looked for again and again is found by an index: what has just changed, and whose time in the bin is over.

Outside of a transaction on PostgreSQL: nobody who writes waits while an index is made. A run that ends half-way is
repeated: what it has made stays, and an index that it left half-made is dropped and made anew.
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None
# read by `abaca db upgrade`
outside_transaction = True

# name of the index, table, column, and of which rows alone
INDEXES = [
    ("ix_share_instances_updated_at", "share_instances", "updated_at", None),
    ("ix_shares_scheduled_to_be_deleted_at", "shares", "scheduled_to_be_deleted_at", "is_soft_deleted IS {true}"),
]
_IS_VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)"


def upgrade() -> None:
    on_postgresql = op.get_context().dialect.name == "postgresql"
    for name, table, column, of in INDEXES:
        if not on_postgresql:
            op.create_index(name, table, [column], sqlite_where=None if of is None else sa.text(of.format(true="1")))
            continue
        is_valid = op.get_bind().execute(sa.text(_IS_VALID), {"name": name}).scalar()
        if is_valid is False:
            op.execute(f"DROP INDEX CONCURRENTLY {name}")
        if not is_valid:
            condition = "" if of is None else f" WHERE {of.format(true='TRUE')}"
            op.execute(f"CREATE INDEX CONCURRENTLY {name} ON {table} ({column}){condition}")


def downgrade() -> None:
    for name, table, _column, _of in INDEXES:
        op.drop_index(name, table_name=table)
