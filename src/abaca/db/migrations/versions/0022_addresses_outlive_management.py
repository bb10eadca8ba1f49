# SPDX-License-Identifier: Apache-2.0
"""Addresses of share servers that were given up are kept for them; checks of share networks are found by their age."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def _text(length: int) -> sa.String:
    """What only programs read: PostgreSQL compares it byte by byte."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    with op.batch_alter_table("network_allocations", schema=None) as batch_op:
        batch_op.alter_column("share_server_id", existing_type=_text(36), nullable=True)
        batch_op.add_column(sa.Column("left_host", _text(255), nullable=True))
        batch_op.add_column(sa.Column("left_identifier", sa.String(length=255), nullable=True))
    op.create_index("ix_share_network_checks_created_at", "share_network_checks", ["created_at"])


def downgrade() -> None:
    op.drop_index("ix_share_network_checks_created_at", table_name="share_network_checks")
    # what nobody manages has no place in the older schema
    op.execute("DELETE FROM network_allocations WHERE share_server_id IS NULL")
    with op.batch_alter_table("network_allocations", schema=None) as batch_op:
        batch_op.drop_column("left_identifier")
        batch_op.drop_column("left_host")
        batch_op.alter_column("share_server_id", existing_type=_text(36), nullable=False)
