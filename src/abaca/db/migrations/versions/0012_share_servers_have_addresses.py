# SPDX-License-Identifier: Apache-2.0
"""Share servers have addresses in the networks of projects."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def _text(length: int) -> sa.String:
    """What only programs read: PostgreSQL compares it byte by byte."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "share_servers",
        sa.Column("id", _text(36), nullable=False),
        sa.Column("project_id", _text(255), nullable=False),
        sa.Column("share_network_id", _text(36), nullable=True),
        sa.Column("host", _text(255), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("identifier", sa.String(length=255), nullable=True),
        sa.Column("is_auto_deletable", sa.Boolean(), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.Column("security_service_update_support", sa.Boolean(), nullable=False),
        sa.Column("network_allocation_update_support", sa.Boolean(), nullable=False),
        sa.Column("share_server_multiple_subnet_support", sa.Boolean(), nullable=False),
        sa.Column("unused_since", sa.DateTime(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["share_network_id"],
            ["share_networks.id"],
            name=op.f("fk_share_servers_share_network_id_share_networks"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_share_servers")),
    )
    op.create_index("ix_share_servers_created_at_id", "share_servers", ["created_at", "id"])
    op.create_index("ix_share_servers_host_id", "share_servers", ["host", "id"])
    op.create_index("ix_share_servers_share_network_id_host", "share_servers", ["share_network_id", "host"])
    op.create_index(
        "ix_share_servers_unused_since",
        "share_servers",
        ["unused_since"],
        sqlite_where=sa.text("unused_since IS NOT NULL"),
        postgresql_where=sa.text("unused_since IS NOT NULL"),
    )

    op.create_table(
        "network_allocations",
        sa.Column("id", _text(36), nullable=False),
        sa.Column("share_server_id", _text(36), nullable=False),
        sa.Column("share_network_subnet_id", _text(36), nullable=True),
        sa.Column("network", _text(255), nullable=False),
        sa.Column("ip_address", sa.String(length=64), nullable=False),
        sa.Column("ip_version", sa.Integer(), nullable=False),
        sa.Column("cidr", sa.String(length=64), nullable=False),
        sa.Column("gateway", sa.String(length=64), nullable=True),
        sa.Column("mtu", sa.Integer(), nullable=True),
        sa.Column("network_type", sa.String(length=32), nullable=True),
        sa.Column("segmentation_id", sa.BigInteger(), nullable=True),
        sa.Column("mac_address", sa.String(length=32), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["share_network_subnet_id"],
            ["share_network_subnets.id"],
            name="fk_network_allocations_subnet",
            ondelete="SET NULL",
        ),
        sa.ForeignKeyConstraint(
            ["share_server_id"], ["share_servers.id"], name=op.f("fk_network_allocations_share_server_id_share_servers")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_network_allocations")),
        sa.UniqueConstraint("network", "ip_address", name=op.f("uq_network_allocations_network_ip_address")),
    )
    op.create_index(
        "ix_network_allocations_share_network_subnet_id", "network_allocations", ["share_network_subnet_id"]
    )
    op.create_index("ix_network_allocations_share_server_id", "network_allocations", ["share_server_id"])

    op.create_table(
        "share_server_subnets",
        sa.Column("share_server_id", _text(36), nullable=False),
        sa.Column("share_network_subnet_id", _text(36), nullable=False),
        sa.ForeignKeyConstraint(
            ["share_network_subnet_id"],
            ["share_network_subnets.id"],
            name="fk_share_server_subnets_subnet",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["share_server_id"],
            ["share_servers.id"],
            name=op.f("fk_share_server_subnets_share_server_id_share_servers"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("share_server_id", "share_network_subnet_id", name=op.f("pk_share_server_subnets")),
    )
    op.create_index(
        "ix_share_server_subnets_share_network_subnet_id", "share_server_subnets", ["share_network_subnet_id"]
    )


def downgrade() -> None:
    op.drop_table("share_server_subnets")
    op.drop_table("network_allocations")
    op.drop_table("share_servers")
