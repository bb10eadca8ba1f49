# SPDX-License-Identifier: Apache-2.0
"""Who may reach a share."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from abaca import errors
from abaca.db.engine import moving
from abaca.db.engine.database import Tx
from abaca.db.tables.shares import access_rules as t
from abaca.domain.ids import new_id


class Taken(errors.Invalid):
    """Share access {access_type}:{access_to} exists already; update or deny that rule."""


COLUMNS: dict[str, sa.ColumnElement[Any]] = {column.name: column for column in t.c}


STATE = moving.Mover(t.c.state, "Share access rule")
move = STATE.move


def add(tx: Tx, share_id: str, values: Mapping[str, Any]) -> str:
    """A new rule, queued to be applied; its id. Raises `Taken` when the share has one for the same client."""
    row = {"id": new_id(), "share_id": share_id, **_NEW, **values, "created_at": tx.now}
    if not moving.add(tx, t, row, {"state": "allow"}, unless_taken=True):
        raise Taken(access_type=values["access_type"], access_to=values["access_to"])
    return str(row["id"])


_NEW: dict[str, Any] = {"access_key": None, "made_for": None, "metadata": {}, "updated_at": None}


def replace(tx: Tx, rule_id: str, share_id: str, values: Mapping[str, Any]) -> str:
    """A new rule where another was, whose id is not known from now on; the back end sees no moment without either."""
    tx.execute(sa.delete(t).where(t.c.id == rule_id))
    return add(tx, share_id, values)


@functools.lru_cache(maxsize=64)
def _select(names: tuple[str, ...]) -> sa.Select[Any]:
    return sa.select(*[COLUMNS[name] for name in names])


@functools.lru_cache(maxsize=64)
def _select_one(names: tuple[str, ...]) -> sa.Select[Any]:
    return _select(names).where(t.c.id == sa.bindparam("of_id"))


def show(tx: Tx, rule_id: str, names: tuple[str, ...]) -> sa.Row[Any] | None:
    """The columns `names` of one rule, or None."""
    return tx.row(_select_one(names), {"of_id": rule_id})


def of_share(
    tx: Tx,
    share_id: str,
    names: tuple[str, ...],
    *,
    equal: Mapping[str, Any] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Sequence[sa.Row[Any]]:
    """A share's rules that match, oldest first."""
    statement = _select(names).where(t.c.share_id == share_id).order_by(t.c.created_at, t.c.id)
    for column, value in (equal or {}).items():
        statement = statement.where(t.c[column] == value)
    for key, value in (metadata or {}).items():
        statement = statement.where(t.c.metadata[key].as_string() == value)
    return tx.rows(statement)


def of_addresses(tx: Tx, share_id: str, names: tuple[str, ...], addresses: Sequence[str]) -> Sequence[sa.Row[Any]]:
    """A share's rules of type ip that name one of these, however many others it has."""
    asked = {"of_share": share_id, "addresses": list(addresses)}
    return tx.rows(_select_addresses(names), asked) if addresses else []


@functools.lru_cache(maxsize=64)
def _select_addresses(names: tuple[str, ...]) -> sa.Select[Any]:
    named = t.c.access_to.in_(sa.bindparam("addresses", expanding=True))
    return _select(names).where(t.c.share_id == sa.bindparam("of_share"), t.c.access_type == "ip", named)


def lock(tx: Tx, share_id: str) -> None:
    """Nobody else changes the share's rules until this transaction ends."""
    tx.rows(sa.select(t.c.id).where(t.c.share_id == share_id).order_by(t.c.id).with_for_update())


def take(tx: Tx, share_id: str) -> Sequence[sa.Row[Any]]:
    """Move every queued rule of a share to being worked on, and show all its rules as they are now."""
    _TAKE.run(tx, {"of_share": share_id, "at": tx.now})
    return tx.rows(_ALL, {"of_share": share_id})


_TAKE = STATE.moves("take", t.c.share_id == sa.bindparam("of_share"))
_ALL = sa.select(t).where(t.c.share_id == sa.bindparam("of_share")).order_by(t.c.created_at, t.c.id)


def finish(tx: Tx, rule_ids: Sequence[str], event: str) -> None:
    """Let `done` or `failed` happen to the rules that are still being worked on; a denied rule that is done is gone."""
    if not rule_ids:
        return
    if event == "done":
        tx.execute(_DROP, {"ids": rule_ids})
    _FINISH[event].run(tx, {"ids": rule_ids, "at": tx.now})


_AMONG = t.c.id.in_(sa.bindparam("ids", expanding=True))
_DROP = sa.delete(t).where(_AMONG, t.c.state == "denying")
_FINISH = {event: STATE.moves(event, _AMONG) for event in ("done", "failed")}


def summary(tx: Tx, share_id: str) -> set[str]:
    """The states that a share's rules are in."""
    return {row[0] for row in tx.rows(_STATES, {"of_share": share_id})}


_STATES = sa.select(t.c.state).where(t.c.share_id == sa.bindparam("of_share")).distinct()


def update(tx: Tx, rule_id: str, values: Mapping[str, Any]) -> None:
    """Change anything but the state."""
    tx.change(t, rule_id, values)


def metadata_for_update(tx: Tx, rule_id: str) -> dict[str, str]:
    """A rule's metadata, with its row locked until this transaction ends."""
    return dict(tx.scalar(sa.select(t.c.metadata).where(t.c.id == rule_id).with_for_update()) or {})
