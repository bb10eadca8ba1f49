# SPDX-License-Identifier: Apache-2.0
"""Accept that a share is taken under management: what is checked and written in the one transaction.

The administrator names the pool, and the share server where there is one, and so places it: no scheduler is asked, and
no limit of the project or of the share server, since the share is there already.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.administration import pools, services
from abaca.db.catalog import quotas, share_types
from abaca.db.networks import share_networks, share_servers
from abaca.db.shares import share_instances, shares
from abaca.domain.catalog import extra_specs
from abaca.domain.ids import new_id
from abaca.domain.shares import shares as rules
from abaca.drivers import contract
from abaca.operations.networks import share_network_use, share_server_values
from abaca.operations.shares import share_manage
from abaca.operations.shares.share_instances import pool_name, service_host

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.db.engine.statements import Row
    from abaca.domain.administration.pools import Pool
    from abaca.domain.callers import Caller
    from abaca.domain.catalog.share_types import ShareType
    from abaca.domain.networks.share_servers import ShareServer
    from abaca.settings import Settings

LONGEST_PROTOCOL = 32
LONGEST_PATH = 2000


class ManageRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A share as its administrator describes it: where it is, and what it shall be called."""

    export_path: str
    host: str
    protocol: str
    share_type: str | None = None
    name: str | None = None
    description: str | None = None
    is_public: bool = False
    mount_point_name: str | None = None
    share_server_id: str | None = None
    options: Mapping[str, str] = msgspec.field(default_factory=dict)


def accept(tx: Tx, settings: Settings, caller: Caller, wanted: ManageRequest, columns: tuple[str, ...]) -> Row:
    """The share as it was accepted, with these columns.

    Raises `Invalid`, `NotFound`, `AlreadyManaged`, `Conflict` for a share server that is not active.
    """
    if not 1 <= len(wanted.export_path) <= LONGEST_PATH:
        raise errors.Invalid(f"'export_path' must be text of 1 to {LONGEST_PATH} characters.")
    if not 1 <= len(wanted.protocol) <= LONGEST_PROTOCOL:
        raise errors.Invalid(f"'protocol' must be text of 1 to {LONGEST_PROTOCOL} characters.")
    pool = _pool(tx, settings, wanted.host)
    kind = _type(tx, settings, wanted.share_type)
    _check_fit(pool, kind, wanted.share_server_id)
    server = None if wanted.share_server_id is None else _server(tx, caller, pool, wanted.share_server_id)
    share_manage.refuse_managed(tx, pool.host, wanted.export_path)
    share = _add(tx, caller, wanted, kind)
    instance = share_instances.add(
        tx,
        {
            "id": new_id(),
            "share_id": share["id"],
            "host": pool.host,
            "availability_zone": pool.availability_zone,
            "share_type_id": kind.id,
            "share_network_id": None if server is None else server.share_network_id,
            "share_server_id": None if server is None else server.id,
            "progress": None,
        },
        event="manage",
    )
    if server is not None:
        share_servers.put_on(tx, server.id, str(instance["id"]))
    row = shares.show_added(share, instance, shares.ItsType(kind.name, kind.extra_specs), columns)
    told = contract.ShareInstance(
        id=str(instance["id"]),
        share_id=str(share["id"]),
        project_id=caller.project_id,
        size_gib=0,
        protocol=wanted.protocol.upper(),
        pool=pool_name(pool.host),
        mount_point_name=None if share["mount_point_name"] is None else str(share["mount_point_name"]),
        extra_specs=kind.extra_specs,
        exports=[contract.Export(path=wanted.export_path)],
        server=None if server is None else share_server_values.contract_server(server),
    )
    protocols = settings.enabled_share_protocols
    args = share_manage.Args(told, pool.host, wanted.options, protocols, caller.user_id, kind.id)
    share_manage.start(tx, args, caller)
    quotas.give_back(tx, caller.project_id, caller.user_id, kind.id, {"shares": -1})
    return row


