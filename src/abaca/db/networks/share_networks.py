# SPDX-License-Identifier: Apache-2.0
"""Share networks."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from abaca.db.engine import moving
from abaca.db.engine.database import Tx
from abaca.db.engine.lists import Filter, Listing, before, begins, contains, equal, since, where
from abaca.db.tables.networks import (
    CHANGING_NETWORK,
    NETWORK_OF_ANY_PROJECT,
    share_network_security_services,
    share_network_subnets,
    share_servers,
)
from abaca.db.tables.networks import share_networks as t
from abaca.db.tables.shares import share_instances
from abaca.domain.ids import new_id
from abaca.domain.networks.share_networks import ShareNetwork

_OF_SUBNETS = ("neutron_net_id", "neutron_subnet_id", "network_type", "segmentation_id", "cidr", "ip_version")


def _with(table: sa.Table, column: str) -> Filter:
    found = sa.select(table.c.share_network_id)
    kind = table.c[column].type
    # whoever asks for a number that no column holds finds nothing
    asked = sa.BigInteger() if isinstance(kind, sa.Integer) else kind
    return where(lambda name: t.c.id.in_(found.where(table.c[column] == sa.bindparam(name, type_=asked))))


SHARE_NETWORKS = Listing(
    t,
    filters={
        "id_prefix": begins(t.c.id),
        "project_id": equal(t.c.project_id),
        "name": equal(t.c.name),
        "status": equal(t.c.status),
        "description": equal(t.c.description),
        "name_like": contains(t.c.name),
        "description_like": contains(t.c.description),
        "created_since": since(t.c.created_at),
        "created_before": before(t.c.created_at),
        "security_service_id": _with(share_network_security_services, "security_service_id"),
        **{name: _with(share_network_subnets, name) for name in _OF_SUBNETS},
    },
    # opens the index over all projects (db/tables)
    unless=(frozenset({"id", "project_id"}), NETWORK_OF_ANY_PROJECT),
)
STATUS = moving.Mover(t.c.status, "Share network")


def add(tx: Tx, values: Mapping[str, object]) -> str:
    """A new share network; its id."""
    network_id = new_id()
    moving.add(tx, t, {"id": network_id, "created_at": tx.now, "updated_at": None, **values}, {"status": "create"})
    return network_id


def update(tx: Tx, network_id: str, values: Mapping[str, object]) -> None:
    """Change its words."""
    tx.change(t, network_id, values)


def delete(tx: Tx, network_id: str) -> None:
    """Take it away, with its subnets; the security services stay."""
    tx.execute(_DELETE, {"network": network_id})


_DELETE = sa.delete(t).where(t.c.id == sa.bindparam("network"))


def show(tx: Tx, network_id: str) -> ShareNetwork | None:
    """One, or None. Who may see it is the caller's business."""
    return SHARE_NETWORKS.entity(tx, ShareNetwork, {"id": network_id})


def changing_without_server(tx: Tx, most: int) -> list[str]:
    """The ids of those in `network_change` of which no share server is."""
    return [row.id for row in tx.rows(_CHANGING, {"most": most})]


_CHANGING = (
    sa.select(t.c.id)
    .where(
        CHANGING_NETWORK,
        ~sa.exists().where(share_servers.c.share_network_id == t.c.id, share_servers.c.status == "network_change"),
    )
    .order_by(t.c.id)
    .limit(sa.bindparam("most"))
)


def hold(tx: Tx, network_id: str) -> None:
    """Lock it until this transaction ends: its subnets and security services change one after the other."""
    tx.execute(_HOLD, {"network": network_id})


_HOLD = sa.select(t.c.id).where(t.c.id == sa.bindparam("network")).with_for_update()


def has_shares(tx: Tx, network_id: str) -> bool:
    """Whether a share is on it."""
    return tx.scalar(_HAS_SHARES, {"network": network_id}) is not None


def has_placeless_shares(tx: Tx, network_id: str) -> bool:
    """Whether a share is on it that has no share server yet, and may get one on any of its subnets."""
    return tx.scalar(_HAS_PLACELESS_SHARES, {"network": network_id}) is not None


def unsettled_share(tx: Tx, network_id: str) -> str | None:
    """The id of a share on it that is not available, or whose access rules are not all in force; None for none."""
    found = tx.scalar(_UNSETTLED, {"network": network_id})
    return None if found is None else str(found)


_UNSETTLED = (
    sa.select(share_instances.c.share_id)
    .where(
        share_instances.c.share_network_id == sa.bindparam("network"),
        sa.or_(share_instances.c.status != "available", share_instances.c.access_rules_status != "active"),
    )
    .limit(1)
)
_HAS_SHARES = (
    sa.select(share_instances.c.id).where(share_instances.c.share_network_id == sa.bindparam("network")).limit(1)
)
_HAS_PLACELESS_SHARES = _HAS_SHARES.where(share_instances.c.share_server_id.is_(None))
