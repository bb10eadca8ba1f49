# SPDX-License-Identifier: Apache-2.0
"""Take a share server that exists on a back end under management: it goes on serving where it is, and gets a row here.

Its addresses are nobody else's from then on. It is never deleted by itself, since what it serves may be nobody's yet:
shares on it are taken over one by one (operations/shares/share_manage.py). What can go wrong: the back end knows no
such server, or it answers elsewhere than in the subnet that was named, or another has one of its addresses; then the
server is `manage_error`, the operation says why, and releasing it makes way for another try.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.administration import pools, services
from abaca.db.journal import keys
from abaca.db.networks import allocations, share_network_checks, share_network_subnets, share_networks, share_servers
from abaca.domain.catalog import extra_specs
from abaca.domain.networks import share_networks as rules
from abaca.domain.networks.allocations import Allocation, Network, host_address
from abaca.domain.networks.share_servers import CAPABILITIES
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.networks.contract import AddressNotUsable
from abaca.operations.networks import share_server_create
from abaca.operations.networks import share_server_values as values
from abaca.operations.parts import DRIVER_CALL_S, PLUGIN_CALL_S, BackEnd, ServerHost

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.networks.share_networks import ShareNetwork, Subnet
    from abaca.domain.networks.share_servers import ShareServer
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A share server as its administrator describes it: on which back end, how that calls it, and where it answers.

    Without a `subnet_id` it answers on the share network's default subnet.
    """

    host: str
    identifier: str
    share_network_id: str
    subnet_id: str | None = None
    options: Mapping[str, str] = msgspec.field(default_factory=dict)


class Args(msgspec.Struct, frozen=True):
    """Which share server; what its back end calls it, and by which `options` it is found; in which zone it is."""

    server_id: str
    host: str
    identifier: str
    options: Mapping[str, str]
    availability_zone: str


_ID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PART_OF_ID = re.compile("^[0-9a-f-]{8,36}$")


class AlreadyManaged(errors.Invalid):
    """What {host} calls {identifier} is under management already, as share server {id}; release that first."""


def start(tx: Tx, wanted: Found, by: Requester | None, service_down_time_s: int) -> str:
    """Accept it; the new share server's id. Raises `Invalid`, `AlreadyManaged`."""
    zone = _zone_of(tx, wanted.host, service_down_time_s)
    share_networks.hold(tx, wanted.share_network_id)
    network = share_networks.show(tx, wanted.share_network_id)
    if network is None:
        raise errors.Invalid(f"There is no share network {wanted.share_network_id[:255]}.")
    if network.status != "active":
        raise errors.Invalid(f"Share network {network.id} is {network.status}; try again when it is active.")
    subnet = _subnet(network, share_network_subnets.of_network(tx, network.id), wanted.subnet_id, zone)
    for other in _known(tx, wanted.host, wanted.identifier):
        raise AlreadyManaged(host=wanted.host, identifier=wanted.identifier, id=other)
    row: dict[str, object] = {
        "project_id": network.project_id,
        "share_network_id": network.id,
        "host": wanted.host,
        "identifier": wanted.identifier,
        "is_auto_deletable": False,
        **dict.fromkeys(CAPABILITIES, False),
    }
    share_network_checks.forget_all(tx, network.id)
    server_id = share_servers.add(tx, row, [subnet.id], event="manage")
    target = values.target_of(wanted.host, server_id)
    same = hashlib.sha256(f"{wanted.host} {wanted.identifier}".encode()).hexdigest()
    # of two who want the same the second finds that the first has it
    target = msgspec.structs.replace(target, keys=[*target.keys, keys.key("share-server-identifier", same)])
    args = Args(server_id, wanted.host, wanted.identifier, wanted.options, zone)
    queueing.enqueue(tx, OPERATION, args, target, by)
    return server_id


def _known(tx: Tx, host: str, identifier: str) -> list[str]:
    """The ids of those that are meant, however their identifier is written.

    A back end may call what Abaca made by its id in a form of its own: with underscores, or within a longer name.
    """
    found = [*share_servers.called(tx, host, identifier)]
    said = identifier.lower().replace("_", "-")
    for part in _ID.findall(said) or _PART_OF_ID.findall(said):
        found += share_servers.called_in_part(tx, host, part)
    return found


def _zone_of(tx: Tx, host: str, service_down_time_s: int) -> str:
    """The availability zone of a back end that makes share servers. Raises `Invalid`."""
    if "#" in host:
        raise errors.Invalid(f"'host' is {host[:255]!r}; it must name a back end without a pool: host@backend.")
    found = [one for one in pools.read_for_scheduling(tx, service_down_time_s) if one.service_host == host]
    service = services.find(tx, host)
    if service is None:
        raise errors.Invalid(f"There is no back end {host[:255]}.")
    if service.state(services.alive_since(tx, service_down_time_s)) != "up":
        raise errors.Invalid(f"The service {host} is down; start its worker, and try again.")
    makes = [extra_specs.truth(one.capabilities.get("driver_handles_share_servers", False)) is True for one in found]
    if not any(makes):
        raise errors.Invalid(f"Back end {host} makes no share servers (driver_handles_share_servers).")
    return service.availability_zone


