# SPDX-License-Identifier: Apache-2.0
"""Where an instance can be mounted from. A location keeps its id, and its metadata, as long as its path stays."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from abaca.db.engine.database import Tx
from abaca.db.shares import export_location_history as history
from abaca.db.shares.export_location_history import Cause, Owner
from abaca.db.tables.shares import export_locations as t
from abaca.db.tables.shares import share_instances
from abaca.domain.ids import new_id

COLUMNS: dict[str, sa.ColumnElement[Any]] = {column.name: column for column in t.c}


def add(tx: Tx, instance_id: str, exports: Sequence[Mapping[str, Any]], owner: Owner, cause: Cause) -> None:
    """The locations of a new instance: `path`, `is_admin_only`, `preferred`."""
    found = [_row(tx, instance_id, export) for export in exports]
    if found:
        tx.execute(_ADD, found)
        history.begin(tx, {instance_id: owner}, found, cause)


_ADD = sa.insert(t).inline()


def _row(tx: Tx, instance_id: str, export: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": new_id(),
        "share_instance_id": instance_id,
        "path": export["path"],
        "is_admin_only": export.get("is_admin_only", False),
        "preferred": export.get("preferred", False),
        "preferred_by_hand": False,
        "metadata": {},
        "created_at": tx.now,
        "updated_at": None,
    }


class _Changes:
    """What makes the locations of instances those that they shall be, gathered for few statements."""

    def __init__(self, tx: Tx, old: Iterable[sa.Row[Any]]) -> None:
        self.tx = tx
        self.old: dict[str, dict[str, sa.Row[Any]]] = {}
        for row in old:
            self.old.setdefault(row.share_instance_id, {})[row.path] = row
        self.gone: list[str] = []
        self.new: list[dict[str, Any]] = []
        self.marked: list[dict[str, Any]] = []

    def add(self, instance_id: str, exports: Sequence[Mapping[str, Any]]) -> str | None:
        """What changes for this instance, in words; None when nothing does."""
        old = self.old.get(instance_id, {})
        new = {export["path"]: _row(self.tx, instance_id, export) for export in exports}
        said = [f"{path} goes" for path in sorted(old.keys() - new.keys())]
        self.gone += [row.id for path, row in old.items() if path not in new]
        for path, row in new.items():
            if path not in old:
                self.new.append(row)
                said.append(f"{path} comes")
                continue
            if old[path].preferred_by_hand:
                row["preferred"] = old[path].preferred
            if any(getattr(old[path], mark) != row[mark] for mark in _MARKS):
                self.marked.append({**old[path]._mapping, **{m: row[m] for m in _MARKS}})
                said += [f"{path} {words[row[m]]}" for m, words in _SAID.items() if getattr(old[path], m) != row[m]]
        return ", ".join(said) or None

    def write(self, owners: Mapping[str, Owner], cause: Cause) -> None:
        if self.gone:
            self.tx.execute(_REMOVE, {"locations": self.gone})
        if self.new:
            self.tx.execute(_ADD, self.new)
        if self.marked:
            marks = [{"location": row["id"], "at": self.tx.now, **{m: row[m] for m in _MARKS}} for row in self.marked]
            self.tx.execute(_MARK, marks)
        history.end(self.tx, [*self.gone, *(row["id"] for row in self.marked)], cause)
        history.begin(self.tx, owners, [*self.new, *self.marked], cause)


_MARKS = ("is_admin_only", "preferred")
# what it is to somebody that such a mark is gone, or there
_SAID = {
    "is_admin_only": ("is for everybody", "is for administrators only"),
    "preferred": ("is no longer preferred", "is preferred"),
}
_REMOVE = sa.delete(t).where(t.c.id.in_(sa.bindparam("locations", expanding=True)))
_MARK = (
    sa.update(t)
    .where(t.c.id == sa.bindparam("location"))
    .values(updated_at=sa.bindparam("at"), **{mark: sa.bindparam(mark) for mark in _MARKS})
)
_OF_MANY = sa.select(t).where(t.c.share_instance_id.in_(sa.bindparam("instances", expanding=True)))


def of_many(tx: Tx, instance_ids: Iterable[str]) -> dict[str, list[sa.Row[Any]]]:
    """The locations of many instances, by instance."""
    found: dict[str, list[sa.Row[Any]]] = {}
    for row in tx.rows(_OF_MANY, {"instances": list(instance_ids)}):
        found.setdefault(row.share_instance_id, []).append(row)
    return found


Wanted = Mapping[str, Sequence[Mapping[str, Any]]]


def replace_many(tx: Tx, wanted: Wanted, owners: Mapping[str, Owner], cause: Cause) -> dict[str, str]:
    """Make these the whole sets of these instances; for which something changed, and what. `owners` by instance."""
    if not wanted:
        return {}
    changes, said = _compared(tx, wanted)
    changes.write(owners, cause)
    return said


def differences(tx: Tx, wanted: Wanted) -> dict[str, str]:
    """What `replace_many` would change."""
    return _compared(tx, wanted)[1] if wanted else {}


def _compared(tx: Tx, wanted: Wanted) -> tuple[_Changes, dict[str, str]]:
    changes = _Changes(tx, tx.rows(_OF_MANY, {"instances": list(wanted)}))
    said = {instance_id: changes.add(instance_id, exports) for instance_id, exports in wanted.items()}
    return changes, {instance_id: what for instance_id, what in said.items() if what is not None}


@functools.lru_cache(maxsize=64)
def _select(names: tuple[str, ...], *, with_admin_only: bool) -> sa.Select[Any]:
    statement = (
        sa.select(*[COLUMNS[name] for name in names])
        .join(share_instances, share_instances.c.id == t.c.share_instance_id)
        .order_by(t.c.is_admin_only.desc(), t.c.preferred.desc(), t.c.path)
    )
    return statement if with_admin_only else statement.where(t.c.is_admin_only.is_(False))


def of_share(tx: Tx, share_id: str, names: tuple[str, ...], *, with_admin_only: bool) -> Sequence[sa.Row[Any]]:
    """The locations of all a share's instances, the preferred first."""
    statement = _select(names, with_admin_only=with_admin_only).where(share_instances.c.share_id == share_id)
    return tx.rows(statement)


