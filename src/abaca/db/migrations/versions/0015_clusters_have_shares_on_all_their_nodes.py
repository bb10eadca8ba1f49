# SPDX-License-Identifier: Apache-2.0
"""Clusters have shares on all their nodes."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def _text(length: int) -> sa.String:
    """What only programs read: PostgreSQL compares it byte by byte."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "clusters",
        sa.Column("id", _text(36), nullable=False),
        sa.Column(
            "project_id",
            _text(255),
            nullable=False,
        ),
        sa.Column(
            "user_id",
            _text(255),
            nullable=True,
        ),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("wanted", sa.String(length=16), nullable=False),
        sa.Column("shares", sa.JSON(), nullable=False),
        sa.Column("tolerance", sa.Integer(), nullable=False),
        sa.Column(
            "network",
            _text(49),
            nullable=True,
        ),
        sa.Column("is_protected", sa.Boolean(), nullable=False),
        sa.Column("is_forced", sa.Boolean(), nullable=False),
        sa.Column("looked_at", sa.DateTime(), nullable=True),
        sa.Column("error_code", sa.String(length=64), nullable=True),
        sa.Column("error_text", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("retry_at", sa.DateTime(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_clusters")),
        sa.UniqueConstraint("project_id", "name", name=op.f("uq_clusters_project_id_name")),
    )
    with op.batch_alter_table("clusters", schema=None) as batch_op:
        batch_op.create_index(
            "ix_clusters_created_at_id",
            ["created_at", "id"],
            unique=False,
            sqlite_where=sa.text("project_id > ''"),
            postgresql_where=sa.text("project_id > ''"),
        )
        batch_op.create_index(
            "ix_clusters_looked_at",
            ["looked_at"],
            unique=False,
            sqlite_where=sa.text("looked_at IS NOT NULL"),
            postgresql_where=sa.text("looked_at IS NOT NULL"),
        )
        batch_op.create_index("ix_clusters_name_created_at_id", ["name", "created_at", "id"], unique=False)
        batch_op.create_index("ix_clusters_project_id_created_at_id", ["project_id", "created_at", "id"], unique=False)
        batch_op.create_index(
            "ix_clusters_retry_at",
            ["retry_at"],
            unique=False,
            sqlite_where=sa.text("retry_at IS NOT NULL"),
            postgresql_where=sa.text("retry_at IS NOT NULL"),
        )
        batch_op.create_index("ix_clusters_status_created_at_id", ["status", "created_at", "id"], unique=False)

    op.create_table(
        "cluster_node_groups",
        sa.Column("id", _text(36), nullable=False),
        sa.Column(
            "cluster_id",
            _text(36),
            nullable=False,
        ),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("shares", sa.JSON(), nullable=False),
        sa.Column("selector", sa.JSON(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name=op.f("fk_cluster_node_groups_cluster_id_clusters"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cluster_node_groups")),
        sa.UniqueConstraint("cluster_id", "name", name=op.f("uq_cluster_node_groups_cluster_id_name")),
    )
    op.create_table(
        "cluster_nodes",
        sa.Column("id", _text(36), nullable=False),
        sa.Column(
            "cluster_id",
            _text(36),
            nullable=False,
        ),
        sa.Column(
            "node_group_id",
            _text(36),
            nullable=False,
        ),
        sa.Column(
            "server_id",
            _text(255),
            nullable=False,
        ),
        sa.Column("is_leaving", sa.Boolean(), nullable=False),
        sa.Column("refusals", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name=op.f("fk_cluster_nodes_cluster_id_clusters"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["node_group_id"],
            ["cluster_node_groups.id"],
            name=op.f("fk_cluster_nodes_node_group_id_cluster_node_groups"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cluster_nodes")),
        sa.UniqueConstraint("cluster_id", "server_id", name=op.f("uq_cluster_nodes_cluster_id_server_id")),
    )
    with op.batch_alter_table("cluster_nodes", schema=None) as batch_op:
        batch_op.create_index(
            "ix_cluster_nodes_cluster_id_created_at_id", ["cluster_id", "created_at", "id"], unique=False
        )
        batch_op.create_index("ix_cluster_nodes_node_group_id", ["node_group_id"], unique=False)
        batch_op.create_index("ix_cluster_nodes_server_id", ["server_id"], unique=False)

    with op.batch_alter_table("attachments", schema=None) as batch_op:
        batch_op.add_column(
            sa.Column(
                "cluster_id",
                _text(36),
                nullable=True,
            )
        )
        batch_op.add_column(
            sa.Column(
                "network",
                _text(49),
                nullable=True,
            )
        )
        batch_op.create_index(
            "ix_attachments_cluster_id_server_id",
            ["cluster_id", "server_id"],
            unique=False,
            sqlite_where=sa.text("cluster_id IS NOT NULL"),
            postgresql_where=sa.text("cluster_id IS NOT NULL"),
        )
        batch_op.create_index(
            "ix_attachments_cluster_id_state",
            ["cluster_id", "state", "id"],
            unique=False,
            sqlite_where=sa.text("cluster_id IS NOT NULL"),
            postgresql_where=sa.text("cluster_id IS NOT NULL"),
        )

    if op.get_context().dialect.name == "postgresql":
        op.execute("ALTER TABLE clusters ALTER COLUMN project_id SET (n_distinct = 1)")


def downgrade() -> None:
    with op.batch_alter_table("attachments", schema=None) as batch_op:
        batch_op.drop_index(
            "ix_attachments_cluster_id_state",
            sqlite_where=sa.text("cluster_id IS NOT NULL"),
            postgresql_where=sa.text("cluster_id IS NOT NULL"),
        )
        batch_op.drop_index(
            "ix_attachments_cluster_id_server_id",
            sqlite_where=sa.text("cluster_id IS NOT NULL"),
            postgresql_where=sa.text("cluster_id IS NOT NULL"),
        )
        batch_op.drop_column("network")
        batch_op.drop_column("cluster_id")

    with op.batch_alter_table("cluster_nodes", schema=None) as batch_op:
        batch_op.drop_index("ix_cluster_nodes_server_id")
        batch_op.drop_index("ix_cluster_nodes_node_group_id")
        batch_op.drop_index("ix_cluster_nodes_cluster_id_created_at_id")

    op.drop_table("cluster_nodes")
    op.drop_table("cluster_node_groups")
    with op.batch_alter_table("clusters", schema=None) as batch_op:
        batch_op.drop_index("ix_clusters_status_created_at_id")
        batch_op.drop_index(
            "ix_clusters_retry_at",
            sqlite_where=sa.text("retry_at IS NOT NULL"),
            postgresql_where=sa.text("retry_at IS NOT NULL"),
        )
        batch_op.drop_index("ix_clusters_project_id_created_at_id")
        batch_op.drop_index("ix_clusters_name_created_at_id")
        batch_op.drop_index(
            "ix_clusters_looked_at",
            sqlite_where=sa.text("looked_at IS NOT NULL"),
            postgresql_where=sa.text("looked_at IS NOT NULL"),
        )
        batch_op.drop_index(
            "ix_clusters_created_at_id",
            sqlite_where=sa.text("project_id > ''"),
            postgresql_where=sa.text("project_id > ''"),
        )

    op.drop_table("clusters")
