# SPDX-License-Identifier: Apache-2.0
"""What it takes to change a share server that serves: a subnet comes or goes, or a directory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from abaca import errors
from abaca.db.administration import messages
from abaca.db.journal import waits
from abaca.db.networks import share_network_subnets, share_networks, share_servers
from abaca.db.shares import export_locations, share_instances, snapshot_export_locations
from abaca.db.shares.export_location_history import Cause, Owner
from abaca.domain.administration.messages import About, Action, Detail
from abaca.domain.networks.share_networks import Subnet
from abaca.drivers import contract
from abaca.networks.contract import told
from abaca.operations.administration import instance_mend
from abaca.operations.networks.share_server_create import NoSuchServer
from abaca.operations.parts import ServerHost
from abaca.operations.shares import metadata_limits
from abaca.operations.shares.share_instances import contract_instance

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.networks.share_servers import ShareServer
    from abaca.domain.shares.export_locations import Export
    from abaca.domain.shares.share_instances import ShareInstance
    from abaca.journal.op import Op


class Which(Protocol):
    """The arguments of an operation that changes a share server: of which share network it is."""

    @property
    def server_id(self) -> str: ...
    @property
    def share_network_id(self) -> str: ...


class OnSubnet(Which, Protocol):
    """The same, and by which subnet."""

    @property
    def subnet_id(self) -> str: ...


def found(tx: Tx, which: OnSubnet) -> tuple[ShareServer, Subnet]:
    """The share server and the subnet. Raises `NoSuchServer` where one of them is gone."""
    server = share_servers.show(tx, which.server_id)
    subnet = subnet_of(tx, which.share_network_id, which.subnet_id)
    if server is None or subnet is None:
        raise NoSuchServer(id=which.server_id)
    return server, subnet


def driver_of(parts: ServerHost) -> contract.UpdatesServerNetworks:
    """The part of a back end's driver that changes subnets of share servers. Raises `Refused` where it has none."""
    driver = parts.driver
    if not isinstance(driver, contract.UpdatesServerNetworks):
        raise contract.Refused(reason="its driver changes no subnets of share servers that serve")
    return driver


def subnet_of(tx: Tx, network_id: str, subnet_id: str) -> Subnet | None:
    """One subnet of a share network; None where it is gone."""
    return next((one for one in share_network_subnets.of_network(tx, network_id) if one.id == subnet_id), None)


def rows_on(tx: Tx, server_id: str) -> list[ShareInstance]:
    """The share instances on a share server."""
    return share_instances.whole_of(tx, share_servers.instances_on(tx, server_id))


def instances_on(tx: Tx, server_id: str) -> list[contract.ShareInstance]:
    """The same as drivers are told of them."""
    return [contract_instance(row) for row in rows_on(tx, server_id)]


def relocate(
    op: Op[ServerHost], tx: Tx, rows: Sequence[ShareInstance], exports: Mapping[str, Sequence[Export]]
) -> Mapping[str, int]:
    """Make these, by instance, where shares can be mounted from; by project how many characters of metadata go."""
    owners = {row.id: Owner(row.share_id, row.project_id) for row in rows}
    wanted = {row.id: exports[row.id] for row in rows if row.id in exports}
    return export_locations.replace_many(tx, wanted, owners, Cause(op.id, op.what.kind)).gone


def finish(op: Op[ServerHost], tx: Tx) -> None:
    """The server serves as its driver has said, at the locations that it has named; the network is held."""
    which: Which = op.args
    outcome = msgspec.convert(op.data, contract.ServerNetworkOutcome)
    gone = _serve(op, tx, {which.server_id: outcome})
    end(which, tx)
    _count(tx, gone)
    _follow(op, tx, outcome.exports)


def finish_many(op: Op[ServerHost], tx: Tx, outcomes: Mapping[str, contract.ServerNetworkOutcome]) -> None:
    """The same for several servers, which end with their change by this."""
    gone = _serve(op, tx, outcomes)
    settle(tx, op.args.share_network_id)
    waits.signal_many(tx, [share_servers.settled_condition(one) for one in sorted(outcomes)])
    _count(tx, gone)
    _follow(op, tx, [instance_id for outcome in outcomes.values() for instance_id in outcome.exports])


def _serve(op: Op[ServerHost], tx: Tx, outcomes: Mapping[str, contract.ServerNetworkOutcome]) -> Mapping[str, int]:
    exports: dict[str, Sequence[contract.Export]] = {}
    for server_id, outcome in sorted(outcomes.items()):
        share_servers.finish(tx, server_id, "network_change", outcome.details)
        exports |= outcome.exports
    return relocate(op, tx, share_instances.whole_of(tx, exports), exports)


def _follow(op: Op[ServerHost], tx: Tx, instance_ids: Iterable[str]) -> None:
    """Have the back end say where mountable snapshots of these are now: it has named the locations of shares only."""
    mounted = snapshot_export_locations.of_share_instances(tx, instance_ids)
    for row in share_instances.whole_of(tx, sorted(mounted)) if mounted else ():
        instance_mend.start(tx, contract_instance(row), op.home, op)


def _count(tx: Tx, gone: Mapping[str, int]) -> None:
    metadata_limits.count_anyway(tx, {project_id: -number for project_id, number in gone.items()})


def lose(op: Op[ServerHost], tx: Tx, error: errors.AbacaError) -> None:
    """It and its shares are in error; nobody says that they are still served as they were."""
    which: Which = op.args
    share_networks.hold(tx, which.share_network_id)
    share_servers.try_move(tx, which.server_id, "failed", "network_change")
    rows = rows_on(tx, which.server_id)
    lost = share_instances.move_many(tx, [row.id for row in rows], "lost")
    for row in rows:
        if row.id in lost:
            about = About(row.project_id, op.request_id, "SHARE", row.share_id)
            reason = told(error.code, error.message)
            messages.record(tx, about, Action.UPDATE, Detail.UNKNOWN_ERROR, reason=reason)
    end(which, tx)


def notify_project(
    op: Op[ServerHost], tx: Tx, what: tuple[str, str], cause: tuple[Action, Detail], error: errors.AbacaError
) -> None:
    """Tell the share network's project what went wrong with something of it; `what` is of which type, and its id."""
    which: Which = op.args
    network = share_networks.show(tx, which.share_network_id)
    if network is not None:
        about = About(network.project_id, op.request_id, *what)
        messages.record(tx, about, *cause, reason=told(error.code, error.message))


def end(which: Which, tx: Tx) -> None:
    """One has ended with its change; who waits for it looks."""
    settle(tx, which.share_network_id)
    waits.signal(tx, share_servers.settled_condition(which.server_id))


def settle(tx: Tx, network_id: str) -> bool:
    """The network is active again when none of its share servers, of which one has just ended, changes any more.

    Whether this made it so.
    """
    if any(one.status == "network_change" for one in share_servers.on_network(tx, network_id)):
        return False
    return share_networks.STATUS.try_move(tx, network_id, "changed", "network_change")
