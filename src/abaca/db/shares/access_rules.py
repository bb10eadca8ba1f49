# SPDX-License-Identifier: Apache-2.0
"""Who may reach a share. What has become of a rule on each instance is in instance_access_rules.py."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from abaca import errors
from abaca.db.engine.database import Tx, insert_into
from abaca.db.shares import instance_access_rules
from abaca.db.tables.shares import access_rules as t
from abaca.domain.ids import new_id


class Taken(errors.Invalid):
    """Share access {access_type}:{access_to} exists already; update or deny that rule."""


COLUMNS: dict[str, sa.ColumnElement[Any]] = {
    **{column.name: column for column in t.c},
    "state": instance_access_rules.worst().label("state"),
    # on the instances that servers mount from
    "mounted_state": instance_access_rules.worst(instance_access_rules.IS_MOUNTED_FROM).label("mounted_state"),
}


def add(tx: Tx, share_id: str, values: Mapping[str, Any]) -> str:
    """A new rule, queued to be applied; its id. Raises `Taken` when the share has one for the same client."""
    row = {"id": new_id(), "share_id": share_id, **_NEW, **values, "created_at": tx.now}
    if tx.row(_add(tx.dialect), row) is None:
        raise Taken(access_type=values["access_type"], access_to=values["access_to"])
    instance_access_rules.add(tx, share_id, row["id"])
    return str(row["id"])


_NEW: dict[str, Any] = {"access_key": None, "made_for": None, "metadata": {}, "updated_at": None, "is_denied": False}


@functools.cache
def _add(dialect: str) -> Any:
    same = [t.c.share_id, t.c.access_type, t.c.access_to]
    return insert_into(t, dialect).on_conflict_do_nothing(index_elements=same).returning(t.c.id)


def replace(tx: Tx, rule_id: str, share_id: str, values: Mapping[str, Any]) -> str:
    """A new rule where another was, whose id is not known from now on; the back end sees no moment without either."""
    tx.execute(sa.delete(t).where(t.c.id == rule_id))
    return add(tx, share_id, values)


@functools.lru_cache(maxsize=64)
def _select(names: tuple[str, ...]) -> sa.Select[Any]:
    return sa.select(*[COLUMNS[name] for name in names]).select_from(t)


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
    statement = _select_of_share(names)
    for column, value in (equal or {}).items():
        statement = statement.where(COLUMNS[column] == value)
    for key, value in (metadata or {}).items():
        statement = statement.where(t.c.metadata[key].as_string() == value)
    return tx.rows(statement, {"of_share": share_id})


@functools.lru_cache(maxsize=64)
def _select_of_share(names: tuple[str, ...]) -> sa.Select[Any]:
    columns = {**COLUMNS, "state": instance_access_rules.worst_of_share("of_share").label("state")}
    found = sa.select(*[columns[name] for name in names]).select_from(t)
    return found.where(t.c.share_id == sa.bindparam("of_share")).order_by(t.c.created_at, t.c.id)


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


def deny(tx: Tx, rule_id: str) -> None:
    """From now on no instance shall honour it; it goes when none does. Raises `NotFound`."""
    if not tx.execute(_DENY, {"of_id": rule_id, "at": tx.now}).rowcount:
        raise errors.NotFound(resource="Share access rule", id=rule_id)
    instance_access_rules.move(tx, rule_id, "deny")


_DENY = sa.update(t).where(t.c.id == sa.bindparam("of_id")).values(is_denied=True, updated_at=sa.bindparam("at"))


def change_level(tx: Tx, rule_id: str, level: str) -> None:
    """It shall let in at this level. Raises `Conflict` where it is denied, or on its way on any instance."""
    found = instance_access_rules.states(tx, rule_id)
    moved = instance_access_rules.move(tx, rule_id, "update")
    rule = show(tx, rule_id, ("is_denied",))
    if rule is None or rule.is_denied or moved < len(found):
        busy = next((state for state in found if state not in ("active", "error")), found[0] if found else "gone")
        raise errors.Conflict(resource="Share access rule", id=rule_id, event="update", status=busy)
    update(tx, rule_id, {"access_level": level})


def want_level(tx: Tx, rule_id: str, level: str) -> None:
    """The same wherever it is not on its way: what is under way is followed by a sync with this level."""
    instance_access_rules.move(tx, rule_id, "update")
    update(tx, rule_id, {"access_level": level})


def update(tx: Tx, rule_id: str, values: Mapping[str, Any]) -> None:
    """Change anything but what has become of it."""
    tx.change(t, rule_id, values)


def metadata_for_update(tx: Tx, rule_id: str) -> dict[str, str]:
    """A rule's metadata, with its row locked until this transaction ends."""
    return dict(tx.scalar(sa.select(t.c.metadata).where(t.c.id == rule_id).with_for_update()) or {})
