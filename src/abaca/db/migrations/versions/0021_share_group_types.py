# SPDX-License-Identifier: Apache-2.0
"""Share group types"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "share_group_types",
        sa.Column(
            "id", sa.String(length=36).with_variant(sa.String(length=36, collation="C"), "postgresql"), nullable=False
        ),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("is_public", sa.Boolean(), nullable=False),
        sa.Column("group_specs", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_share_group_types")),
        sa.UniqueConstraint("name", name=op.f("uq_share_group_types_name")),
    )
    op.create_table(
        "share_group_type_projects",
        sa.Column(
            "share_group_type_id",
            sa.String(length=36).with_variant(sa.String(length=36, collation="C"), "postgresql"),
            nullable=False,
        ),
        sa.Column(
            "project_id",
            sa.String(length=255).with_variant(sa.String(length=255, collation="C"), "postgresql"),
            nullable=False,
        ),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["share_group_type_id"],
            ["share_group_types.id"],
            name="fk_share_group_type_projects_group_type",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("share_group_type_id", "project_id", name=op.f("pk_share_group_type_projects")),
    )
    op.create_table(
        "share_group_type_share_types",
        sa.Column(
            "share_group_type_id",
            sa.String(length=36).with_variant(sa.String(length=36, collation="C"), "postgresql"),
            nullable=False,
        ),
        sa.Column(
            "share_type_id",
            sa.String(length=36).with_variant(sa.String(length=36, collation="C"), "postgresql"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["share_group_type_id"],
            ["share_group_types.id"],
            name="fk_share_group_type_share_types_group_type",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["share_type_id"], ["share_types.id"], name="fk_share_group_type_share_types_share_type"
        ),
        sa.PrimaryKeyConstraint("share_group_type_id", "share_type_id", name=op.f("pk_share_group_type_share_types")),
    )
    with op.batch_alter_table("share_group_type_share_types", schema=None) as batch_op:
        batch_op.create_index("ix_share_group_type_share_types_share_type_id", ["share_type_id"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("share_group_type_share_types", schema=None) as batch_op:
        batch_op.drop_index("ix_share_group_type_share_types_share_type_id")

    op.drop_table("share_group_type_share_types")
    op.drop_table("share_group_type_projects")
    op.drop_table("share_group_types")
