# SPDX-License-Identifier: Apache-2.0
"""Drivers keep data of their own"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "driver_data",
        sa.Column(
            "resource_id",
            sa.String(length=36).with_variant(sa.String(length=36, collation="C"), "postgresql"),
            nullable=False,
        ),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("resource_id", name=op.f("pk_driver_data")),
    )


def downgrade() -> None:
    op.drop_table("driver_data")