def _subnet(network: ShareNetwork, its: Sequence[Subnet], subnet_id: str | None, zone: str) -> Subnet:
    """The one on which it answers. Raises `Invalid` where that is not clear, or where it is in another zone."""
    if subnet_id is None:
        named = rules.default(its)
        if named is None:
            raise errors.Invalid(
                f"Share network {network.id} has no subnet for all zones; name one with 'share_network_subnet_id'."
            )
    else:
        named = next((one for one in its if one.id == subnet_id), None)
        if named is None:
            raise errors.Invalid(f"Share network {network.id} has no subnet {subnet_id[:255]}.")
    if named.availability_zone not in (None, zone):
        raise errors.Invalid(f"Subnet {named.id} is of zone {named.availability_zone}, and the back end is in {zone}.")
    alike = [one for one in its if one.availability_zone == named.availability_zone]
    if len(alike) > 1:
        raise errors.Invalid(
            f"Share network {network.id} has {len(alike)} subnets of that zone; a share server is taken over on the "
            "only one. Name a share network with one, and add the others when the share server is active."
        )
    return named


def check(op: Op[ServerHost], tx: Tx) -> None:
    """Nobody was faster; whoever was accepted at the same moment waits for this, or has failed."""
    args = op.args
    for other, status in share_servers.called(tx, args.host, args.identifier).items():
        if other != args.server_id and status not in ("manage_starting", "manage_error"):
            raise AlreadyManaged(host=args.host, identifier=args.identifier, id=other)


def uncheck(_op: Op[ServerHost], _tx: Tx) -> None:
    """Nothing was taken."""


def driver_of(parts: BackEnd) -> contract.ManagesServers:
    """The part of a back end's driver that takes share servers over. Raises `Refused` where it has none."""
    if not isinstance(parts.driver, contract.ManagesServers):
        raise contract.Refused(reason="its driver takes no share servers over, and gives none up")
    return parts.driver


def look_on_backend(op: Op[ServerHost]) -> None:
    """Where it answers."""
    found = list(driver_of(op.parts).find_server_addresses(op.args.identifier, op.args.options))
    if not found:
        raise contract.Refused(reason=f"share server {op.args.identifier} has no address")
    op.record(addresses=found)


def _server(tx: Tx, server_id: str) -> ShareServer:
    found = share_servers.show(tx, server_id)
    if found is None:
        raise share_server_create.NoSuchServer(id=server_id)
    return found


def adopt_addresses(op: Op[ServerHost]) -> None:
    """They are its own, and nobody else gets them."""
    networks = msgspec.convert(op.data["networks"], dict[str, Network])
    with op.db.read() as tx:
        found = share_servers.subnets(tx, op.args.server_id)
        left = allocations.left_by(tx, op.args.host, op.args.identifier)
    if len(found) != 1:  # the subnet it answers on went, or another came
        raise share_server_create.NoSuchServer(id=op.args.server_id)
    (subnet,) = found
    network = networks[subnet.id]
    _refuse_elsewhere(left, op.data["addresses"], subnet, network)
    op.parts.network.adopt(op.args.server_id, subnet, network, op.data["addresses"], op.guard)


def _refuse_elsewhere(left: Sequence[Allocation], addresses: Sequence[str], subnet: Subnet, network: Network) -> None:
    """Raises `AddressNotUsable` for one that was left in another network, which has the same addresses."""
    has = {host_address(one, network) for one in addresses}
    for one in left:
        if one.ip_address in has and one.network != network.key:
            reason = (
                f"it was left in network {one.network}; take it over in a share network that lies there, or release "
                "the address first if it answers there no more"
            )
            raise AddressNotUsable(address=one.ip_address, id=subnet.id, reason=reason)


def disown_addresses(op: Op[ServerHost]) -> None:
    """Undo: they are kept for it if they were before, and nobody's otherwise."""
    if not values.may_serve_still(op):
        op.parts.network.disown(op.args.server_id, op.guard)


def manage_on_backend(op: Op[ServerHost]) -> None:
    """The back end's part; who uses it goes on."""
    with op.db.read() as tx:
        setup = values.setup_of(tx, _server(tx, op.args.server_id), op)
    details = driver_of(op.parts).manage_server(setup, op.args.identifier, op.args.options)
    op.record(details=details, supports=share_server_create.supports_of(op.parts.driver))


def give_up_on_backend(op: Op[ServerHost]) -> None:
    """Undo: it is there as before, and nobody's."""
    if isinstance(op.parts.driver, contract.ManagesServers):
        details = op.data.get("details", {})
        server = contract.ShareServer(id=op.args.server_id, details=details, generation=op.generation)
        op.record(is_back=False)
        op.parts.driver.unmanage_server(server)
        op.record(is_back=True)


def succeed(op: Op[ServerHost], tx: Tx) -> None:
    """Shares can be on it from here on."""
    share_servers.update(tx, op.args.server_id, msgspec.convert(op.data["supports"], dict[str, bool]))
    details = {"identifier": op.args.identifier, **op.data["details"]}
    share_servers.finish(tx, op.args.server_id, "manage_starting", details)
    values.settle(tx, op.args.server_id)


def fail(op: Op[ServerHost], tx: Tx, error: errors.AbacaError) -> None:
    """It stays visible."""
    share_servers.try_move(tx, op.args.server_id, "failed", "manage_starting")
    values.settle(tx, op.args.server_id)


OPERATION = kinds.operation(
    kind="share-server-manage",
    resource=values.RESOURCE,
    args=Args,
    parts=ServerHost,
    steps=(
        kinds.DatabaseStep(check, undo=uncheck),
        kinds.Step(share_server_create.look_at_networks, undo=kinds.nothing, within_s=PLUGIN_CALL_S),
        kinds.Step(look_on_backend, undo=kinds.nothing, within_s=DRIVER_CALL_S),
        kinds.Step(adopt_addresses, undo=disown_addresses, within_s=PLUGIN_CALL_S),
        kinds.Step(manage_on_backend, undo=give_up_on_backend, within_s=DRIVER_CALL_S),
    ),
    succeed=succeed,
    fail=fail,
)
