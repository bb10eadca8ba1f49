# SPDX-License-Identifier: Apache-2.0
"""Compare a back end with the database, page by page, at a stated share of the load.

First it goes through the share instances that the database has there, in the order of their ids, and asks the driver to
look at them; then, where the driver can say which instances the back end has, through those. It locks nothing. What
differs is looked up once more, and if no operation explains it one is queued that mends it under the key of the share
(instance_mend.py). An instance that the back end has, though an operation of ours has deleted it, is deleted again. One
that nobody knows is named and left alone: it may be somebody's data.

Between two pages it waits, without a thread, for as long as its share of the load wants. Whoever goes on after a crash
goes on at its page. What can go wrong: the driver cannot look, or the back end stays away for long; then it fails
there, and what it has found is mended all the same. The claim under faults: it always ends.
"""

from __future__ import annotations

import datetime
import logging
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from abaca.db.administration import services
from abaca.db.journal import findings, keys, operations
from abaca.db.journal.findings import Found
from abaca.db.shares import share_instances
from abaca.domain.administration.ensuring import Findings
from abaca.domain.shares.share_instances import InstanceStatus
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.journal.interruptions import Wait
from abaca.operations.administration import (
    backend_ensure,
    deleted_instances,
    ensure_calls,
    ensured_instances,
    instance_mend,
)
from abaca.operations.administration.backend_ensure import Asked, Tally
from abaca.operations.administration.ensured_instances import Page
from abaca.operations.parts import DRIVER_CALL_S, BackEnd
from abaca.operations.shares.share_instances import keys_of_share

if TYPE_CHECKING:
    from abaca import errors
    from abaca.db.engine.database import Tx
    from abaca.domain.operations import OperationRecord
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester

log = logging.getLogger(__name__)

AGAIN = "it was deleted, and the back end has it again"
# A shorter pause is not worth putting the operation aside.
LEAST_PAUSE_S = 0.05
# What a page takes besides: to be claimed and put aside.
PAGE_S = 0.02


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How much of one thread's time it may take, in percent, and how many instances a page has."""

    percent: float = 100.0
    page_size: int = 100

    def pause_s(self, took_s: float) -> float:
        """How long to wait after a page that took so long."""
        return (took_s + PAGE_S) * (100.0 / self.percent - 1.0)


class Args(msgspec.Struct, frozen=True):
    """Which back end (host@backend), how fast, and whether what differs is mended or only named.

    With `suspects` it looks at these instances alone. `is_round`: the worker has begun it by itself, after the round
    `follows`; what that has named is not logged again.
    """

    host: str
    pace: Pace = Pace()
    mends: bool = True
    suspects: Sequence[contract.ShareInstance] = ()
    is_round: bool = False
    follows: str | None = None


def ask(tx: Tx, host: str, args: Args, service_down_time_s: int, by: Requester | None) -> Asked:
    """Start one for an operator, or join the one under way that an operator has started. Raises `NotFound`, `Conflict`.

    Those that the worker starts by itself go on beside it.
    """
    service = backend_ensure.service_that_takes_work(tx, host, service_down_time_s)
    return _start(tx, args, keys.key("reconcile" if args.mends else "compare", service.id), service.id, by)


def start(tx: Tx, host: str) -> None:
    """Start one that goes through the whole back end at full speed, or join that; nothing for an unknown service."""
    service = services.find(tx, host)
    if service is not None:
        _start(tx, Args(host), keys.key("reconcile", service.id), service.id, None)


def is_due(tx: Tx, host: str, every_s: float) -> bool:
    """Whether the next round may begin: none is under way, and the last has begun so long ago."""
    service = services.find(tx, host)
    rounds = [] if service is None else _rounds(tx, service.id)
    begun_before = tx.now - datetime.timedelta(seconds=every_s)
    return service is not None and all(
        row.state in operations.ENDED and row.created_at <= begun_before for row in rounds
    )


def begin_round(tx: Tx, host: str, pace: Pace) -> None:
    """Begin the next round. Of those before, the last stays to be seen; the journal shall not be full of them."""
    service = services.find(tx, host)
    if service is None:
        return
    before = _rounds(tx, service.id)
    operations.forget(tx, [row.id for row in before[1:]])
    args = Args(host, pace, is_round=True, follows=before[0].id if before else None)
    key = keys.key("reconcile-slowly", service.id)
    target = queueing.Target(queue=host, keys=[key], resource_id=str(service.id), coalesce_key=key)
    queueing.enqueue(tx, OPERATION, args, target, None)


def _rounds(tx: Tx, service_id: int) -> list[OperationRecord]:
    """Those of a service, the newest first."""
    found = operations.find(tx, resource_id=str(service_id), kind=OPERATION.kind)
    return [row for row in found if row.args.get("is_round")]


