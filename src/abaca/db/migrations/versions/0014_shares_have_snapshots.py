# SPDX-License-Identifier: Apache-2.0
"""Shares have snapshots."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def _text(length: int) -> sa.String:
    """What only programs read: PostgreSQL compares it byte by byte."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "snapshots",
        sa.Column("id", _text(36), nullable=False),
        sa.Column(
            "share_id",
            _text(36),
            nullable=False,
        ),
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
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("share_size", sa.Integer(), nullable=False),
        sa.Column("share_proto", sa.String(length=32), nullable=False),
        sa.Column("metadata", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(["share_id"], ["shares.id"], name=op.f("fk_snapshots_share_id_shares")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_snapshots")),
    )
    op.create_index(
        "ix_snapshots_created_at_id",
        "snapshots",
        ["created_at", "id"],
        sqlite_where=sa.text("project_id > ''"),
        postgresql_where=sa.text("project_id > ''"),
    )
    op.create_index(
        "ix_snapshots_description",
        "snapshots",
        ["description"],
        sqlite_where=sa.text("description IS NOT NULL"),
        postgresql_where=sa.text("description IS NOT NULL"),
    )
    op.create_index("ix_snapshots_name_created_at_id", "snapshots", ["name", "created_at", "id"])
    op.create_index("ix_snapshots_project_id_created_at_id", "snapshots", ["project_id", "created_at", "id"])
    op.create_index(
        "ix_snapshots_project_id_name_created_at_id", "snapshots", ["project_id", "name", "created_at", "id"]
    )
    op.create_index("ix_snapshots_share_id_created_at_id", "snapshots", ["share_id", "created_at", "id"])

    op.create_table(
        "snapshot_instances",
        sa.Column("id", _text(36), nullable=False),
        sa.Column(
            "snapshot_id",
            _text(36),
            nullable=False,
        ),
        sa.Column(
            "share_instance_id",
            _text(36),
            nullable=False,
        ),
        sa.Column("status", sa.String(length=64), nullable=False),
        sa.Column("status_rank", sa.SmallInteger(), nullable=False),
        sa.Column("progress", sa.String(length=8), nullable=True),
        sa.Column("provider_location", sa.String(length=255), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["share_instance_id"],
            ["share_instances.id"],
            name=op.f("fk_snapshot_instances_share_instance_id_share_instances"),
        ),
        sa.ForeignKeyConstraint(
            ["snapshot_id"], ["snapshots.id"], name=op.f("fk_snapshot_instances_snapshot_id_snapshots")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_snapshot_instances")),
    )
    op.create_index("ix_snapshot_instances_created_at_id", "snapshot_instances", ["created_at", "id"])
    op.create_index("ix_snapshot_instances_share_instance_id", "snapshot_instances", ["share_instance_id"])
    op.create_index(
        "ix_snapshot_instances_snapshot_id_status_rank_id", "snapshot_instances", ["snapshot_id", "status_rank", "id"]
    )
    op.create_index("ix_snapshot_instances_status", "snapshot_instances", ["status"])

    if op.get_context().dialect.name == "postgresql":
        pairs = "USING gin (CAST(metadata AS jsonb) jsonb_path_ops)"
        op.execute(f"CREATE INDEX ix_snapshots_metadata ON snapshots {pairs}")
        # an earlier revision has said what is missed without it
        if op.get_bind().scalar(sa.text("SELECT count(*) FROM pg_extension WHERE extname = 'pg_trgm'")):
            for name in ("name", "description"):
                parts = f"USING gin (lower({name}) gin_trgm_ops)"
                op.execute(f"CREATE INDEX ix_snapshots_{name}_trigrams ON snapshots {parts}")
        op.execute("ALTER TABLE snapshots ALTER COLUMN project_id SET (n_distinct = 1)")


def downgrade() -> None:
    op.drop_table("snapshot_instances")
    op.drop_table("snapshots")
