# SPDX-License-Identifier: Apache-2.0
"""Clusters have templates, and remember what the data processing door was told of them."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def _text(length: int) -> sa.String:
    """What only programs read: PostgreSQL compares it byte by byte."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "cluster_templates",
        sa.Column("id", _text(36), nullable=False),
        sa.Column("project_id", _text(255), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("is_protected", sa.Boolean(), nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cluster_templates")),
        sa.UniqueConstraint("project_id", "kind", "name", name=op.f("uq_cluster_templates_project_id_kind_name")),
    )
    op.create_index(
        "ix_cluster_templates_project_id_created_at_id", "cluster_templates", ["project_id", "created_at", "id"]
    )
    if op.get_context().dialect.name == "postgresql":
        op.execute("ALTER TABLE cluster_templates ALTER COLUMN project_id SET (n_distinct = 1)")
    for table in ("clusters", "cluster_node_groups"):
        with op.batch_alter_table(table, schema=None) as batch_op:
            batch_op.add_column(sa.Column("told", sa.JSON(), nullable=True))


def downgrade() -> None:
    for table in ("cluster_node_groups", "clusters"):
        with op.batch_alter_table(table, schema=None) as batch_op:
            batch_op.drop_column("told")
    op.drop_index("ix_cluster_templates_project_id_created_at_id", "cluster_templates")
    op.drop_table("cluster_templates")
