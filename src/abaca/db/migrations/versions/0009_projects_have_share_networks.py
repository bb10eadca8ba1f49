# SPDX-License-Identifier: Apache-2.0
"""Projects have share networks and security services."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def _text(length: int) -> sa.String:
    """What only programs read: PostgreSQL compares it byte by byte."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "security_services",
        sa.Column("id", _text(36), nullable=False),
        sa.Column("project_id", _text(255), nullable=False),
        sa.Column("type", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("dns_ip", sa.String(length=255), nullable=True),
        sa.Column("server", sa.String(length=255), nullable=True),
        sa.Column("domain", sa.String(length=255), nullable=True),
        sa.Column("user", sa.String(length=255), nullable=True),
        sa.Column("password", sa.String(length=255), nullable=True),
        sa.Column("ou", sa.String(length=255), nullable=True),
        sa.Column("default_ad_site", sa.String(length=255), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_security_services")),
    )
    op.create_index(
        "ix_security_services_created_at_id",
        "security_services",
        ["created_at", "id"],
        sqlite_where=sa.text("project_id > ''"),
        postgresql_where=sa.text("project_id > ''"),
    )
    op.create_index(
        "ix_security_services_project_id_created_at_id", "security_services", ["project_id", "created_at", "id"]
    )

    op.create_table(
        "share_networks",
        sa.Column("id", _text(36), nullable=False),
        sa.Column("project_id", _text(255), nullable=False),
        sa.Column("user_id", _text(255), nullable=True),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_share_networks")),
    )
    op.create_index(
        "ix_share_networks_created_at_id",
        "share_networks",
        ["created_at", "id"],
        sqlite_where=sa.text("project_id > ''"),
        postgresql_where=sa.text("project_id > ''"),
    )
    op.create_index("ix_share_networks_project_id_created_at_id", "share_networks", ["project_id", "created_at", "id"])

    op.create_table(
        "share_network_security_services",
        sa.Column("share_network_id", _text(36), nullable=False),
        sa.Column("type", sa.String(length=32), nullable=False),
        sa.Column("security_service_id", _text(36), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["security_service_id"], ["security_services.id"], name="fk_share_network_security_services_service"
        ),
        sa.ForeignKeyConstraint(
            ["share_network_id"],
            ["share_networks.id"],
            name="fk_share_network_security_services_network",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("share_network_id", "type", name=op.f("pk_share_network_security_services")),
    )
    op.create_index(
        "ix_share_network_security_services_security_service_id",
        "share_network_security_services",
        ["security_service_id"],
    )

    op.create_table(
        "share_network_subnets",
        sa.Column("id", _text(36), nullable=False),
        sa.Column("share_network_id", _text(36), nullable=False),
        sa.Column("availability_zone", sa.String(length=255), nullable=True),
        sa.Column("neutron_net_id", _text(255), nullable=True),
        sa.Column("neutron_subnet_id", _text(255), nullable=True),
        sa.Column("network_type", sa.String(length=32), nullable=True),
        sa.Column("segmentation_id", sa.BigInteger(), nullable=True),
        sa.Column("cidr", sa.String(length=64), nullable=True),
        sa.Column("gateway", sa.String(length=64), nullable=True),
        sa.Column("ip_version", sa.Integer(), nullable=True),
        sa.Column("mtu", sa.Integer(), nullable=True),
        sa.Column("metadata", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["share_network_id"],
            ["share_networks.id"],
            name=op.f("fk_share_network_subnets_share_network_id_share_networks"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_share_network_subnets")),
    )
    op.create_index("ix_share_network_subnets_neutron_net_id", "share_network_subnets", ["neutron_net_id"])
    op.create_index("ix_share_network_subnets_neutron_subnet_id", "share_network_subnets", ["neutron_subnet_id"])
    op.create_index(
        "ix_share_network_subnets_share_network_id_created_at_id",
        "share_network_subnets",
        ["share_network_id", "created_at", "id"],
    )

    op.create_index("ix_share_instances_share_network_id", "share_instances", ["share_network_id"])

    if op.get_context().dialect.name == "postgresql":
        op.execute("ALTER TABLE security_services ALTER COLUMN project_id SET (n_distinct = 1)")
    if op.get_context().dialect.name == "postgresql":
        op.execute("ALTER TABLE share_networks ALTER COLUMN project_id SET (n_distinct = 1)")


def downgrade() -> None:
    op.drop_index("ix_share_instances_share_network_id", table_name="share_instances")
    op.drop_table("share_network_subnets")
    op.drop_table("share_network_security_services")
    op.drop_table("share_networks")
    op.drop_table("security_services")
