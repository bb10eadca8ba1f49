# SPDX-License-Identifier: Apache-2.0
"""Shares are offered to other projects"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "share_transfers",
        sa.Column(
            "id", sa.String(length=36).with_variant(sa.String(length=36, collation="C"), "postgresql"), nullable=False
        ),
        sa.Column(
            "project_id",
            sa.String(length=255).with_variant(sa.String(length=255, collation="C"), "postgresql"),
            nullable=False,
        ),
        sa.Column(
            "user_id",
            sa.String(length=255).with_variant(sa.String(length=255, collation="C"), "postgresql"),
            nullable=False,
        ),
        sa.Column(
            "share_id",
            sa.String(length=36).with_variant(sa.String(length=36, collation="C"), "postgresql"),
            nullable=False,
        ),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("salt", sa.String(length=32), nullable=False),
        sa.Column("key_hash", sa.String(length=64), nullable=False),
        sa.Column("expires_at", sa.DateTime(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["share_id"], ["shares.id"], name=op.f("fk_share_transfers_share_id_shares"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_share_transfers")),
    )
    with op.batch_alter_table("share_transfers", schema=None) as batch_op:
        batch_op.create_index(
            "ix_share_transfers_created_at_id",
            ["created_at", "id"],
            unique=False,
            sqlite_where=sa.text("project_id > ''"),
            postgresql_where=sa.text("project_id > ''"),
        )
        batch_op.create_index("ix_share_transfers_expires_at", ["expires_at"], unique=False)
        batch_op.create_index(
            "ix_share_transfers_project_id_created_at_id", ["project_id", "created_at", "id"], unique=False
        )
        batch_op.create_index("ix_share_transfers_share_id", ["share_id"], unique=True)

    if op.get_context().dialect.name == "postgresql":
        op.execute("ALTER TABLE share_transfers ALTER COLUMN project_id SET (n_distinct = 1)")


def downgrade() -> None:
    with op.batch_alter_table("share_transfers", schema=None) as batch_op:
        batch_op.drop_index("ix_share_transfers_share_id")
        batch_op.drop_index("ix_share_transfers_project_id_created_at_id")
        batch_op.drop_index("ix_share_transfers_expires_at")
        batch_op.drop_index(
            "ix_share_transfers_created_at_id",
            sqlite_where=sa.text("project_id > ''"),
            postgresql_where=sa.text("project_id > ''"),
        )

    op.drop_table("share_transfers")
