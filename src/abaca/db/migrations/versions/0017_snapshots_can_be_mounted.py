# SPDX-License-Identifier: Apache-2.0
"""Snapshots can be mounted."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def _text(length: int) -> sa.String:
    """What only programs read: PostgreSQL compares it byte by byte."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "snapshot_access_rules",
        sa.Column("id", _text(36), nullable=False),
        sa.Column(
            "snapshot_id",
            _text(36),
            nullable=False,
        ),
        sa.Column("access_type", sa.String(length=16), nullable=False),
        sa.Column("access_to", sa.String(length=255), nullable=False),
        sa.Column("client", sa.String(length=255), nullable=False),
        sa.Column("is_denied", sa.Boolean(), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["snapshot_id"],
            ["snapshots.id"],
            name=op.f("fk_snapshot_access_rules_snapshot_id_snapshots"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_snapshot_access_rules")),
        sa.UniqueConstraint(
            "snapshot_id", "access_type", "client", name=op.f("uq_snapshot_access_rules_snapshot_id_access_type_client")
        ),
    )
    op.create_index(
        "ix_snapshot_access_rules_state",
        "snapshot_access_rules",
        ["state"],
        sqlite_where=sa.text("state != 'active'"),
        postgresql_where=sa.text("state != 'active'"),
    )

    op.create_table(
        "snapshot_export_locations",
        sa.Column("id", _text(36), nullable=False),
        sa.Column(
            "snapshot_instance_id",
            _text(36),
            nullable=False,
        ),
        sa.Column("path", sa.String(length=2000), nullable=False),
        sa.Column("is_admin_only", sa.Boolean(), nullable=False),
        sa.Column("preferred", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["snapshot_instance_id"],
            ["snapshot_instances.id"],
            name="fk_snapshot_export_locations_instance",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_snapshot_export_locations")),
    )
    op.create_index(
        "ix_snapshot_export_locations_snapshot_instance_id", "snapshot_export_locations", ["snapshot_instance_id"]
    )


def downgrade() -> None:
    op.drop_table("snapshot_access_rules")
    op.drop_table("snapshot_export_locations")
