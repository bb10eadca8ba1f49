# SPDX-License-Identifier: Apache-2.0
"""Subnets of share networks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from abaca.db.engine.database import Tx
from abaca.db.engine.statements import columns_of
from abaca.db.tables.networks import share_network_subnets as t
from abaca.domain.ids import new_id
from abaca.domain.networks.share_networks import Subnet


def add(tx: Tx, share_network_id: str, values: Mapping[str, object]) -> str:
    """A new subnet of a share network that is locked; its id."""
    subnet_id = new_id()
    tx.execute(_ADD, {**_NEW, "id": subnet_id, "share_network_id": share_network_id, "created_at": tx.now, **values})
    return subnet_id


_NEW: dict[str, object] = {
    "availability_zone": None,
    "neutron_net_id": None,
    "neutron_subnet_id": None,
    "network_type": None,
    "segmentation_id": None,
    "cidr": None,
    "gateway": None,
    "ip_version": None,
    "mtu": None,
    "metadata": {},
}
_ADD = sa.insert(t).inline()


def update(tx: Tx, subnet_id: str, values: Mapping[str, object]) -> None:
    """Change it."""
    tx.change(t, subnet_id, values)


def delete(tx: Tx, subnet_id: str) -> None:
    """Take it away."""
    tx.execute(_DELETE, {"subnet": subnet_id})


_DELETE = sa.delete(t).where(t.c.id == sa.bindparam("subnet"))


def of_networks(tx: Tx, network_ids: Sequence[str]) -> Mapping[str, list[Subnet]]:
    """The subnets of each of these share networks, oldest first."""
    found: dict[str, list[Subnet]] = defaultdict(list)
    if network_ids:
        for subnet in tx.entities(Subnet, _OF_NETWORKS, {"networks": list(network_ids)}):
            found[subnet.share_network_id].append(subnet)
    return found


_OF_NETWORKS = (
    sa.select(*columns_of(Subnet, t))
    .where(t.c.share_network_id.in_(sa.bindparam("networks", expanding=True)))
    .order_by(t.c.share_network_id, t.c.created_at, t.c.id)
)


def of_network(tx: Tx, network_id: str) -> list[Subnet]:
    """The subnets of one share network, oldest first."""
    return of_networks(tx, [network_id]).get(network_id, [])
