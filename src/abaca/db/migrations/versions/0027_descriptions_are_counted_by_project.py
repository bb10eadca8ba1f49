# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL counts which descriptions shares of a project have, and knows how many a page finds by one.

Outside of a transaction: nobody who writes waits while the table is looked at. SQLite has nothing of the kind.
"""

from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None
# read by `abaca db upgrade`
outside_transaction = True

NAME = "st_shares_project_id_description"


def upgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        # one that a run has left that ended before the next line
        op.execute(f"DROP STATISTICS IF EXISTS {NAME}")
        op.execute(f"CREATE STATISTICS {NAME} (mcv) ON project_id, description FROM shares")
        op.execute("ANALYZE shares (project_id, description)")


def downgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        op.execute(f"DROP STATISTICS {NAME}")
