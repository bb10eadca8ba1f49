# SPDX-License-Identifier: Apache-2.0
"""Claims of operations have generations, by which back ends tell calls that come too late."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("operations", sa.Column("generation", sa.BigInteger(), nullable=False, server_default="0"))
    op.create_index("ix_operations_generation", "operations", ["generation"])


def downgrade() -> None:
    op.drop_index("ix_operations_generation", table_name="operations")
    with op.batch_alter_table("operations") as table:
        table.drop_column("generation")
