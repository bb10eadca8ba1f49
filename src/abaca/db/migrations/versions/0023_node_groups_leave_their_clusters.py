# SPDX-License-Identifier: Apache-2.0
"""Node groups leave their clusters: those that are to go once nothing of them is mounted any more say so."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("cluster_node_groups", schema=None) as batch_op:
        batch_op.add_column(sa.Column("is_leaving", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    with op.batch_alter_table("cluster_node_groups", schema=None) as batch_op:
        batch_op.drop_column("is_leaving")
