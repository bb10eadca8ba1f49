# SPDX-License-Identifier: Apache-2.0
"""The networks of projects: share networks, their subnets, what serves shares there, and the directories it joins."""

from __future__ import annotations

import sqlalchemy as sa

from abaca.db.tables.columns import (
    ID,
    KEY,
    NAME,
    TIME,
    an_id,
    indexes_of_the_few,
    metadata,
    partial_index,
    state,
    times,
)
from abaca.domain.networks.share_networks import SHARE_NETWORK
from abaca.domain.networks.share_servers import SERVER_TASK, SHARE_SERVER

share_networks = sa.Table(
    "share_networks",
    metadata,
    an_id(),
    sa.Column("project_id", KEY, nullable=False),
    sa.Column("user_id", KEY),
    sa.Column("name", NAME),
    sa.Column("description", NAME),
    state("status", SHARE_NETWORK),
    *times(),
    sa.Index("ix_share_networks_project_id_created_at_id", "project_id", "created_at", "id"),
    sa.Index("ix_share_networks_name", "name"),
)
NETWORK_OF_ANY_PROJECT = share_networks.c.project_id > sa.literal_column("''")
partial_index(
    "ix_share_networks_created_at_id", NETWORK_OF_ANY_PROJECT, share_networks.c.created_at, share_networks.c.id
)
CHANGING_NETWORK = share_networks.c.status == sa.literal_column("'network_change'")
partial_index("ix_share_networks_changing", CHANGING_NETWORK, share_networks.c.id)

# One without a zone serves all zones that have none of their own. What the network is (type, segment, addresses) is
# known when its network plug-in has first been asked.
share_network_subnets = sa.Table(
    "share_network_subnets",
    metadata,
    an_id(),
    sa.Column("share_network_id", ID, sa.ForeignKey("share_networks.id", ondelete="CASCADE"), nullable=False),
    sa.Column("availability_zone", NAME),
    sa.Column("neutron_net_id", KEY),
    sa.Column("neutron_subnet_id", KEY),
    sa.Column("network_type", sa.String(32)),
    sa.Column("segmentation_id", sa.BigInteger),
    sa.Column("cidr", sa.String(64)),
    sa.Column("gateway", sa.String(64)),
    sa.Column("ip_version", sa.Integer),
    sa.Column("mtu", sa.Integer),
    sa.Column("metadata", sa.JSON, nullable=False),
    *times(),
    sa.Index("ix_share_network_subnets_share_network_id_created_at_id", "share_network_id", "created_at", "id"),
    sa.Index("ix_share_network_subnets_neutron_net_id", "neutron_net_id"),
    sa.Index("ix_share_network_subnets_neutron_subnet_id", "neutron_subnet_id"),
)

# `password` is what the project gave and gets back: the API of the field has it so.
security_services = sa.Table(
    "security_services",
    metadata,
    an_id(),
    sa.Column("project_id", KEY, nullable=False),
    sa.Column("type", sa.String(32), nullable=False),
    sa.Column("name", NAME),
    sa.Column("description", NAME),
    sa.Column("dns_ip", NAME),
    sa.Column("server", NAME),
    sa.Column("domain", NAME),
    sa.Column("user", NAME),
    sa.Column("password", NAME),
    sa.Column("ou", NAME),
    sa.Column("default_ad_site", NAME),
    *times(),
    sa.Index("ix_security_services_project_id_created_at_id", "project_id", "created_at", "id"),
)
SECURITY_SERVICE_OF_ANY_PROJECT = security_services.c.project_id > sa.literal_column("''")
partial_index(
    "ix_security_services_created_at_id",
    SECURITY_SERVICE_OF_ANY_PROJECT,
    security_services.c.created_at,
    security_services.c.id,
)

