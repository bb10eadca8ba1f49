# SPDX-License-Identifier: Apache-2.0
"""Who may reach a share. What has become of a rule on each instance is in instance_access_rules.py."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence

import msgspec
import sqlalchemy as sa

from abaca import errors
from abaca.db.engine.database import Tx, insert_into
from abaca.db.engine.statements import Column, Row, Select, columns_of
from abaca.db.shares import instance_access_rules
from abaca.db.tables.shares import access_rules as t
from abaca.db.tables.shares import share_instances
from abaca.domain import metadata
from abaca.domain.attachments import clients
from abaca.domain.ids import new_id
from abaca.domain.shares.access_rules import AccessRule


class Taken(errors.Invalid):
    """Share access {access_type}:{access_to} exists already; update or deny that rule."""


# So many are named in one statement.
AT_ONCE = 500
COLUMNS: dict[str, Column] = {
    **{column.name: column for column in t.c},
    "client": instance_access_rules.CLIENT,
    "state": instance_access_rules.worst().label("state"),
    # on the instances that servers mount from
    "mounted_state": instance_access_rules.worst(instance_access_rules.IS_MOUNTED_FROM).label("mounted_state"),
}


def add(tx: Tx, share_id: str, values: Mapping[str, object]) -> str:
    """A new rule, queued to be applied; its id. Raises `Taken` when the share has one for the same client.

    `values` has the client in both forms, as `access_to` and as `client`.
    """
    rule_id = new_id()
    row = {"id": rule_id, "share_id": share_id, **_NEW, **values, "created_at": tx.now}
    if tx.row(_add(tx.dialect), row) is None:
        raise Taken(access_type=values["access_type"], access_to=values["access_to"])
    instance_access_rules.add(tx, share_id, rule_id)
    return rule_id


_NEW: dict[str, object] = {"access_key": None, "made_for": None, "metadata": {}, "updated_at": None, "is_denied": False}


@functools.cache
def _add(dialect: str) -> sa.Executable:
    insert: sa.Executable = insert_into(t, dialect).on_conflict_do_nothing().returning(t.c.id)
    return insert


def replace(tx: Tx, rule_id: str, share_id: str, values: Mapping[str, object]) -> int:
    """A new rule where another was, whose id is not known from now on; the back end sees no moment without either.

    How many characters of metadata go with the other.
    """
    gone = tx.rows(sa.delete(t).where(t.c.id == rule_id).returning(t.c.metadata))
    add(tx, share_id, values)
    return sum(metadata.characters(row.metadata) for row in gone)


@functools.lru_cache(maxsize=64)
def _select(names: tuple[str, ...]) -> Select:
    return sa.select(*[COLUMNS[name] for name in names]).select_from(t)


@functools.lru_cache(maxsize=64)
def _select_one(names: tuple[str, ...]) -> Select:
    return _select(names).where(t.c.id == sa.bindparam("of_id"))


def find(tx: Tx, rule_id: str) -> AccessRule | None:
    """One rule, or None."""
    return tx.entity(AccessRule, _FIND, {"of_id": rule_id})


_RULES = sa.select(*columns_of(AccessRule, t, **{name: COLUMNS[name] for name in ("client", "state", "mounted_state")}))
_FIND = _RULES.where(t.c.id == sa.bindparam("of_id"))


def show(tx: Tx, rule_id: str, names: tuple[str, ...]) -> Row | None:
    """The same as the columns `names`, for a view."""
    return tx.row(_select_one(names), {"of_id": rule_id})


def of_share(
    tx: Tx,
    share_id: str,
    names: tuple[str, ...],
    *,
    equal: Mapping[str, object] | None = None,
    pairs: Mapping[str, str] | None = None,
) -> Sequence[Row]:
    """A share's rules that match, oldest first."""
    statement = _select_of_share(names)
    for column, value in (equal or {}).items():
        statement = statement.where(COLUMNS[column] == value)
    for key, value in (pairs or {}).items():
        statement = statement.where(t.c.metadata[key].as_string() == value)
    return tx.rows(statement, {"of_share": share_id})


@functools.lru_cache(maxsize=64)
def _select_of_share(names: tuple[str, ...]) -> Select:
    columns = {**COLUMNS, "state": instance_access_rules.worst_of_share("of_share").label("state")}
    found = sa.select(*[columns[name] for name in names]).select_from(t)
    return found.where(t.c.share_id == sa.bindparam("of_share")).order_by(t.c.created_at, t.c.id)


def of_addresses(tx: Tx, share_id: str, addresses: Sequence[str]) -> list[AccessRule]:
    """A share's rules whose clients are these addresses, or certificates of servers, however many others it has."""
    asked = {"of_share": share_id, "addresses": list(addresses)}
    return tx.entities(AccessRule, _OF_ADDRESSES, asked) if addresses else []


_OF_ADDRESSES = _RULES.where(
    t.c.share_id == sa.bindparam("of_share"),
    t.c.access_type.in_(clients.TYPES),
    t.c.client.in_(sa.bindparam("addresses", expanding=True)),
)


class Made(msgspec.Struct, frozen=True, gc=False):
    """A rule that Abaca made."""

    id: str
    client: str
    access_level: str


def has_any_made_for(tx: Tx, share_id: str, mark: str) -> bool:
    """Whether Abaca made any of a share's rules for something, and has not denied it."""
    return tx.scalar(_ANY_MADE, {"of_share": share_id, "mark": mark}) is not None


