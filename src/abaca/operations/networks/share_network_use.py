# SPDX-License-Identifier: Apache-2.0
"""Whether a new share can be on a share network, and where its servers would be reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from abaca import errors
from abaca.db.networks import share_network_subnets, share_networks
from abaca.domain.catalog import extra_specs

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx


def needs_server(specs: Mapping[str, str]) -> bool:
    """Whether shares of a type with these extra specs are on share servers."""
    return extra_specs.is_true(specs, "driver_handles_share_servers")


def check(specs: Mapping[str, str], network_id: str | None) -> None:
    """Raises `Invalid` where a share of a type with these extra specs must have a share network, or must have none."""
    if needs_server(specs) and network_id is None:
        raise errors.Invalid("This share type makes share servers of its own: a share_network_id is required.")
    if network_id is not None and not needs_server(specs):
        raise errors.Invalid("This share type makes no share servers: it takes no share_network_id.")


def subnets_by_zone(tx: Tx, network_id: str, project_id: str, zone: str | None) -> Mapping[str | None, int]:
    """How many subnets a share network has in each zone, and under None those that are for all others.

    The network is locked until this transaction ends, so that it stays. Raises `NotFound` where the project has no such
    network, `Invalid` where it does not take shares now, or none in the `zone` that is asked for.
    """
    share_networks.hold(tx, network_id)
    network = share_networks.show(tx, network_id)
    if network is None or network.project_id != project_id:
        raise errors.NotFound(resource="Share network", id=network_id)
    if network.status != "active":
        raise errors.Invalid(f"Share network {network.id} is {network.status}; it takes shares when it is active.")
    found = Counter(subnet.availability_zone for subnet in share_network_subnets.of_network(tx, network.id))
    if zone is not None and not (found[zone] or found[None]):
        raise errors.Invalid(f"Share network {network.id} has no subnet for availability zone {zone}; add one.")
    return found
