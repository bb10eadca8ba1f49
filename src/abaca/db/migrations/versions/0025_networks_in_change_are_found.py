# SPDX-License-Identifier: Apache-2.0
"""Share networks that say they are in change are found without looking at all the others."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    where = sa.text("status = 'network_change'")
    op.create_index("ix_share_networks_changing", "share_networks", ["id"], sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    op.drop_index("ix_share_networks_changing", table_name="share_networks")