def suspect(tx: Tx, host: str, instances: Sequence[contract.ShareInstance], after_s: float) -> None:
    """Look at these instances in a while: a call for them may come too late until then.

    It joins none that is there already, since that would lock it: its caller holds rows of other operations.
    """
    service = services.find(tx, host)
    if service is None:
        return
    plain = [msgspec.structs.replace(one, generation=None) for one in instances]
    later = Wait("calls that may come too late have come", look_again_s=after_s)
    target = queueing.Target(queue=host, keys=(), resource_id=str(service.id))
    queueing.enqueue(tx, OPERATION, Args(host, suspects=plain), target, None, wait=later)


def _start(tx: Tx, args: Args, key: str, service_id: int, by: Requester | None) -> Asked:
    joined = operations.join(tx, OPERATION.kind, key)
    if joined is not None:
        return Asked(joined.id, is_joined=True, is_paused=joined.pause)
    target = queueing.Target(queue=args.host, keys=[key], resource_id=str(service_id), coalesce_key=key)
    return Asked(queueing.enqueue(tx, OPERATION, args, target, by))


def compare_pages(op: Op[BackEnd]) -> None:
    """Page by page, from where an earlier run has come to."""
    if op.wants_pause():
        op.between_parts()
    if "cursor" not in op.data:
        total = _expected(op)
        with op.part() as tx:
            op.record(cursor="", pool="", page=1, total=total, findings=Findings(), is_on_backend=False)
            op.show_progress(tx, 0, total)
    while True:
        begun_s = time.monotonic()
        if not _compare_page(op):
            return
        op.between_parts()
        pause_s = op.args.pace.pause_s(time.monotonic() - begun_s)
        if pause_s > LEAST_PAUSE_S:
            raise Wait("its share of the load", look_again_s=pause_s)


def _expected(op: Op[BackEnd]) -> int:
    """How many instances there are: a round takes the number of the one before, since counting reads them all."""
    if op.args.suspects:
        return len(op.args.suspects)
    with op.db.read() as tx:
        if not op.args.is_round:
            return share_instances.count_on_backend(tx, op.args.host)
        last = operations.show(tx, op.args.follows) if op.args.follows is not None else None
    return 0 if last is None else last.progress_done


def _compare_page(op: Op[BackEnd]) -> bool:
    """Whether there may be another."""
    if op.args.suspects:
        _look_at_suspects(op)
        return False
    if not op.data["is_on_backend"]:
        return _compare_instances(op) or _turn_to_backend(op)
    return _compare_backend(op)


def _turn_to_backend(op: Op[BackEnd]) -> bool:
    if not isinstance(op.parts.driver, contract.Enumerates):
        return False
    with op.part():
        op.record(is_on_backend=True, cursor="")
    return True


# ---------------------------------------------------------------- what the database has


def _compare_instances(op: Op[BackEnd]) -> bool:
    with op.db.read() as tx:
        after = op.data["pool"], op.data["cursor"]
        seen = share_instances.page_by_pools(tx, op.args.host, after, op.args.pace.page_size)
        page = _unexplained(tx, seen)
    if not seen:
        return False
    outcomes = ensure_calls.inspect(op.parts.driver, page.instances)
    op.point(f"page-{op.data['page']}", "inside")
    with op.part() as tx:
        tally = Tally(op)
        _judge(op, tx, page, outcomes, tally)
        op.record(pool=seen[-1].host)
        tally.record(tx, page)
    return True


def _unexplained(tx: Tx, seen: Sequence[InstanceStatus]) -> Page:
    """The page of those of these instances that can be compared, since no operation works on their share."""
    of = {row.id: set(keys_of_share(row.share_id, [row.id])) for row in seen}
    busy = keys.held_among(tx, sorted(set().union(*of.values()))) if of else set()
    ids = {
        row.id
        for row in seen
        if row.status in instance_mend.MENDABLE and row.status != "ensuring" and not of[row.id] & busy
    }
    return ensured_instances.page_of(tx, seen, ids, is_held=True)


def _judge(op: Op[BackEnd], tx: Tx, page: Page, outcomes: Mapping[str, contract.EnsureOutcome], tally: Tally) -> None:
    """Count what was found, and queue the mending of what still is so in the database as it was told."""
    suspects = [row for row in page.seen if row.id in outcomes]
    told = {one.id: one for one in page.instances}
    again = {one.id: one for one in _unexplained(tx, suspects).instances} if suspects else {}
    known = _known(op, tx, [row.id for row in suspects])
    for row in page.seen:
        if row.id not in page.taken:
            _skip(op, tally, row, row.status)
        elif row.id not in outcomes:
            tally.findings.count("unchanged")
        elif again.get(row.id) != told[row.id]:
            _skip(op, tally, row, "changed meanwhile")
        else:
            _mend(op, tx, told[row.id], _words(outcomes[row.id]), tally, known)


def _skip(op: Op[BackEnd], tally: Tally, row: InstanceStatus, why: str) -> None:
    """A round that comes again and again only counts those."""
    if op.args.is_round:
        tally.findings.skip(row.share_id, row.id, why)
    else:
        tally.skip(row, why)