def mounted_of_share(tx: Tx, share_id: str, names: tuple[str, ...]) -> Sequence[sa.Row[Any]]:
    """Those that servers mount a share from, the preferred first: of replicas those of the one that is written to."""
    statement = _select(names, with_admin_only=False).where(share_instances.c.share_id == share_id, IS_WRITTEN_TO)
    return tx.rows(statement)


IS_WRITTEN_TO = sa.or_(share_instances.c.replica_state.is_(None), share_instances.c.replica_state == "active")


def of_instance(tx: Tx, instance_id: str, names: tuple[str, ...]) -> Sequence[sa.Row[Any]]:
    """The locations of one instance."""
    return tx.rows(_select(names, with_admin_only=True).where(t.c.share_instance_id == instance_id))


def show(tx: Tx, location_id: str, names: tuple[str, ...], **of: str) -> sa.Row[Any] | None:
    """One location, of the share or the instance named by `share_id` or `share_instance_id`."""
    statement = _select(names, with_admin_only=True).where(t.c.id == location_id)
    for column, value in of.items():
        statement = statement.where((share_instances if column == "share_id" else t).c[column] == value)
    return tx.row(statement)


def set_metadata(tx: Tx, location_id: str, metadata: Mapping[str, str], *, preferred: bool | None) -> None:
    """Replace a location's metadata. `preferred` says whether it is one to mount from first; None leaves that alone.

    What is said here the back end does not take back.
    """
    values: dict[str, Any] = {"metadata": dict(metadata), "updated_at": tx.now}
    if preferred is not None:
        values |= {"preferred": preferred, "preferred_by_hand": True}
    tx.execute(sa.update(t).where(t.c.id == location_id).values(values))
