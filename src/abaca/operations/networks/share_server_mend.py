# SPDX-License-Identifier: Apache-2.0
"""Make one share server on its back end what the database says, with all subnets of its network and all its shares.

Administrators ask for it where a change has failed, ensuring a back end asks for each share server that serves there,
and whoever finds that a call may have come too late asks for the one that it was about. It runs under the key of the
server and looks at the database anew: addresses that are missing are taken, the server is set up once more, and its
shares are ensured. Those in `error` that were available once, and that the back end serves, are available again. A
server that a deletion of ours has ended is deleted again.

What can go wrong: a subnet is full, or the back end refuses; then the server is as it was, in `error` if it was that.
The claim under faults: it always ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.journal import claims, operations, waits
from abaca.db.networks import allocations, share_network_subnets, share_networks, share_servers
from abaca.db.shares import export_locations, share_instances, shares
from abaca.domain.networks.allocations import Network
from abaca.domain.networks.share_servers import usable
from abaca.domain.shares.shares import ENSURABLE
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.journal.interruptions import Wait
from abaca.operations.administration import ensure_calls, ensured_instances
from abaca.operations.networks import share_server_addresses, share_server_change, share_server_delete
from abaca.operations.networks import share_server_values as values
from abaca.operations.parts import DRIVER_CALL_S, PLUGIN_CALL_S, ServerHost
from abaca.operations.shares import access_rules_sync, metadata_limits

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.networks.share_networks import Subnet
    from abaca.domain.networks.share_servers import ShareServer
    from abaca.domain.shares.share_instances import ShareInstance
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester

# So many shares are ensured in one call.
PAGE = 100
# In so many threads, for drivers that take them one by one.
THREADS = 8


class Args(msgspec.Struct, frozen=True):
    """Which share server. With `is_retry` it was moved to `network_change` for this, and shall serve afterwards."""

    server_id: str
    is_retry: bool = False


class Plan(msgspec.Struct, frozen=True):
    """What shall be: the server on the subnets `wanted`, on those of which in `had` it has addresses; or nothing of it.

    Neither where whatever else is queued for the server sees to that.
    """

    share_network_id: str | None = None
    wanted: Sequence[str] = ()
    had: Sequence[str] = ()
    goes: bool = False
    # whether its shares are served, or shall be
    is_up: bool = True

    @property
    def serves(self) -> bool:
        """Whether there is a server to be set up."""
        return bool(self.wanted)


class UnderWay(errors.Conflict):
    """Share server {id} is {status}; try again when that has ended."""


def retry(tx: Tx, server: ShareServer, by: Requester | None) -> str:
    """Have it serve on all subnets of its network; the operation's id. In error, it is `network_change` until then.

    Raises `UnderWay` where something else is done with it.
    """
    if server.share_network_id is not None:
        share_networks.hold(tx, server.share_network_id)
    if server.status == "error":
        share_servers.move(tx, server.id, "change")
        args = Args(server.id, is_retry=True)
        return queueing.enqueue(tx, OPERATION, args, _target(args, server.host), by)
    if server.status != "active":
        raise UnderWay(id=server.id, status=server.status)
    return look_after(tx, server.id, server.host, by)


def look_after(tx: Tx, server_id: str, host: str, by: Requester | None) -> str:
    """Have it as the database says, whatever it is by then, or join what nobody has begun; the operation's id."""
    args = Args(server_id)
    return queueing.enqueue(tx, OPERATION, args, _target(args, host), by)


def suspect(tx: Tx, server_id: str, host: str, after_s: float) -> None:
    """Look after it in a while: a call for it may come too late until then.

    It keeps nothing of that server waiting, and joins none that is there already, since that would lock it: its caller
    holds rows of other operations.
    """
    later = Wait("calls that may come too late have come", look_again_s=after_s)
    target = queueing.Target(queue=host, keys=(), resource_id=server_id)
    queueing.enqueue(tx, OPERATION, Args(server_id), target, None, wait=later)


def mend_many(tx: Tx, found: Sequence[ShareServer], by: Requester | None) -> None:
    """Those that serve are looked after, and those in error that have shares serve again; of all others nothing."""
    used = share_servers.loads(tx, [one.id for one in found if one.status == "error"])
    failed = share_servers.STATUS.move_many(tx, [id for id, load in used.items() if load.shares], "change")
    wanted = [one for one in found if one.id in failed or one.status == "active"]
    args = [Args(one.id, is_retry=one.id in failed) for one in wanted]
    queueing.enqueue_many(
        tx, OPERATION, [(each, _target(each, one.host)) for each, one in zip(args, wanted, strict=True)], by
    )


def _target(args: Args, host: str) -> queueing.Target:
    word = "retry" if args.is_retry else "mend"
    return msgspec.structs.replace(
        values.target_of(host, args.server_id), coalesce_key=f"{word}-server:{args.server_id}"
    )


