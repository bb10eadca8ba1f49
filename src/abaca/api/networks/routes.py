# SPDX-License-Identifier: Apache-2.0
"""The resources of projects' networks. A new one is one line here."""

from __future__ import annotations

from abaca.api.networks import (
    network_security_services,
    own_share_networks,
    own_share_servers,
    security_services,
    share_network_subnets,
    share_networks,
    share_server_managing,
    share_servers,
    subnet_metadata,
)

RESOURCES = (
    security_services.RESOURCE,
    share_networks.RESOURCE,
    network_security_services.ACTIONS,
    share_network_subnets.RESOURCE,
    subnet_metadata.RESOURCE,
    share_server_managing.RESOURCE,
    share_servers.RESOURCE,
)
OWN = (own_share_networks.RESOURCE, own_share_servers.RESOURCE)