def _pool(tx: Tx, settings: Settings, host: str) -> Pool:
    if not pool_name(host):
        raise errors.Invalid(f"'service_host' is {host[:255]!r}; it must name a pool: host@backend#pool.")
    if services.find(tx, service_host(host)) is None:
        raise errors.NotFound(resource="Service", id=service_host(host))
    pool = pools.show(tx, host, settings.service_down_time)
    if pool is None:
        raise errors.NotFound(resource="Pool", id=host)
    if not pool.is_up:
        raise errors.Invalid(f"The service {pool.service_host} is down; start its worker, and try again.")
    return pool


def _type(tx: Tx, settings: Settings, named: str | None) -> ShareType:
    name = named or settings.default_share_type
    if not name:
        raise errors.Invalid("No default share type is configured; name one with 'share_type'.")
    found = share_types.find(tx, name)
    if found is None:
        raise errors.NotFound(f"Share type {name[:255]} could not be found.")
    return found


def _check_fit(pool: Pool, kind: ShareType, server_id: str | None) -> None:
    """Raises `Invalid` where the type asks for share servers and the back end makes none, or the other way round.

    Also where one is named and none is wanted, or the other way round.
    """
    makes = extra_specs.truth(pool.capabilities.get("driver_handles_share_servers", False)) is True
    if share_network_use.needs_server(kind.extra_specs) != makes:
        raise errors.Invalid(
            f"Share type {kind.name} says driver_handles_share_servers={not makes}, and the back end of {pool.host} "
            f"has {makes}; name a type that fits."
        )
    if makes and not server_id:
        raise errors.Invalid(
            f"Shares of type {kind.name} are on share servers: name the one that it is on with 'share_server_id', from "
            "version 2.49 on."
        )
    if server_id and not makes:
        raise errors.Invalid(f"The back end of {pool.host} has no share servers: it takes no 'share_server_id'.")


def _server(tx: Tx, caller: Caller, pool: Pool, server_id: str) -> ShareServer:
    """The share server that it is on, which stays. Raises `Invalid`, `Conflict` where it is not active."""
    found, network = share_servers.show(tx, server_id), None
    if found is not None and found.share_network_id is not None:
        share_networks.hold(tx, found.share_network_id)  # as whoever deletes the server does
        network = share_networks.show(tx, found.share_network_id)
        found = share_servers.show(tx, server_id)
    if found is None or network is None:
        raise errors.Invalid(f"There is no share server {server_id[:255]}.")
    if found.host != pool.service_host:
        raise errors.Invalid(f"Share server {found.id} is on {found.host}, and the share on {pool.service_host}.")
    if network.status != "active":
        raise errors.Invalid(f"Share network {network.id} is {network.status}; it takes shares when it is active.")
    if found.status != "active":
        raise errors.Conflict(f"Share server {found.id} is {found.status}; it takes shares when it is active.")
    if found.project_id != caller.project_id:
        raise errors.Invalid(
            f"Share server {found.id} is of project {found.project_id}; ask as an administrator of it."
        )
    return found


def _add(tx: Tx, caller: Caller, wanted: ManageRequest, kind: ShareType) -> Mapping[str, object]:
    traits = {name: extra_specs.is_true(kind.extra_specs, name) for name in shares.TRAITS}
    mount_point_name = None
    if wanted.mount_point_name is not None:
        if not extra_specs.is_true(kind.extra_specs, "mount_point_name_support"):
            raise errors.Invalid("The share type does not let its users choose a mount point name.")
        prefix = kind.extra_specs.get("provisioning:mount_point_prefix", caller.project_id)
        mount_point_name = rules.check_mount_point_name(f"{prefix}_{wanted.mount_point_name}")
    return shares.add(
        tx,
        {
            "id": new_id(),
            "project_id": caller.project_id,
            "user_id": caller.user_id,
            "name": wanted.name,
            "description": wanted.description,
            "size": 0,
            "share_proto": wanted.protocol.upper(),
            "is_public": wanted.is_public,
            "replication_type": kind.extra_specs.get("replication_type"),
            "mount_point_name": mount_point_name,
            **traits,
        },
    )
