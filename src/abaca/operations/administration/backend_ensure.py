# SPDX-License-Identifier: Apache-2.0
"""Make the shares of a back end what its present configuration says, while it serves.

It goes through the share instances of the back end page by page, in the order of their ids, so the shares of one page
at most are `ensuring`. Where the driver can look without touching it does so first, unless all of the page before
differed, and only those of which something is not so as it shall be go on: these are marked, handed to the driver in
one call, and written down in one transaction with how far the whole is: after a crash that page alone is done again. Of
all others no row is written. Shares that are busy or broken are skipped and counted.
Between two pages it can be paused; then no share is `ensuring` either. What can go wrong: the back end stays away for
long, or refuses a page; then it fails there, and what was done stays. The claim under faults: it always ends, and then
no share is `ensuring`.

While one has not ended, whoever asks for another joins it, shares that it has passed included; one that is paused stays
so. A worker that comes back with another configuration begins it anew.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from abaca import errors
from abaca.db.administration import services
from abaca.db.journal import claims, findings, keys, operations
from abaca.db.journal.findings import Found
from abaca.db.networks import share_servers
from abaca.db.shares import share_instances, shares
from abaca.domain.administration.ensuring import LISTED, Findings
from abaca.domain.administration.services import Service
from abaca.domain.shares.share_instances import InstanceStatus
from abaca.domain.shares.shares import ENSURABLE
from abaca.drivers import contract
from abaca.journal import interruptions, kinds, queueing
from abaca.journal.events import notify_start
from abaca.operations import events
from abaca.operations.administration import ensure_calls
from abaca.operations.administration.ensured_instances import (
    UNCHANGED,
    Page,
    is_synced_again,
    keep,
    notify_of_lost,
    page_of,
)
from abaca.operations.networks import share_server_mend
from abaca.operations.parts import DRIVER_CALL_S, BackEnd
from abaca.operations.shares import access_rules_sync, metadata_limits

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """How the shares are gone through: whether they show it, how many at a time, and in how many threads of a page.

    The threads are for drivers that take shares one by one.
    """

    shows_status: bool = True
    page_size: int = 100
    threads: int = 8


class Args(msgspec.Struct, frozen=True):
    """Which service, and how."""

    service_id: int
    host: str
    manner: Manner


class Asked(msgspec.Struct, frozen=True):
    """What has become of a request: the operation's id, whether it had been under way before, and whether it waits."""

    id: str
    is_joined: bool = False
    is_paused: bool = False


def digest(driver: contract.Driver) -> str:
    """What the back end says of itself, to be compared. Raises `Unreachable`."""
    said = msgspec.json.encode(sorted(driver.backend_info().items()))
    return hashlib.sha256(said).hexdigest()


def ask(tx: Tx, host: str, service_down_time_s: int, manner: Manner, by: Requester | None) -> Asked:
    """Start it for `host` (host@backend), or join the one under way.

    Raises `NotFound` for a host that no service has, `Conflict` when the service is not up and does not just restart.
    """
    return start(tx, service_that_takes_work(tx, host, service_down_time_s).id, host, manner, by)


def service_that_takes_work(tx: Tx, host: str, service_down_time_s: int) -> Service:
    """The service of a back end. Raises `NotFound`, `Conflict`."""
    service = services.find(tx, host)
    if service is None:
        raise errors.NotFound(f"There is no service {services.SHARE_BINARY} on host {host}.")
    if not service.takes_work(services.alive_since(tx, service_down_time_s)):
        raise errors.Conflict(f"The service on host {host} is not up: nobody would take this on.")
    return service


def start(tx: Tx, service_id: int, host: str, manner: Manner, by: Requester | None) -> Asked:
    """The same for a service that is known, whatever its state."""
    key = keys.key("service", service_id)
    joined = operations.join(tx, OPERATION.kind, key)
    if joined is not None:
        return Asked(joined.id, is_joined=True, is_paused=joined.pause)
    target = queueing.Target(queue=host, keys=[key], resource_id=str(service_id), coalesce_key=key)
    op_id = queueing.enqueue(tx, OPERATION, Args(service_id, host, manner), target, by)
    services.set_ensuring(tx, host, ensuring=True)
    return Asked(op_id)


def ensure_servers(op: Op[BackEnd]) -> None:
    """Its share servers come first, page by page: each by an operation of its own, which is waited for."""
    if not op.parts.backend.driver_handles_share_servers:
        return
    while True:
        asked: Sequence[str] = op.data.get("servers", [])
        with op.db.read() as tx:
            live = operations.live_on(tx, asked, share_server_mend.OPERATION.kind)
        if live:
            conditions = [share_servers.settled_condition(one) for one in live]
            raise interruptions.Wait(f"{len(live)} share servers to be as they shall", conditions=conditions)
        with op.part() as tx:
            found = share_servers.page_of_backend(tx, op.args.host, op.data.get("server", ""), op.args.manner.page_size)
            if not found:
                return
            share_server_mend.mend_many(tx, found, op)
            op.record(servers=[one.id for one in found], server=found[-1].id)
        op.between_parts()


