# SPDX-License-Identifier: Apache-2.0
"""Ask a back end whether its share servers of a network could have one exact subnet more; nothing changes by it.

What can go wrong: the subnet is of no network that can be used, or has addresses of another one's; then the answer is
no, as it is where the back end cannot say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.networks import share_network_checks, share_servers
from abaca.domain.networks.share_networks import Subnet
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.networks.contract import NetworkUnknown
from abaca.operations.networks import share_server_addresses
from abaca.operations.networks import share_server_values as values
from abaca.operations.parts import DRIVER_CALL_S, ServerHost

if TYPE_CHECKING:
    import datetime

    from abaca.db.engine.database import Tx
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


class Wanted(msgspec.Struct, frozen=True):
    """The exact subnet that somebody would like to add."""

    availability_zone: str | None = None
    neutron_net_id: str | None = None
    neutron_subnet_id: str | None = None

    @property
    def subject(self) -> str:
        """What answers about it are kept under."""
        return hashlib.blake2b(msgspec.json.encode(self), digest_size=16).hexdigest()


class Args(msgspec.Struct, frozen=True):
    """Which share network, which subnet, and which of the back end's share servers."""

    share_network_id: str
    wanted: Wanted
    server_ids: tuple[str, ...]


def start(tx: Tx, host: str, args: Args, by: Requester | None) -> str:
    """Queue it for a back end; the operation's id."""
    target = queueing.Target(queue=host, keys=(), resource_id=args.share_network_id)
    return queueing.enqueue(tx, OPERATION, args, target, by)


def look_at_servers(op: Op[ServerHost]) -> None:
    """Whether each could."""
    found = refusals(op)
    op.record(is_compatible=not found, refusals=found)


def refusals(op: Op[ServerHost]) -> Mapping[str, str]:
    """By share server why it could not have that subnet; nothing of those that could. Changes nothing."""
    driver, wanted, servers = op.parts.driver, op.args.wanted, op.args.server_ids
    if not isinstance(driver, contract.UpdatesServerNetworks):
        return dict.fromkeys(servers, "its driver adds no subnets to share servers that serve")
    new = _subnet(op.args.share_network_id, wanted, op.accepted_at)
    try:
        beneath = op.parts.network.look(new, op.parts.backend.availability_zone)
    except NetworkUnknown as unknown:
        return dict.fromkeys(servers, str(unknown.details["reason"]))
    told = values.contract_subnet(new, network=beneath)
    with op.db.read() as tx:
        found = share_servers.show_many(tx, servers)
        current = values.subnets_of_many(tx, found)
        refused = share_server_addresses.refusals(tx, [one.id for one in found], new.id, beneath)
    asked = [one for one in found if one.id not in refused]
    said = {one.id: _refusal(driver, values.contract_server(one), current[one.id], told) for one in asked}
    told_by = f"back end {op.parts.backend.name} says"
    return {**refused, **{id: f"{told_by} {why}" for id, why in said.items() if why is not None}}


def _refusal(
    driver: contract.UpdatesServerNetworks,
    server: contract.ShareServer,
    current: Sequence[contract.Subnet],
    new: contract.Subnet,
) -> str | None:
    try:
        return None if driver.check_server_network(server, current, new) else "that it could not"
    except (contract.Refused, contract.Full, contract.Gone) as error:
        return f"no: {error.details.get('reason', error.message)}"


def _subnet(network_id: str, wanted: Wanted, asked_at: datetime.datetime) -> Subnet:
    """As it would be: nobody knows its addresses yet."""
    return Subnet(
        id=wanted.subject,
        share_network_id=network_id,
        availability_zone=wanted.availability_zone,
        neutron_net_id=wanted.neutron_net_id,
        neutron_subnet_id=wanted.neutron_subnet_id,
        network_type=None,
        segmentation_id=None,
        cidr=None,
        gateway=None,
        ip_version=None,
        mtu=None,
        metadata={},
        created_at=asked_at,
        updated_at=None,
    )


def succeed(op: Op[ServerHost], tx: Tx) -> None:
    """The answer is kept."""
    _answer(op, tx, is_compatible=op.data["is_compatible"])


def fail(op: Op[ServerHost], tx: Tx, error: errors.AbacaError) -> None:
    """Who cannot say, cannot do it."""
    _answer(op, tx, is_compatible=False)


def _answer(op: Op[ServerHost], tx: Tx, *, is_compatible: bool) -> None:
    subject = op.args.wanted.subject
    share_network_checks.answer(tx, op.args.share_network_id, subject, op.home, is_compatible=is_compatible)


OPERATION = kinds.operation(
    kind="share-network-check",
    resource="share-network",
    args=Args,
    parts=ServerHost,
    steps=(kinds.Step(look_at_servers, undo=kinds.nothing, within_s=DRIVER_CALL_S),),
    succeed=succeed,
    fail=fail,
)