# Of each type a network has one at most. A security service stays as long as a network has it.
share_network_security_services = sa.Table(
    "share_network_security_services",
    metadata,
    sa.Column(
        "share_network_id",
        ID,
        sa.ForeignKey("share_networks.id", name="fk_share_network_security_services_network", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Column("type", sa.String(32), primary_key=True),
    sa.Column(
        "security_service_id",
        ID,
        sa.ForeignKey("security_services.id", name="fk_share_network_security_services_service"),
        nullable=False,
    ),
    sa.Column("created_at", TIME, nullable=False),
    sa.Index("ix_share_network_security_services_security_service_id", "security_service_id"),
)

# `host` is host@backend. `details` is what the driver wants told of the server; the three flags are what its back end
# could when it was made. One whose share network is gone is going itself, and one on which nothing is since
# `unused_since` goes when it `is_auto_deletable`. One with an `encryption_key_ref` has no shares but those of it.
share_servers = sa.Table(
    "share_servers",
    metadata,
    an_id(),
    sa.Column("project_id", KEY, nullable=False),
    sa.Column("share_network_id", ID, sa.ForeignKey("share_networks.id", ondelete="SET NULL")),
    sa.Column("host", KEY, nullable=False),
    state("status", SHARE_SERVER),
    sa.Column("identifier", NAME),
    sa.Column("is_auto_deletable", sa.Boolean, nullable=False),
    sa.Column("details", sa.JSON, nullable=False),
    sa.Column("security_service_update_support", sa.Boolean, nullable=False),
    sa.Column("network_allocation_update_support", sa.Boolean, nullable=False),
    sa.Column("share_server_multiple_subnet_support", sa.Boolean, nullable=False),
    sa.Column("unused_since", TIME),
    sa.Column("encryption_key_ref", ID),
    state("task_state", SERVER_TASK, 64, nullable=True),
    *times(),
    sa.Index("ix_share_servers_created_at_id", "created_at", "id"),
    sa.Index("ix_share_servers_share_network_id_host", "share_network_id", "host"),
    sa.Index("ix_share_servers_host_id", "host", "id"),
    sa.Index("ix_share_servers_project_id_created_at_id", "project_id", "created_at", "id"),
    sa.Index("ix_share_servers_status_created_at_id", "status", "created_at", "id"),
    sa.Index("ix_share_servers_identifier", "identifier"),
)
NOBODY_USES = share_servers.c.unused_since.is_not(None)
indexes_of_the_few(share_servers, "encryption_key_ref")
partial_index("ix_share_servers_unused_since", NOBODY_USES, share_servers.c.unused_since)

# By which subnets a share server is reached.
share_server_subnets = sa.Table(
    "share_server_subnets",
    metadata,
    sa.Column("share_server_id", ID, sa.ForeignKey("share_servers.id", ondelete="CASCADE"), primary_key=True),
    sa.Column(
        "share_network_subnet_id",
        ID,
        sa.ForeignKey("share_network_subnets.id", name="fk_share_server_subnets_subnet", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Index("ix_share_server_subnets_share_network_subnet_id", "share_network_subnet_id"),
)

# What back ends said of one exact subnet (`subject`) that somebody would like to add; null: they are asked.
share_network_checks = sa.Table(
    "share_network_checks",
    metadata,
    sa.Column("share_network_id", ID, sa.ForeignKey("share_networks.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("subject", KEY, primary_key=True),
    sa.Column("host", KEY, primary_key=True),
    sa.Column("is_compatible", sa.Boolean),
    sa.Column("created_at", TIME, nullable=False),
    sa.Index("ix_share_network_checks_created_at", "created_at"),
)

# The addresses of share servers; without a subnet one of the operator's own network. `network` is where the address is
# unique, as the network plug-in calls it. Without a server it was left by one that was given up: what the back end
# `left_host` calls `left_identifier` still answers there, and nobody else gets it.
network_allocations = sa.Table(
    "network_allocations",
    metadata,
    an_id(),
    sa.Column("share_server_id", ID, sa.ForeignKey("share_servers.id")),
    sa.Column(
        "share_network_subnet_id",
        ID,
        sa.ForeignKey("share_network_subnets.id", name="fk_network_allocations_subnet", ondelete="SET NULL"),
    ),
    sa.Column("network", KEY, nullable=False),
    sa.Column("ip_address", sa.String(64), nullable=False),
    sa.Column("ip_version", sa.Integer, nullable=False),
    sa.Column("cidr", sa.String(64), nullable=False),
    sa.Column("gateway", sa.String(64)),
    sa.Column("mtu", sa.Integer),
    sa.Column("network_type", sa.String(32)),
    sa.Column("segmentation_id", sa.BigInteger),
    sa.Column("mac_address", sa.String(32)),
    sa.Column("left_host", KEY),
    sa.Column("left_identifier", NAME),
    *times(),
    sa.UniqueConstraint("network", "ip_address"),
    sa.Index("ix_network_allocations_share_server_id", "share_server_id"),
    sa.Index("ix_network_allocations_share_network_subnet_id", "share_network_subnet_id"),
)
