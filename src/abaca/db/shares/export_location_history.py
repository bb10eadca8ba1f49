# SPDX-License-Identifier: Apache-2.0
"""Where shares could be mounted from, and from when to when: a row for each time that a location was one.

Rows are written by whoever changes the locations, in that transaction, and outlive the share.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

import msgspec
import sqlalchemy as sa

from abaca.db.engine import lists
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Row, columns_of, planned_for_values
from abaca.db.tables.shares import export_location_history as t
from abaca.domain.ids import new_id
from abaca.domain.shares.export_locations import ExportLocation


class Cause(msgspec.Struct, frozen=True):
    """The operation that changes something: its id and kind; None is an operator's hand."""

    operation_id: str | None
    kind: str | None


NOBODY = Cause(None, None)


class Owner(msgspec.Struct, frozen=True):
    """Whose an instance is."""

    share_id: str
    project_id: str


def begin(tx: Tx, owners: Mapping[str, Owner], locations: Sequence[ExportLocation], cause: Cause) -> None:
    """These locations, as written to their own table, begin; `owners` by instance. One statement."""
    if len(locations) <= _FEW:
        for one in locations:
            tx.add(t, _row(tx, owners[one.share_instance_id], one, cause))
    else:
        tx.execute(_BEGIN, [_row(tx, owners[one.share_instance_id], one, cause) for one in locations])


_BEGIN = sa.insert(t).inline()
# what one back end gives an instance
_FEW = 4


def _row(tx: Tx, owner: Owner, location: ExportLocation, cause: Cause) -> dict[str, object]:
    return {
        "id": new_id(),
        "export_location_id": location.id,
        "share_id": owner.share_id,
        "share_instance_id": location.share_instance_id,
        "project_id": owner.project_id,
        "path": location.path,
        "is_admin_only": location.is_admin_only,
        "preferred": location.preferred,
        "since": tx.now,
        "until": None,
        "begun_by": cause.operation_id,
        "begun_by_kind": cause.kind,
    }


def end(tx: Tx, location_ids: Sequence[str], cause: Cause) -> None:
    """These locations end. One statement."""
    if location_ids:
        tx.execute(_END, {"locations": location_ids, **_ended(tx, cause)})


def end_of_instance(tx: Tx, instance_id: str, cause: Cause) -> None:
    """All locations of an instance end."""
    tx.execute(_END_OF_INSTANCE, {"instance": instance_id, **_ended(tx, cause)})


def _ended(tx: Tx, cause: Cause) -> dict[str, object]:
    return {"at": tx.now, "by": cause.operation_id, "by_kind": cause.kind}


_OPEN = (
    sa.update(t)
    .where(t.c.until.is_(None))
    .values(until=sa.bindparam("at"), ended_by=sa.bindparam("by"), ended_by_kind=sa.bindparam("by_kind"))
)
_END = _OPEN.where(t.c.export_location_id.in_(sa.bindparam("locations", expanding=True)))
_END_OF_INSTANCE = _OPEN.where(t.c.share_instance_id == sa.bindparam("instance"))


HISTORY = lists.Listing(
    t,
    filters={"share_id": lists.steady(lists.equal(t.c.share_id)), "is_admin_only": lists.flag(t.c.is_admin_only)},
    sorts=("since", "path"),
)


class Deleted(msgspec.Struct, frozen=True):
    """An instance that was deleted on request, and whose it was."""

    share_id: str
    project_id: str


def deleted_among(tx: Tx, instance_ids: Sequence[str], kinds: Sequence[str]) -> dict[str, Deleted | None]:
    """Of these instances those that have a history; None for one whose last end was by no operation of these kinds.

    That is one that still has locations, and one that was let go of in another way than by deleting it.
    """
    if not instance_ids:
        return {}
    of: dict[str, list[Row]] = {}
    for row in tx.rows(_ENDS, {"instances": instance_ids}):
        of.setdefault(row.share_instance_id, []).append(row)
    return {instance_id: _deleted(rows, kinds) for instance_id, rows in of.items()}


def _deleted(rows: Sequence[Row], kinds: Sequence[str]) -> Deleted | None:
    if any(row.until is None for row in rows):
        return None
    at = max(row.until for row in rows)
    if any(row.ended_by_kind not in kinds for row in rows if row.until == at):
        return None
    return Deleted(rows[0].share_id, rows[0].project_id)


_ENDS = sa.select(t.c.share_instance_id, t.c.share_id, t.c.project_id, t.c.until, t.c.ended_by_kind).where(
    t.c.share_instance_id.in_(sa.bindparam("instances", expanding=True))
)


def give_to(tx: Tx, share_id: str, project_id: str) -> None:
    """What a share's locations were is its new project's to know."""
    tx.execute(sa.update(t).where(t.c.share_id == share_id).values(project_id=project_id))


def project_of(tx: Tx, share_id: str) -> str | None:
    """Whose a share was that may be gone; None when nothing is known of it."""
    found: str | None = tx.scalar(sa.select(t.c.project_id).where(t.c.share_id == share_id).limit(1))
    return found


class Ended(msgspec.Struct, frozen=True, gc=False):
    """A location that is one no more, until when it was, and whose."""

    until: datetime.datetime
    id: str
    share_id: str


def ended(tx: Tx, since: datetime.datetime, most: int, after: Ended | None = None) -> list[Ended]:
    """Those that have ended since then, in that order; those after one, if it is given."""
    place = (since, "") if after is None else (after.until, after.id)
    return tx.entities(Ended, _ENDED, {"until": place[0], "id": place[1], "most": most})


_ENDED = planned_for_values(
    sa.select(*columns_of(Ended, t))
    .where(
        t.c.until >= sa.bindparam("until"),  # by this the index is gone by
        sa.tuple_(t.c.until, t.c.id) > sa.tuple_(sa.bindparam("until"), sa.bindparam("id")),
    )
    .order_by(t.c.until, t.c.id)
    .limit(sa.bindparam("most"))
)


def purge(tx: Tx, ended_before: datetime.datetime, most: int) -> int:
    """Forget up to `most` that ended before then; how many."""
    return tx.execute(_PURGE, {"before": ended_before, "most": most}).rowcount


_OLD = sa.select(t.c.id).where(t.c.until < sa.bindparam("before")).limit(sa.bindparam("most"))
_PURGE = planned_for_values(sa.delete(t).where(t.c.id.in_(_OLD)))
