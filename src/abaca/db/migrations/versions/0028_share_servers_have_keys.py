# SPDX-License-Identifier: Apache-2.0
"""Share servers have the key that their shares are encrypted with, and the step of a migration that they show."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

INDEX = "ix_share_servers_encryption_key_ref"
_OF_THE_FEW = sa.text("encryption_key_ref IS NOT NULL")


def _text(length: int) -> sa.String:
    """What only programs read: PostgreSQL compares it byte by byte."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    with op.batch_alter_table("share_servers", schema=None) as batch_op:
        batch_op.add_column(sa.Column("encryption_key_ref", _text(36), nullable=True))
        batch_op.add_column(sa.Column("task_state", sa.String(length=64), nullable=True))
    # of a column that nobody has written yet: it is made in an instant
    op.create_index(
        INDEX, "share_servers", ["encryption_key_ref"], sqlite_where=_OF_THE_FEW, postgresql_where=_OF_THE_FEW
    )


def downgrade() -> None:
    op.drop_index(INDEX, table_name="share_servers")
    with op.batch_alter_table("share_servers", schema=None) as batch_op:
        batch_op.drop_column("task_state")
        batch_op.drop_column("encryption_key_ref")
