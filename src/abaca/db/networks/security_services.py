# SPDX-License-Identifier: Apache-2.0
"""Security services, and which share networks have them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from abaca.db.engine.database import Tx, insert_into
from abaca.db.engine.lists import Listing, equal, where
from abaca.db.tables.networks import SECURITY_SERVICE_OF_ANY_PROJECT, share_servers
from abaca.db.tables.networks import security_services as t
from abaca.db.tables.networks import share_network_security_services as of_networks
from abaca.domain.ids import new_id
from abaca.domain.networks.security_services import SecurityService

_EQUAL = ("project_id", "name", "type", "user", "server", "dns_ip", "domain", "ou", "default_ad_site")

SECURITY_SERVICES = Listing(
    t,
    filters={
        **{name: equal(t.c[name]) for name in _EQUAL},
        "share_network_id": where(
            lambda name: t.c.id.in_(
                sa.select(of_networks.c.security_service_id).where(
                    of_networks.c.share_network_id == sa.bindparam(name, type_=sa.String())
                )
            )
        ),
    },
    # opens the index over all projects (db/tables)
    unless=(frozenset({"id", "project_id"}), SECURITY_SERVICE_OF_ANY_PROJECT),
)


def add(tx: Tx, values: Mapping[str, object]) -> str:
    """A new security service; its id."""
    service_id = new_id()
    tx.execute(_ADD, {**_NEW, "id": service_id, "created_at": tx.now, **values})
    return service_id


_NEW: dict[str, None] = dict.fromkeys(
    ("name", "description", "dns_ip", "server", "domain", "user", "password", "ou", "default_ad_site")
)
_ADD = sa.insert(t).inline()


def is_joined(tx: Tx, service_id: str) -> bool:
    """Whether a share server has joined it."""
    return tx.scalar(_IS_JOINED, {"service": service_id}) is not None


_IS_JOINED = (
    sa.select(share_servers.c.id)
    .join(of_networks, of_networks.c.share_network_id == share_servers.c.share_network_id)
    .where(of_networks.c.security_service_id == sa.bindparam("service"))
    .limit(1)
)


def of_network(tx: Tx, network_id: str) -> list[SecurityService]:
    """Those that a share network has, by their types."""
    found = SECURITY_SERVICES.entities(tx, SecurityService, {"share_network_id": network_id})
    return sorted(found, key=lambda one: one.type)


def update(tx: Tx, service_id: str, values: Mapping[str, object]) -> None:
    """Change it."""
    tx.change(t, service_id, values)


def delete(tx: Tx, service_id: str) -> bool:
    """Take it away; False where a share network has it."""
    return tx.execute(_DELETE, {"service": service_id}).rowcount == 1


_DELETE = sa.delete(t).where(
    t.c.id == sa.bindparam("service"), ~sa.exists().where(of_networks.c.security_service_id == t.c.id)
)


def show(tx: Tx, service_id: str) -> SecurityService | None:
    """One, or None. Who may see it is the caller's business."""
    return SECURITY_SERVICES.entity(tx, SecurityService, {"id": service_id})


def hold(tx: Tx, service_id: str) -> None:
    """Lock it until this transaction ends, so that no share network gets it meanwhile, or loses it."""
    tx.execute(_HOLD, {"service": service_id})


_HOLD = sa.select(t.c.id).where(t.c.id == sa.bindparam("service")).with_for_update()


def attach(tx: Tx, share_network_id: str, service: SecurityService) -> bool:
    """Give it to a share network; False where that has one of the type."""
    values = {
        "share_network_id": share_network_id,
        "type": service.type,
        "security_service_id": service.id,
        "created_at": tx.now,
    }
    statement = insert_into(of_networks, tx.dialect).on_conflict_do_nothing(index_elements=["share_network_id", "type"])
    return tx.row(statement.returning(of_networks.c.type), values) is not None


def detach(tx: Tx, share_network_id: str, service_id: str) -> bool:
    """Take it from a share network; False where that does not have it."""
    return tx.execute(_DETACH, {"network": share_network_id, "service": service_id}).rowcount == 1


_DETACH = sa.delete(of_networks).where(
    of_networks.c.share_network_id == sa.bindparam("network"),
    of_networks.c.security_service_id == sa.bindparam("service"),
)


def networks_of(tx: Tx, service_ids: Sequence[str]) -> Mapping[str, list[str]]:
    """The ids of the share networks that have each of these, in order."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in tx.rows(_NETWORKS_OF, {"services": list(service_ids)}):
        found[row.security_service_id].append(row.share_network_id)
    return found


_NETWORKS_OF = (
    sa.select(of_networks.c.security_service_id, of_networks.c.share_network_id)
    .where(of_networks.c.security_service_id.in_(sa.bindparam("services", expanding=True)))
    .order_by(of_networks.c.created_at, of_networks.c.share_network_id)
)
