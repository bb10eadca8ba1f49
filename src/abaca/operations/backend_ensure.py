# SPDX-License-Identifier: Apache-2.0
"""Make the shares of a back end what its present configuration says, while it serves.

It goes through the share instances of the back end page by page, in the order of their ids, so the shares of one page
at most are `ensuring`. A page is marked, handed to the driver in one call, and written down in one transaction with how
far the whole is: after a crash that page alone is done again. Shares that are busy or broken are skipped and counted.
What can go wrong: the back end stays away for long, or refuses a page; then it fails there, and what was done stays.
The claim under faults: it always ends, and then no share is `ensuring`.

While one is queued or running, whoever asks for another joins it, shares that it has passed included. A worker that
comes back with another configuration begins it anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from abaca import errors
from abaca.db import export_locations, messages, operations, services, share_instances, shares
from abaca.domain.ensuring import Findings
from abaca.domain.messages import About, Action, Detail
from abaca.domain.shares import ENSURABLE
from abaca.drivers import contract
from abaca.operations import access_rules_sync, events, journal
from abaca.operations.share_instances import told

if TYPE_CHECKING:
    from abaca.db.engine import Tx
    from abaca.operations.journal import Op, Requester


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """How the shares are gone through: whether they show it, and how many at a time."""

    shows_status: bool = True
    page_size: int = 500


class Args(msgspec.Struct, frozen=True):
    """Which service, and how."""

    service_id: int
    host: str
    manner: Manner


class Page(msgspec.Struct):
    """A few instances: all that were looked at (rows), and those that are worked on, as the driver is told of them."""

    seen: Sequence[Any]
    taken: Mapping[str, Any]
    told: Sequence[contract.ShareInstance]


def digest(driver: contract.Driver) -> str:
    """What the back end says of itself, to be compared. Raises `Unreachable`."""
    said = msgspec.json.encode(sorted(driver.backend_info().items()))
    return hashlib.sha256(said).hexdigest()


def ask(tx: Tx, host: str, service_down_time_s: int, manner: Manner, by: Requester | None) -> str:
    """Start it for `host` (host@backend), or join the one under way; its id.

    Raises `NotFound` for a host that no service has, `Conflict` when the service is not up.
    """
    service = services.find(tx, host, service_down_time_s)
    if service is None:
        raise errors.NotFound(f"There is no service {services.SHARE_BINARY} on host {host}.")
    if not service.is_up:
        raise errors.Conflict(f"The service on host {host} is not up: nobody would ensure its shares.")
    return start(tx, service.id, host, manner, by)


def start(tx: Tx, service_id: int, host: str, manner: Manner, by: Requester | None) -> str:
    """The same for a service that is known, whatever its state."""
    key = f"service:{service_id}"
    joined = operations.join(tx, key)
    if joined is not None:
        return joined
    target = journal.Target(queue=host, key=key, resource_id=str(service_id), coalesce_key=key)
    op_id = journal.enqueue(tx, OPERATION, Args(service_id, host, manner), target, by)
    services.set_ensuring(tx, host, ensuring=True)
    return op_id


def ensure_pages(op: Op) -> None:
    """Page by page, from where an earlier life has come to."""
    said = digest(op.driver)
    if not isinstance(op.driver, contract.Ensures):
        raise errors.BackendError(reason="ensuring shares is unsupported by its driver")
    _begin(op, said)
    while _ensure_page(op, op.driver):
        op.between_parts()


def _begin(op: Op, said: str) -> None:
    if op.data.get("backend_info") == said:
        return
    with op.part() as tx:
        total = share_instances.count_on_backend(tx, op.args.host)
        op.learn(backend_info=said, cursor="", page=1, total=total, findings=Findings())
        op.show_progress(tx, 0, total)
        events.tell_start(tx, op)


def _ensure_page(op: Op, driver: contract.Ensures) -> bool:
    """Whether there was one."""
    name = f"page-{op.data['page']}"
    with op.write() as tx:
        page = _take(op, tx)
    if not page.seen:
        return False
    op.point(name, "marked")
    try:
        outcomes = driver.ensure(page.told) if page.told else {}
        op.point(name, "inside")
    except journal.PASSING:
        # until the next try nobody shall be kept from working with these
        with op.write() as tx:
            share_instances.move_many(tx, list(page.taken), "let_go")
        raise
    with op.part() as tx:
        _write_down(op, tx, page, outcomes)
        op.point(name, "writing")
    op.point(name, "written")
    return True


def _take(op: Op, tx: Tx) -> Page:
    manner: Manner = op.args.manner
    seen = share_instances.page_of_backend(tx, op.args.host, op.data["cursor"], manner.page_size)
    ids = [row.id for row in seen if row.status in ENSURABLE]
    taken = share_instances.move_many(tx, ids, "ensure") if manner.shows_status else set(ids)
    whole = share_instances.whole_of(tx, taken) if taken else []
    exports = export_locations.of_many(tx, taken) if taken else {}
    return Page(seen, {row.id: row for row in whole}, [told(row, exports.get(row.id, ())) for row in whole])


def _write_down(op: Op, tx: Tx, page: Page, outcomes: Mapping[str, contract.EnsureOutcome]) -> None:
    lost = {id: outcome for id, outcome in outcomes.items() if outcome.status == "error" and id in page.taken}
    well = [id for id in page.taken if id not in lost]
    if op.args.manner.shows_status:
        kept = share_instances.move_many(tx, well, "ensured")
    else:
        kept = share_instances.hold_many(tx, well, ENSURABLE)
    gone = share_instances.move_many(tx, list(lost), "lost")
    # whatever somebody took out of our hands meanwhile is theirs
    still = {id: outcomes.get(id, _UNCHANGED) for id in kept}
    changed = _update(tx, page, still)
    again = [id for id in kept if still[id].reapply_access_rules or page.taken[id].access_rules_status != "active"]
    access_rules_sync.start_many(tx, [page.taken[id] for id in sorted(again)], op)
    reasons = {id: lost[id].reason or "The back end cannot serve it." for id in gone}
    told_of = [(_about(op, page.taken[id]), reason) for id, reason in reasons.items()]
    messages.record_many(tx, told_of, Action.UPDATE, Detail.UNKNOWN_ERROR)
    findings = msgspec.convert(op.data["findings"], Findings)
    for row in page.seen:
        if row.id in reasons:
            findings.fail(row.share_id, row.id, reasons[row.id])
        elif row.id not in kept:
            findings.skip(row.share_id, row.id, "changed meanwhile" if row.id in page.taken else row.status)
        else:
            findings.count("updated" if row.id in changed else "repaired" if row.id in again else "unchanged")
    op.learn(cursor=page.seen[-1].id, page=op.data["page"] + 1, findings=findings)
    op.show_progress(tx, findings.done, max(findings.done, op.data["total"]))


_UNCHANGED = contract.EnsureOutcome()


def _update(tx: Tx, page: Page, outcomes: Mapping[str, contract.EnsureOutcome]) -> set[str]:
    """Write what the back end says of these; the ids of those whose users see something new."""
    exports = {id: one.exports for id, one in outcomes.items() if one.exports is not None}
    changed = export_locations.replace_many(tx, msgspec.to_builtins(exports))
    pairs = {page.taken[id].share_id: one.share_metadata for id, one in outcomes.items() if one.share_metadata}
    marked = shares.merge_metadata(tx, pairs)
    return changed | {id for id in outcomes if page.taken[id].share_id in marked}


def _about(op: Op, row: Any) -> About:
    return About(row.project_id, op.request_id, "SHARE", row.share_id)


def succeed(op: Op, tx: Tx) -> None:
    """From now on the configuration that its shares were made for is this one."""
    services.set_backend_info(tx, op.args.host, op.data["backend_info"])
    _close(op, tx)


def fail(op: Op, tx: Tx, _error: errors.AbacaError) -> None:
    """What was done stays; the shares of the page under way are as before."""
    _close(op, tx)


def _close(op: Op, tx: Tx) -> None:
    services.set_ensuring(tx, op.args.host, ensuring=op.is_followed)
    share_instances.move_on_backend(tx, op.args.host, "let_go")


OPERATION = journal.operation(
    kind="backend-ensure",
    resource="service",
    args=Args,
    steps=(journal.Step(ensure_pages, undo=journal.nothing),),
    succeed=succeed,
    fail=fail,
    tells=events.Telling(name="share.ensure", payload=events.ensured_backend, starts=False),
)
