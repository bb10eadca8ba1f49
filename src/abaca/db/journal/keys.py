# SPDX-License-Identifier: Apache-2.0
"""Keys: what operations hold while they are under way, so that no two of them work on the same thing.

A key is `<kind>:<id>`, such as `share:4f1c...`. An operation may be begun when it is the oldest unfinished one on each
of its keys, and holds all of them from then to its end. Only operations that have not ended have rows, so whoever asks
why a row is busy asks here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
import sqlalchemy as sa

from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Column, Select, columns_of
from abaca.db.tables.journal import operation_keys as k
from abaca.db.tables.journal import operations as t
from abaca.domain.operations import OperationRecord


def key(kind: str, resource_id: object) -> str:
    """The key of a resource: `key("share", share.id)`."""
    return f"{kind}:{resource_id}"


def is_held(kind: str, resource_id: Column, *more: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """Whether an unfinished operation explains the state of the resource whose id that column is.

    With conditions on columns of `operations` in `more`, only such an operation does.
    """
    prefix = sa.literal_column(f"'{kind}:'", sa.String())
    explained = sa.exists().where(k.c.key == prefix + resource_id)
    return explained if not more else explained.where(t.c.id == k.c.operation_id, *more)


def holders(tx: Tx, of_key: str, *, before: int | None = None) -> list[OperationRecord]:
    """The unfinished operations of a key, the oldest first; with `before` only those that go first."""
    if before is None:
        return tx.entities(OperationRecord, _HOLDERS, {"of_key": of_key})
    return tx.entities(OperationRecord, _HOLDERS_BEFORE, {"of_key": of_key, "before": before})


_HOLDERS = (
    sa.select(*columns_of(OperationRecord, t))
    .join(k, k.c.operation_id == t.c.id)
    .where(k.c.key == sa.bindparam("of_key"))
    .order_by(k.c.place, k.c.seq)
)
_HOLDERS_BEFORE = _HOLDERS.where(t.c.seq < sa.bindparam("before"))


def held_among(tx: Tx, of_keys: Iterable[str]) -> set[str]:
    """Those of these keys that an unfinished operation has."""
    return {str(row.key) for row in tx.rows(_HELD_AMONG, {"of_keys": list(of_keys)})}


_HELD_AMONG = sa.select(k.c.key).distinct().where(k.c.key.in_(sa.bindparam("of_keys", expanding=True)))


class Ahead(msgspec.Struct, frozen=True, gc=False):
    """An operation for whose end another one waits."""

    id: str
    kind: str
    state: str


def ahead_of(tx: Tx, op_id: str) -> list[Ahead]:
    """The operations for whose end this one waits, the first of each of its keys."""
    return tx.entities(Ahead, _AHEAD, {"op": op_id})


_mine, _other = k.alias("mine"), k.alias("other")
_goes_first = sa.or_(
    _other.c.held_key.is_not(None),
    _other.c.place < _mine.c.place,
    sa.and_(_other.c.place == _mine.c.place, _other.c.seq < _mine.c.seq),
)
_beside = (
    _other.c.key == _mine.c.key,
    _other.c.operation_id != _mine.c.operation_id,
    _mine.c.held_key.is_(None),
    _goes_first,
)
# A row may become visible after a younger one has been taken, since transactions do not commit in the order in which
# they took their numbers: what has begun keeps its keys, whoever shows up.


def _asked_of_each(found: Select, *of: sa.FromClause) -> sa.Exists:
    """Whether there is any, asked of each row of `of`: few of these are looked at.

    The offset says nothing else. Without it PostgreSQL joins the keys of all with each other, for each operation anew,
    by a plan that was made while there were none.
    """
    return found.offset(sa.literal_column("0", sa.Integer())).correlate(*of).exists()


_first = _asked_of_each(sa.select(_other.c.key).where(*_beside), _mine)
IS_BLOCKED = _asked_of_each(sa.select(_mine.c.key).where(_mine.c.operation_id == t.c.id, _first), t)
_AHEAD = (
    sa.select(*columns_of(Ahead, t))
    .join(_other, _other.c.operation_id == t.c.id)
    .join(_mine, sa.and_(_mine.c.operation_id == sa.bindparam("op"), *_beside))
    .order_by(_other.c.place, _other.c.seq)
)

_ADD = sa.insert(k).from_select(
    ("operation_id", "key", "place", "seq"),
    sa.select(t.c.id, sa.bindparam("of_key", type_=sa.String), sa.func.coalesce(t.c.place, t.c.seq), t.c.seq).where(
        t.c.id == sa.bindparam("op")
    ),
    include_defaults=False,
)


def add(tx: Tx, wanted: Mapping[str, Iterable[str]]) -> None:
    """Let operations, by their ids, have these keys; an id that there is not adds nothing."""
    rows = [{"op": op_id, "of_key": one} for op_id, ones in wanted.items() for one in dict.fromkeys(ones)]
    if rows:
        tx.execute(_ADD, rows if len(rows) > 1 else rows[0])


def adding_with(insert: sa.Insert) -> sa.Insert:
    """On PostgreSQL: that INSERT of one operation, and its keys `:of_keys`, in one round trip."""
    op = insert.returning(t.c.id, t.c.seq, sa.func.coalesce(t.c.place, t.c.seq).label("place")).cte("op")
    of_keys = sa.func.unnest(sa.bindparam("of_keys", type_=sa.ARRAY(sa.String())))
    rows = sa.select(op.c.id, of_keys, op.c.place, op.c.seq)
    return sa.insert(k).from_select(("operation_id", "key", "place", "seq"), rows, include_defaults=False).inline()


class StrangeKeys(TypeError):
    """A bug in a kind of operation: its children ask for keys that strangers may have."""


def refuse_strange(tx: Tx, own: Collection[str], new: Collection[str], place: int) -> None:
    """Raises `StrangeKeys` unless all of these keys are among the new ones, and only this family has any of them."""
    if strange := sorted(set(own).difference(new)):
        raise StrangeKeys(
            f"a child asks for {', '.join(strange)}, which its parent does not hold: "
            "let the parent have them from the beginning, or name them in new_keys when they are new"
        )
    if own and (taken := tx.row(_TAKEN, {"of_keys": sorted(own), "family": place})) is not None:
        raise StrangeKeys(f"{taken.key} is not new: operation {taken.operation_id} has it")


HOLD = (
    sa.update(k)
    .where(k.c.operation_id.in_(sa.bindparam("ops", expanding=True)), k.c.held_key.is_(None))
    .values(held_key=k.c.key)
)
_TAKEN = sa.select(k.c.key, k.c.operation_id).where(
    k.c.key.in_(sa.bindparam("of_keys", expanding=True)), k.c.place != sa.bindparam("family")
)
RELEASE = sa.delete(k).where(k.c.operation_id == sa.bindparam("op"))
_of_these = k.c.key.in_(sa.bindparam("of_keys", expanding=True))
IS_FOLLOWED = sa.exists().where(_of_these, k.c.operation_id != sa.bindparam("op"))
_FOLLOWERS = sa.select(t.c.queue).distinct().join(k, k.c.operation_id == t.c.id).where(_of_these, t.c.state == "queued")


def followers(tx: Tx, of_keys: Sequence[str]) -> list[str]:
    """The queues on which operations wait for these keys."""
    return [str(row.queue) for row in tx.rows(_FOLLOWERS, {"of_keys": of_keys})]