def _mend(
    op: Op[BackEnd], tx: Tx, instance: contract.ShareInstance, words: str, tally: Tally, known: Mapping[str, Found]
) -> None:
    tally.findings.count("repaired")
    row = InstanceStatus(instance.id, instance.share_id, "differs")
    is_news = _is_news(tally, "repaired", row, words, known)
    if is_news:
        log.warning("share=%s instance=%s differs on its back end: %s", instance.share_id, instance.id, words)
    if op.args.mends:
        instance_mend.start(tx, instance, op.args.host, op, is_known=not is_news)


def _known(op: Op[BackEnd], tx: Tx, instance_ids: Sequence[str]) -> Mapping[str, Found]:
    """What the round before has named of these."""
    return {} if op.args.follows is None else findings.named(tx, op.args.follows, instance_ids)


def _is_news(tally: Tally, kind: str, row: InstanceStatus, words: str, known: Mapping[str, Found]) -> bool:
    """List it; whether that is worth a line in the log: it was not so the last time, nor is one of too many."""
    found = known.get(row.id)
    is_known = found is not None and (found.kind, found.why) == (kind, words)
    return tally.name(kind, row, words) and not is_known


def _words(outcome: contract.EnsureOutcome) -> str:
    """What is not so, in a few words each."""
    said = list(outcome.repairs)
    if outcome.status == "error" or outcome.is_failed:
        said.append(outcome.reason or "the back end cannot serve it")
    if outcome.exports is not None:
        said.append("it has other export locations")
    if outcome.reapply_access_rules:
        said.append("it lets others in than its access rules say")
    if outcome.share_metadata:
        said.append("its metadata is not what the back end wants")
    if outcome.snapshot_exports:
        said.append("its snapshots have other export locations")
    return "; ".join(said) or "the driver wants something else kept for it"


# ---------------------------------------------------------------- what the back end has


def _compare_backend(op: Op[BackEnd]) -> bool:
    driver, cursor, most = op.parts.driver, op.data["cursor"], op.args.pace.page_size
    if not isinstance(driver, contract.Enumerates):
        return False
    held = driver.instances_after(cursor, most)
    if not held:
        return False
    with op.db.read() as tx:
        strange = set(held) - share_instances.known_on_backend(tx, op.args.host, held)
    if strange:  # what is being deleted has a row for as long as the back end has it
        strange &= set(driver.instances_after(cursor, most))
    with op.part() as tx:
        tally = Tally(op)
        _judge_strange(op, tx, sorted(strange), tally)
        tally.record_at(tx, held[-1])
    return True


def _judge_strange(op: Op[BackEnd], tx: Tx, ids: Sequence[str], tally: Tally) -> None:
    """Those that no row explains: deleted by us, or unknown."""
    deleted = deleted_instances.proven(tx, dict.fromkeys(ids)) if ids else {}
    known = _known(op, tx, ids)
    for instance_id in ids:
        if instance_id in deleted:
            _mend(op, tx, deleted[instance_id], AGAIN, tally, known)
            continue
        tally.findings.count("unknown")
        row = InstanceStatus(instance_id, "", "unknown")
        if _is_news(tally, "unknown", row, f"{instance_id} is on the back end, and nobody here knows it", known):
            log.warning("%s has an instance %s that nobody here knows; it is left alone", op.args.host, instance_id)


# ---------------------------------------------------------------- a few alone


def _look_at_suspects(op: Op[BackEnd]) -> None:
    """Those that still are as they were told; those that were deleted shall be gone there as well."""
    suspects = {one.id: one for one in op.args.suspects}
    with op.db.read() as tx:
        seen = [InstanceStatus(one.id, one.share_id, one.status) for one in share_instances.whole_of(tx, suspects)]
        page = _unexplained(tx, seen)
    gone = [one for id, one in suspects.items() if id not in {row.id for row in seen}]
    outcomes = ensure_calls.inspect(op.parts.driver, [*page.instances, *gone])
    with op.part() as tx:
        tally = Tally(op)
        _judge(op, tx, page, outcomes, tally)
        there = {one.id: one for one in gone if (found := outcomes.get(one.id)) is None or found.status != "error"}
        _judge_strange(op, tx, sorted(there), tally)
        tally.record_at(tx, "")


def succeed(_op: Op[BackEnd], _tx: Tx) -> None:
    """The findings are all there is; mending goes on by itself."""


def fail(_op: Op[BackEnd], _tx: Tx, _error: errors.AbacaError) -> None:
    """The same, as far as it came."""


OPERATION = kinds.operation(
    kind="backend-reconcile",
    resource="service",
    args=Args,
    parts=BackEnd,
    steps=(kinds.Step(compare_pages, undo=kinds.nothing, within_s=DRIVER_CALL_S),),
    succeed=succeed,
    fail=fail,
    pausable=True,
)