def made_for(tx: Tx, share_id: str, mark: str) -> list[Made]:
    """Those rules of a share."""
    return tx.entities(Made, _MADE, {"of_share": share_id, "mark": mark})


_IS_MADE = (
    t.c.share_id == sa.bindparam("of_share"),
    t.c.made_for == sa.bindparam("mark"),
    t.c.is_denied.is_(False),
)
_ANY_MADE = sa.select(t.c.id).where(*_IS_MADE).limit(1)
_MADE = sa.select(*columns_of(Made, t, client=instance_access_rules.CLIENT)).where(*_IS_MADE).order_by(t.c.id)


class UsersRule(msgspec.Struct, frozen=True, gc=False):
    """Whom a user has let in to a share."""

    id: str
    share_id: str
    access_to: str


def of_users_on(tx: Tx, share_server_ids: Collection[str]) -> list[UsersRule]:
    """The rules of type ip that users have made for shares which are on these share servers."""
    return tx.entities(UsersRule, _OF_USERS_ON, {"share_servers": sorted(share_server_ids)}) if share_server_ids else []


_OF_USERS_ON = (
    sa.select(*columns_of(UsersRule, t))
    .where(
        t.c.share_id.in_(
            sa.select(share_instances.c.share_id).where(
                share_instances.c.share_server_id.in_(sa.bindparam("share_servers", expanding=True))
            )
        ),
        t.c.access_type == "ip",
        t.c.made_for.is_(None),
        t.c.is_denied.is_(False),
    )
    .order_by(t.c.share_id, t.c.id)
)


def lock(tx: Tx, share_id: str) -> None:
    """Nobody else changes the share's rules until this transaction ends."""
    tx.rows(_LOCK, {"of_share": share_id})


_LOCK = sa.select(t.c.id).where(t.c.share_id == sa.bindparam("of_share")).order_by(t.c.id).with_for_update()


def deny(tx: Tx, rule_id: str) -> None:
    """From now on no instance shall honour it; it goes when none does. Raises `NotFound`."""
    if not tx.execute(_DENY, {"of_id": rule_id, "at": tx.now}).rowcount:
        raise errors.NotFound(resource="Share access rule", id=rule_id)
    instance_access_rules.move(tx, rule_id, "deny")


_DENY = sa.update(t).where(t.c.id == sa.bindparam("of_id")).values(is_denied=True, updated_at=sa.bindparam("at"))


def deny_these(tx: Tx, rule_ids: Sequence[str]) -> None:
    """The same for some of a share whose row is locked."""
    for at in range(0, len(rule_ids), AT_ONCE):
        part = rule_ids[at : at + AT_ONCE]
        tx.execute(_DENY_THESE, {"these": part, "at": tx.now})
        instance_access_rules.deny_these(tx, part)


_DENY_THESE = (
    sa.update(t)
    .where(t.c.id.in_(sa.bindparam("these", expanding=True)))
    .values(is_denied=True, updated_at=sa.bindparam("at"))
)


def deny_all(tx: Tx, share_id: str) -> None:
    """The same for all rules of a share."""
    tx.execute(_DENY_ALL, {"of_share": share_id, "at": tx.now})
    instance_access_rules.deny_all(tx, share_id)


_DENY_ALL = (
    sa.update(t)
    .where(t.c.share_id == sa.bindparam("of_share"), t.c.is_denied.is_(False))
    .values(is_denied=True, updated_at=sa.bindparam("at"))
)


def change_level(tx: Tx, rule_id: str, level: str) -> None:
    """It shall let in at this level. Raises `Conflict` where it is denied, or on its way on any instance."""
    found = instance_access_rules.states(tx, rule_id)
    moved = instance_access_rules.move(tx, rule_id, "update")
    rule = find(tx, rule_id)
    if rule is None or rule.is_denied or moved < len(found):
        busy = next((state for state in found if state not in ("active", "error")), found[0] if found else "gone")
        raise errors.Conflict(resource="Share access rule", id=rule_id, event="update", status=busy)
    update(tx, rule_id, {"access_level": level})


def want_level(tx: Tx, rule_id: str, level: str) -> None:
    """The same wherever it is not on its way: what is under way is followed by a sync with this level."""
    instance_access_rules.move(tx, rule_id, "update")
    update(tx, rule_id, {"access_level": level})


def update(tx: Tx, rule_id: str, values: Mapping[str, object]) -> None:
    """Change anything but what has become of it."""
    tx.change(t, rule_id, values)


def metadata_for_update(tx: Tx, rule_id: str) -> dict[str, str]:
    """A rule's metadata, with its row locked until this transaction ends. Raises `NotFound`."""
    row = tx.row(_METADATA_FOR_UPDATE, {"of_id": rule_id})
    if row is None:
        raise errors.NotFound(resource="Share access rule", id=rule_id)
    return dict(row.metadata)


_METADATA_FOR_UPDATE = sa.select(t.c.metadata).where(t.c.id == sa.bindparam("of_id")).with_for_update()


def remove_all(tx: Tx, share_id: str) -> int:
    """The rules of a share that goes; how many characters of metadata with them."""
    return sum(metadata.characters(row.metadata) for row in tx.rows(_REMOVE_ALL, {"of_share": share_id}))


_REMOVE_ALL = sa.delete(t).where(t.c.share_id == sa.bindparam("of_share")).returning(t.c.metadata)