def ensure_pages(op: Op[BackEnd]) -> None:
    """Page by page, from where an earlier life has come to."""
    _stop_if_unwanted(op)
    said = digest(op.parts.driver)
    if not ensure_calls.can_ensure(op.parts.driver):
        raise errors.BackendError(reason="ensuring shares is unsupported by its driver")
    _begin(op, said)
    while _ensure_page(op):
        op.between_parts()


def _stop_if_unwanted(op: Op[BackEnd]) -> None:
    """Whoever pauses it while its worker is dead finds no share `ensuring` either. Raises `Paused`."""
    if op.wants_pause():
        with op.write() as tx:
            share_instances.move_on_backend(tx, op.args.host, "let_go")
        op.between_parts()


def _begin(op: Op[BackEnd], said: str) -> None:
    if op.data.get("backend_info") == said:
        return
    with op.part() as tx:
        total = share_instances.count_on_backend(tx, op.args.host)
        findings.forget(tx, op.id)
        op.record(backend_info=said, cursor="", page=1, total=total, findings=Findings(), all_differ=False)
        op.show_progress(tx, 0, total)
        notify_start(tx, op)


def _ensure_page(op: Op[BackEnd]) -> bool:
    """Whether there was one."""
    name, before, begun_s = f"page-{op.data['page']}", op.data["findings"], time.monotonic()
    looked = _look(op)
    if not looked.seen:
        return False
    page = Page(looked.seen, {}, [], looked.true)
    if looked.differ:
        with op.write() as tx:
            page = _take(op, tx, looked)
    op.point(name, "marked")
    try:
        outcomes = ensure_calls.ensure(op.parts.driver, page.instances, op.args.manner.threads)
        op.point(name, "inside")
    except interruptions.PASSING:
        # until the next try nobody shall be kept from working with these
        with op.write() as tx:
            share_instances.move_many(tx, list(page.taken), "let_go")
        raise
    with op.part() as tx:
        _write_down(op, tx, page, outcomes)
        op.point(name, "writing")
    now, then = (msgspec.convert(found, Findings) for found in (op.data["findings"], before))
    op.on_part(now.more_than(then), time.monotonic() - begun_s)
    op.point(name, "written")
    return True


def next_page(op: Op[BackEnd]) -> Page:
    """The next page, with all that can be ensured. Nothing is held."""
    with op.db.read() as tx:
        seen = _seen(op, tx)
        return page_of(tx, seen, _ensurable(seen), is_held=op.args.manner.shows_status)


def _seen(op: Op[BackEnd], tx: Tx) -> list[InstanceStatus]:
    return share_instances.page_of_backend(tx, op.args.host, op.data["cursor"], op.args.manner.page_size)


def _ensurable(seen: Sequence[InstanceStatus]) -> set[str]:
    return {row.id for row in seen if row.status in ENSURABLE}


class _Looked(NamedTuple):
    """The instances of a page, the ids of those that may have to be changed, and of those that are as they shall be."""

    seen: Sequence[InstanceStatus]
    differ: set[str]
    true: set[str]


def _look(op: Op[BackEnd]) -> _Looked:
    """The next page; whole instances are read only where the driver is asked about them."""
    if op.data.get("all_differ") or not isinstance(op.parts.driver, contract.Inspects):
        with op.db.read() as tx:
            seen = _seen(op, tx)
        return _Looked(seen, _ensurable(seen), set())
    page = next_page(op)
    try:
        outcomes = ensure_calls.inspect(op.parts.driver, page.instances)
    except errors.BackendError:
        return _Looked(page.seen, set(page.taken), set())  # ensuring brings it up again, or says what is wrong
    true = {
        row.id
        for row in page.seen
        if row.id in page.taken
        and row.status != "ensuring"
        and outcomes.get(row.id, UNCHANGED) == UNCHANGED
        and not is_synced_again(page, row.id, UNCHANGED)
    }
    return _Looked(page.seen, set(page.taken) - true, true)


def _take(op: Op[BackEnd], tx: Tx, looked: _Looked) -> Page:
    is_shown = op.args.manner.shows_status
    taken = share_instances.move_many(tx, sorted(looked.differ), "ensure") if is_shown else looked.differ
    # as they are now that they are held
    held = page_of(tx, looked.seen, set(taken), is_held=is_shown)
    # it goes on beside the operations of each share: none that is begun from now on is older
    generation = claims.greatest_generation(tx, op.db.time())
    instances = [msgspec.structs.replace(one, generation=generation) for one in held.instances]
    return Page(looked.seen, held.taken, instances, looked.true)


