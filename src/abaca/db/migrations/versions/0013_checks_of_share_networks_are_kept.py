# SPDX-License-Identifier: Apache-2.0
"""What back ends said of a subnet that somebody would like to add is kept."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def _text(length: int) -> sa.String:
    """What only programs read: PostgreSQL compares it byte by byte."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "share_network_checks",
        sa.Column("share_network_id", _text(36), nullable=False),
        sa.Column("subject", _text(255), nullable=False),
        sa.Column("host", _text(255), nullable=False),
        sa.Column("is_compatible", sa.Boolean(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["share_network_id"],
            ["share_networks.id"],
            name=op.f("fk_share_network_checks_share_network_id_share_networks"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("share_network_id", "subject", "host", name=op.f("pk_share_network_checks")),
    )


def downgrade() -> None:
    op.drop_table("share_network_checks")