def take_server(op: Op[ServerHost], tx: Tx) -> None:
    """Say what it shall be."""
    if op.keys:
        op.record(plan=_plan(op, tx))
    else:  # whoever suspected it kept nothing of it waiting
        look_after(tx, op.args.server_id, op.home, op)
        op.record(plan=Plan())


def _plan(op: Op[ServerHost], tx: Tx) -> Plan:
    server = share_servers.show(tx, op.args.server_id)
    if server is None:
        deletions = [share_server_delete.OPERATION.kind]
        return Plan(goes=bool(operations.done_on(tx, [op.args.server_id], deletions)))
    if server.share_network_id is None or server.status not in ("active", "error", "network_change"):
        return Plan()
    if server.status == "network_change" and not op.args.is_retry:
        return Plan()
    share_networks.hold(tx, server.share_network_id)
    joined = [one.id for one in share_servers.subnets(tx, server.id)]
    had = sorted({one.share_network_subnet_id or "" for one in allocations.of_server(tx, server.id)} - {""})
    if server.status == "error":  # nobody wants it to serve; what a late call has left goes
        wanted = [one for one in joined if one in had]
        return Plan(server.share_network_id, wanted, had, goes=not wanted, is_up=False)
    subnets = share_network_subnets.of_network(tx, server.share_network_id)
    wanted = [one.id for one in reaching(subnets, joined, op.parts.backend.availability_zone)]
    return Plan(server.share_network_id, wanted, had)


def reaching(subnets: Sequence[Subnet], joined: Sequence[str], zone: str) -> list[Subnet]:
    """Those by which a server is to be reached that is on some of them: all of the same zones."""
    zones = {one.availability_zone for one in subnets if one.id in joined}
    return [one for one in subnets if one.availability_zone in zones] or usable(subnets, zone)


def leave_server(_op: Op[ServerHost], _tx: Tx) -> None:
    """Nothing was taken."""


def _planned(op: Op[ServerHost]) -> Plan:
    return msgspec.convert(op.data["plan"], Plan)


def take_addresses(op: Op[ServerHost]) -> None:
    """Those that are missing; of a server that goes, none is left."""
    plan = _planned(op)
    if plan.goes:
        return
    found: dict[str, Network] = {}
    for subnet in _wanted(op, plan):
        network = op.parts.network.look(subnet, op.parts.backend.availability_zone)
        share_server_addresses.take(op, op.args.server_id, subnet, network)
        found[subnet.id] = network
    if found:
        with op.write() as tx:
            for subnet_id, network in found.items():
                share_network_subnets.update(tx, subnet_id, values.facts_of(network))


def _wanted(op: Op[ServerHost], plan: Plan) -> list[Subnet]:
    """Those of the planned subnets that are still there."""
    if plan.share_network_id is None:
        return []
    with op.db.read() as tx:
        its = share_network_subnets.of_network(tx, plan.share_network_id)
    return [one for one in its if one.id in plan.wanted]


def give_back_addresses(op: Op[ServerHost]) -> None:
    """Those that were taken for this."""
    if values.may_serve_still(op):
        return
    plan = _planned(op)
    for subnet_id in set(plan.wanted) - set(plan.had):
        op.parts.network.free(op.args.server_id, subnet_id, op.guard)


def set_up(op: Op[ServerHost]) -> None:
    """The back end's part."""
    plan = _planned(op)
    if plan.goes:
        _tear_down(op)
        op.parts.network.free(op.args.server_id, guard=op.guard)
    elif plan.serves:
        op.record(details=_set_up(op, plan.wanted))


def put_back(op: Op[ServerHost]) -> None:
    """As it was before; one that had no address is no server."""
    plan = _planned(op)
    op.record(is_back=False)
    if plan.had:
        _set_up(op, plan.had)
    elif plan.serves:
        _tear_down(op)
    op.record(is_back=True)


def _set_up(op: Op[ServerHost], subnet_ids: Sequence[str]) -> Mapping[str, str]:
    with op.db.read() as tx:
        server = share_servers.show(tx, op.args.server_id)
        if server is None:
            raise errors.NotFound(resource="Share server", id=op.args.server_id)
        setup = values.setup_of(tx, server, op, subnet_ids)
    return op.parts.servers.set_up_server(setup)


def _tear_down(op: Op[ServerHost]) -> None:
    op.parts.servers.tear_down_server(contract.ShareServer(id=op.args.server_id, generation=op.generation))


