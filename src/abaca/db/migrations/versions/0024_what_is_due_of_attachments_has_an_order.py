# SPDX-License-Identifier: Apache-2.0
"""Of attachments that are due at the same moment a page is found by an index in its order.

Outside of a transaction on PostgreSQL: nobody who writes waits while an index is made. A run that ends half-way is
repeated: what it has made stays, and an index that it left half-made is dropped and made anew.
"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None
# read by `abaca db upgrade`
outside_transaction = True

TIMES = ("retry_at", "last_verified_at")
_IS_VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)"


def upgrade() -> None:
    for time in TIMES:
        before, name = f"ix_attachments_state_{time}", f"ix_attachments_state_{time}_id"
        if op.get_context().dialect.name != "postgresql":
            op.create_index(name, "attachments", ["state", time, "id"])
            op.drop_index(before, table_name="attachments")
            continue
        is_valid = op.get_bind().execute(sa.text(_IS_VALID), {"name": name}).scalar()
        if is_valid is False:
            op.execute(f"DROP INDEX CONCURRENTLY {name}")
        if not is_valid:
            op.execute(f"CREATE INDEX CONCURRENTLY {name} ON attachments (state, {time}, id)")
        op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {before}")


def downgrade() -> None:
    for time in TIMES:
        op.create_index(f"ix_attachments_state_{time}", "attachments", ["state", time])
        op.drop_index(f"ix_attachments_state_{time}_id", table_name="attachments")
