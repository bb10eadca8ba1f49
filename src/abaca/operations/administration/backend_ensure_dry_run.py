# SPDX-License-Identifier: Apache-2.0
"""Say what ensuring a back end's shares would change, and change nothing.

It goes through the same pages in the same order and asks the driver to look only. What would change is counted and
listed as the findings of this operation, and nothing else is written: no status, no export location, no rule, no
`ensuring`. What can go wrong: the driver cannot look, or stays away for long. The claim under faults: it always ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from abaca import errors
from abaca.db.journal import keys, operations
from abaca.db.shares import export_locations, share_instances
from abaca.domain.administration.ensuring import Findings
from abaca.journal import kinds, queueing
from abaca.operations.administration import ensure_calls
from abaca.operations.administration.backend_ensure import (
    Args,
    Asked,
    Manner,
    Tally,
    next_page,
    service_that_takes_work,
)
from abaca.operations.administration.ensured_instances import UNCHANGED, Page, is_synced_again
from abaca.operations.parts import DRIVER_CALL_S, BackEnd

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.drivers import contract
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


def ask(tx: Tx, host: str, service_down_time_s: int, manner: Manner, by: Requester | None) -> Asked:
    """Start it for `host` (host@backend), or join the one under way. Raises `NotFound`, `Conflict`."""
    service = service_that_takes_work(tx, host, service_down_time_s)
    key = keys.key("dry-run", service.id)
    joined = operations.join(tx, OPERATION.kind, key)
    if joined is not None:
        return Asked(joined.id, is_joined=True, is_paused=joined.pause)
    target = queueing.Target(queue=host, keys=[key], resource_id=str(service.id), coalesce_key=key)
    return Asked(queueing.enqueue(tx, OPERATION, Args(service.id, host, manner), target, by))


def inspect_pages(op: Op[BackEnd]) -> None:
    """Page by page, from where an earlier life has come to."""
    if op.wants_pause():
        op.between_parts()
    if "cursor" not in op.data:
        with op.part() as tx:
            total = share_instances.count_on_backend(tx, op.args.host)
            op.record(cursor="", page=1, total=total, findings=Findings())
            op.show_progress(tx, 0, total)
    while _inspect_page(op):
        op.between_parts()


def _inspect_page(op: Op[BackEnd]) -> bool:
    """Whether there was one."""
    page = next_page(op)
    if not page.seen:
        return False
    outcomes = ensure_calls.inspect(op.parts.driver, page.instances)
    op.point(f"page-{op.data['page']}", "inside")
    with op.part() as tx:
        tally = Tally(op)
        _compare(tx, page, outcomes, tally)
        tally.record(tx, page)
    return True


def _compare(tx: Tx, page: Page, outcomes: ensure_calls.Outcomes, tally: Tally) -> None:
    exports = {id: one.exports for id, one in outcomes.items() if one.exports is not None}
    moved = export_locations.differences(tx, exports)
    for row in page.seen:
        outcome = outcomes.get(row.id, UNCHANGED)
        if row.id not in page.taken:
            tally.skip(row, row.status)
        elif outcome.status == "error" or outcome.is_failed:
            tally.fail(row, outcome.reason or "The back end cannot serve it.")
        else:
            seen_by_users, mended = _words(page, row.id, outcome, moved.get(row.id))
            kind = "updated" if seen_by_users else "repaired" if mended else "unchanged"
            if kind != "unchanged":
                tally.name(kind, row, "; ".join(seen_by_users + mended))
            tally.findings.count("updated" if seen_by_users else "repaired" if mended else "unchanged")


def _words(page: Page, id: str, outcome: contract.EnsureOutcome, moved: str | None) -> tuple[list[str], list[str]]:
    """What users would see, and what they would not."""
    held = page.taken[id].metadata
    pairs = {key: value for key, value in (outcome.share_metadata or {}).items() if held.get(key) != value}
    seen = [moved] if moved else []
    seen += [f"metadata {key} becomes {value}" for key, value in sorted(pairs.items())]
    rules = ["its access rules are applied again"] if is_synced_again(page, id, outcome) else []
    return seen, [*outcome.repairs, *rules]


def succeed(_op: Op[BackEnd], _tx: Tx) -> None:
    """The findings are all there is."""


def fail(_op: Op[BackEnd], _tx: Tx, _error: errors.AbacaError) -> None:
    """The same, as far as it came."""


OPERATION = kinds.operation(
    kind="backend-ensure-dry-run",
    resource="service",
    args=Args,
    parts=BackEnd,
    steps=(kinds.Step(inspect_pages, undo=kinds.nothing, within_s=DRIVER_CALL_S),),
    succeed=succeed,
    fail=fail,
    pausable=True,
)