def ensure_shares(op: Op[ServerHost]) -> None:
    """What became of those on it; a driver that cannot ensure shares says nothing of them."""
    plan = _planned(op)
    if not (plan.serves and plan.is_up) or not ensure_calls.can_ensure(op.parts.driver):
        return
    with op.db.read() as tx:
        ids = _restorable(tx, share_instances.whole_of(tx, share_servers.instances_on(tx, op.args.server_id)))
    outcomes: dict[str, contract.EnsureOutcome] = {}
    for begin in range(0, len(ids), PAGE):
        op.be_sure_of_lease()
        with op.db.write() as tx:
            told = ensured_instances.page_of(tx, [], set(ids[begin : begin + PAGE]), is_held=False).instances
            generation = claims.greatest_generation(tx, op.db.time())
        server = contract.ShareServer(id=op.args.server_id, details=op.data["details"])
        now = [msgspec.structs.replace(one, server=server, generation=generation) for one in told]
        said = ensure_calls.ensure(op.parts.driver, now, THREADS)
        outcomes |= {one.id: said.get(one.id, ensured_instances.UNCHANGED) for one in now}
    op.record(outcomes=outcomes)


def _restorable(tx: Tx, found: Iterable[ShareInstance]) -> list[str]:
    """The ids of those that serve, and of those in error that have served: these have export locations."""
    rows = list(found)
    broken = [row.id for row in rows if row.status == "error"]
    exported = export_locations.of_many(tx, broken) if broken else {}
    return sorted(row.id for row in rows if row.status in ENSURABLE or exported.get(row.id))


def succeed(op: Op[ServerHost], tx: Tx) -> None:
    """It is on all its subnets, and its shares are told of as the back end serves them."""
    plan = _planned(op)
    if not plan.serves or plan.share_network_id is None:
        return
    server_id, details = op.args.server_id, op.data["details"]
    share_networks.hold(tx, plan.share_network_id)
    if op.args.is_retry:
        share_servers.finish(tx, server_id, "network_change", details)
    else:
        share_servers.keep_details(tx, server_id, details)
    for subnet_id in plan.wanted:
        share_servers.join(tx, server_id, subnet_id)
    _write_down(op, tx, msgspec.convert(op.data.get("outcomes", {}), dict[str, contract.EnsureOutcome]))
    _settle(op, tx)


def _write_down(op: Op[ServerHost], tx: Tx, outcomes: Mapping[str, contract.EnsureOutcome]) -> None:
    marked = [row.share_id for row in share_instances.whole_of(tx, outcomes) if outcomes[row.id].share_metadata]
    shares.lock_many(tx, marked)
    well = {id: one for id, one in outcomes.items() if one.status != "error" and not one.is_failed}
    share_instances.move_many(tx, sorted(id for id, one in well.items() if not one.is_superseded), "recovered")
    lost = share_instances.move_many(tx, sorted(id for id, one in outcomes.items() if one.status == "error"), "lost")
    kept = share_instances.hold_many(tx, sorted(well), ENSURABLE)
    page = ensured_instances.page_of(tx, [], {*kept, *lost}, is_held=False)
    _, characters = ensured_instances.keep(op, tx, page, {id: well[id] for id in kept})
    again = [id for id in sorted(kept) if ensured_instances.is_synced_again(page, id, well[id])]
    access_rules_sync.start_many(tx, [page.taken[id].placed() for id in again], op)
    metadata_limits.count_anyway(tx, characters)
    reasons = [(page.taken[id], outcomes[id].reason or "The back end cannot serve it.") for id in sorted(lost)]
    ensured_instances.notify_of_lost(op, tx, reasons)


def fail(op: Op[ServerHost], tx: Tx, error: errors.AbacaError) -> None:
    """It is as it was; one that serves goes on, and its shares tell whether they are served."""
    plan = msgspec.convert(op.data.get("plan", {}), Plan)
    if plan.share_network_id is not None:
        share_networks.hold(tx, plan.share_network_id)
    if op.args.is_retry:
        share_servers.try_move(tx, op.args.server_id, "failed", "network_change")
    _settle(op, tx)


def _settle(op: Op[ServerHost], tx: Tx) -> None:
    server = share_servers.show(tx, op.args.server_id)
    if server is not None and server.share_network_id is not None:
        share_server_change.settle(tx, server.share_network_id)
    waits.signal(tx, share_servers.settled_condition(op.args.server_id))


OPERATION = kinds.operation(
    kind="share-server-mend",
    resource=values.RESOURCE,
    args=Args,
    parts=ServerHost,
    steps=(
        kinds.DatabaseStep(take_server, undo=leave_server),
        kinds.Step(take_addresses, undo=give_back_addresses, within_s=PLUGIN_CALL_S),
        kinds.Step(set_up, undo=put_back, within_s=DRIVER_CALL_S),
        kinds.Step(ensure_shares, undo=kinds.nothing, within_s=DRIVER_CALL_S),
    ),
    succeed=succeed,
    fail=fail,
    cancellable=False,
)