def _write_down(op: Op[BackEnd], tx: Tx, page: Page, outcomes: Mapping[str, contract.EnsureOutcome]) -> None:
    # in the order in which others lock these: shares before instances; where the rules are applied again the row of an
    # instance changes twice, and that locks its share anyway
    twice = {id for id in page.taken if is_synced_again(page, id, outcomes.get(id, UNCHANGED))}
    marked = {id for id, one in outcomes.items() if one.share_metadata}
    shares.lock_many(tx, sorted(page.taken[id].share_id for id in twice | marked))
    lost = {id: outcome for id, outcome in outcomes.items() if outcome.status == "error" and id in page.taken}
    well = [id for id in page.taken if id not in lost]
    if op.args.manner.shows_status:
        kept = share_instances.move_many(tx, well, "ensured")
    else:
        kept = share_instances.hold_many(tx, well, ENSURABLE)
    gone = share_instances.move_many(tx, list(lost), "lost")
    # whatever somebody took out of our hands meanwhile is theirs
    still = {id: outcomes.get(id, UNCHANGED) for id in kept}
    changed, characters = keep(op, tx, page, still)
    again = [id for id in kept if is_synced_again(page, id, still[id])]
    access_rules_sync.start_many(tx, [page.taken[id].placed() for id in sorted(again)], op)
    metadata_limits.count_anyway(tx, characters)
    reasons = {id: lost[id].reason or "The back end cannot serve it." for id in gone}
    notify_of_lost(op, tx, [(page.taken[id], reason) for id, reason in reasons.items()])
    tally = Tally(op)
    unchanged = tally.findings.unchanged
    for row in page.seen:
        outcome = still.get(row.id, UNCHANGED)
        if row.id in page.true:
            tally.findings.count("unchanged")
        elif row.id in reasons:
            tally.fail(row, reasons[row.id])
        elif row.id not in kept or outcome.is_superseded:
            tally.skip(row, "changed meanwhile" if row.status in ENSURABLE else row.status)
        elif outcome.is_failed:
            tally.fail(row, outcome.reason or "It could not be ensured.")
        else:
            is_mended = row.id in again or bool(outcome.repairs)
            tally.findings.count("updated" if row.id in changed else "repaired" if is_mended else "unchanged")
    op.record(all_differ=tally.findings.unchanged == unchanged)
    tally.record(tx, page)


class Tally:
    """What a page adds to the findings of an operation: counts, examples, and rows of those that need saying."""

    def __init__(self, op: Op[BackEnd]) -> None:
        self.op = op
        self.findings = msgspec.convert(op.data["findings"], Findings)
        self.named: list[Found] = []

    def skip(self, row: InstanceStatus, why: str) -> None:
        """One that is left as it is."""
        self.findings.skip(row.share_id, row.id, why)
        self.name("skipped", row, why)

    def fail(self, row: InstanceStatus, why: str) -> None:
        """One that the back end cannot serve, or not now."""
        self.findings.fail(row.share_id, row.id, why)
        self.name("failed", row, why)

    def name(self, kind: str, row: InstanceStatus, why: str) -> bool:
        """It is listed, if there is room; whether there was."""
        if self.findings.listed >= LISTED:
            return False
        self.findings.listed += 1
        self.named.append(Found(kind=kind, share_id=row.share_id, instance_id=row.id, why=why))
        return True

    def record(self, tx: Tx, page: Page) -> None:
        """Write it, and how far the operation is."""
        self.record_at(tx, page.seen[-1].id)

    def record_at(self, tx: Tx, cursor: str) -> None:
        """The same for a page that ends there."""
        op = self.op
        findings.add_many(tx, op.id, self.named)
        op.record(cursor=cursor, page=op.data["page"] + 1, findings=self.findings)
        op.show_progress(tx, self.findings.done, max(self.findings.done, op.data["total"]))


def succeed(op: Op[BackEnd], tx: Tx) -> None:
    """From now on the configuration that its shares were made for is this one; if it is another again, on it goes."""
    services.set_backend_info(tx, op.args.host, op.data["backend_info"])
    _close(op, tx)
    if not op.is_followed and digest(op.parts.driver) != op.data["backend_info"]:
        start(tx, op.args.service_id, op.args.host, op.args.manner, op)


def fail(op: Op[BackEnd], tx: Tx, _error: errors.AbacaError) -> None:
    """What was done stays; the shares of the page under way are as before."""
    _close(op, tx)


def _close(op: Op[BackEnd], tx: Tx) -> None:
    services.set_ensuring(tx, op.args.host, ensuring=op.is_followed)
    share_instances.move_on_backend(tx, op.args.host, "let_go")


OPERATION = kinds.operation(
    kind="backend-ensure",
    resource="service",
    args=Args,
    parts=BackEnd,
    steps=(
        kinds.Step(ensure_servers, undo=kinds.nothing, within_s=DRIVER_CALL_S),
        kinds.Step(ensure_pages, undo=kinds.nothing, within_s=DRIVER_CALL_S),
    ),
    succeed=succeed,
    fail=fail,
    notifies=kinds.Notification(name="share.ensure", payload=events.ensured_backend, starts=False),
    pausable=True,
)
