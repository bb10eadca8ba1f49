# SPDX-License-Identifier: Apache-2.0
"""Where an instance can be mounted from. A location keeps its id, and its metadata, as long as its path stays."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import sqlalchemy as sa

from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Column, Row, Select, columns_of
from abaca.db.shares import export_location_history as history
from abaca.db.shares.export_location_history import Cause, Owner
from abaca.db.tables.shares import export_locations as t
from abaca.db.tables.shares import share_instances
from abaca.domain import metadata
from abaca.domain.ids import new_id
from abaca.domain.shares.export_locations import Export, ExportLocation

COLUMNS: dict[str, Column] = {column.name: column for column in t.c}


def add(tx: Tx, instance_id: str, exports: Sequence[Export], owner: Owner, cause: Cause) -> None:
    """The locations of a new instance."""
    found = [_new(tx, instance_id, export) for export in exports]
    for one in found:
        tx.add(t, msgspec.structs.asdict(one))
    history.begin(tx, {instance_id: owner}, found, cause)


_ADD = sa.insert(t).inline()


def _new(tx: Tx, instance_id: str, export: Export) -> ExportLocation:
    return ExportLocation(
        id=new_id(),
        share_instance_id=instance_id,
        path=export.path,
        is_admin_only=export.is_admin_only,
        preferred=export.preferred,
        preferred_by_hand=False,
        metadata={},
        created_at=tx.now,
        updated_at=None,
    )


class _Changes:
    """What makes the locations of instances those that they shall be, gathered for few statements."""

    def __init__(self, tx: Tx, old: Iterable[ExportLocation]) -> None:
        self.tx = tx
        self.old: dict[str, dict[str, ExportLocation]] = {}
        for one in old:
            self.old.setdefault(one.share_instance_id, {})[one.path] = one
        self.gone: list[str] = []
        self.new: list[ExportLocation] = []
        self.marked: list[ExportLocation] = []

    def add(self, instance_id: str, exports: Sequence[Export]) -> str | None:
        """What changes for this instance, in words; None when nothing does."""
        old = self.old.get(instance_id, {})
        wanted = {export.path: export for export in exports}
        said = [f"{path} goes" for path in sorted(old.keys() - wanted.keys())]
        self.gone += [one.id for path, one in old.items() if path not in wanted]
        for path, export in wanted.items():
            if path not in old:
                self.new.append(_new(self.tx, instance_id, export))
                said.append(f"{path} comes")
                continue
            was = old[path]
            preferred = was.preferred if was.preferred_by_hand else export.preferred
            if (was.is_admin_only, was.preferred) != (export.is_admin_only, preferred):
                now = msgspec.structs.replace(was, is_admin_only=export.is_admin_only, preferred=preferred)
                self.marked.append(now)
                said += [f"{path} {words}" for words in _marked(was, now)]
        return ", ".join(said) or None

    def write(self, owners: Mapping[str, Owner], cause: Cause) -> Counter[str]:
        """By project how many characters of metadata go."""
        characters: Counter[str] = Counter()
        if self.gone:
            for instance_id, pairs in self.tx.rows(_REMOVE, {"locations": self.gone}):
                characters[owners[instance_id].project_id] += metadata.characters(pairs)
        if self.new:
            self.tx.execute(_ADD, [msgspec.structs.asdict(one) for one in self.new])
        if self.marked:
            self.tx.execute(_MARK, [_mark(self.tx, one) for one in self.marked])
        history.end(self.tx, [*self.gone, *(one.id for one in self.marked)], cause)
        history.begin(self.tx, owners, [*self.new, *self.marked], cause)
        return characters


def _marked(was: ExportLocation, now: ExportLocation) -> Iterable[str]:
    """What it is to somebody that a mark is gone, or there."""
    if was.is_admin_only != now.is_admin_only:
        yield "is for administrators only" if now.is_admin_only else "is for everybody"
    if was.preferred != now.preferred:
        yield "is preferred" if now.preferred else "is no longer preferred"


def _mark(tx: Tx, one: ExportLocation) -> dict[str, object]:
    return {"location": one.id, "at": tx.now, "is_admin_only": one.is_admin_only, "preferred": one.preferred}


_REMOVE = (
    sa.delete(t)
    .where(t.c.id.in_(sa.bindparam("locations", expanding=True)))
    .returning(t.c.share_instance_id, t.c.metadata)
)
_MARK = (
    sa.update(t)
    .where(t.c.id == sa.bindparam("location"))
    .values(updated_at=sa.bindparam("at"), **{mark: sa.bindparam(mark) for mark in ("is_admin_only", "preferred")})
)
_OF_MANY = sa.select(*columns_of(ExportLocation, t)).where(
    t.c.share_instance_id.in_(sa.bindparam("instances", expanding=True))
)


def of_many(tx: Tx, instance_ids: Iterable[str]) -> dict[str, list[ExportLocation]]:
    """The locations of many instances, by instance."""
    found: dict[str, list[ExportLocation]] = {}
    for one in tx.entities(ExportLocation, _OF_MANY, {"instances": list(instance_ids)}):
        found.setdefault(one.share_instance_id, []).append(one)
    return found


# By instance all its locations.
Wanted = Mapping[str, Sequence[Export]]


class Replaced(NamedTuple):
    """By instance what has changed, in words, and by project how many characters of metadata have gone."""

    changed: Mapping[str, str]
    gone: Counter[str]


def replace_many(tx: Tx, wanted: Wanted, owners: Mapping[str, Owner], cause: Cause) -> Replaced:
    """Make these the whole sets of these instances. `owners` by instance."""
    if not wanted:
        return Replaced({}, Counter())
    changes, said = _compared(tx, wanted)
    return Replaced(said, changes.write(owners, cause))


def remove_all(tx: Tx, instance_id: str) -> int:
    """The locations of an instance that goes; how many characters of metadata with them."""
    return sum(metadata.characters(row.metadata) for row in tx.rows(_REMOVE_ALL, {"instance": instance_id}))


_REMOVE_ALL = sa.delete(t).where(t.c.share_instance_id == sa.bindparam("instance")).returning(t.c.metadata)


def differences(tx: Tx, wanted: Wanted) -> dict[str, str]:
    """What `replace_many` would change."""
    return _compared(tx, wanted)[1] if wanted else {}


def _compared(tx: Tx, wanted: Wanted) -> tuple[_Changes, dict[str, str]]:
    changes = _Changes(tx, tx.entities(ExportLocation, _OF_MANY, {"instances": list(wanted)}))
    said = {instance_id: changes.add(instance_id, exports) for instance_id, exports in wanted.items()}
    return changes, {instance_id: what for instance_id, what in said.items() if what is not None}


@functools.lru_cache(maxsize=64)
def _select(names: tuple[str, ...], *, with_admin_only: bool) -> Select:
    statement = (
        sa.select(*[COLUMNS[name] for name in names])
        .join(share_instances, share_instances.c.id == t.c.share_instance_id)
        .order_by(t.c.is_admin_only.desc(), t.c.preferred.desc(), t.c.path)
    )
    return statement if with_admin_only else statement.where(t.c.is_admin_only.is_(False))


def of_share(tx: Tx, share_id: str, names: tuple[str, ...], *, with_admin_only: bool) -> Sequence[Row]:
    """The locations of all a share's instances, the preferred first."""
    statement = _select(names, with_admin_only=with_admin_only).where(share_instances.c.share_id == share_id)
    return tx.rows(statement)


class Mounted(msgspec.Struct, frozen=True, gc=False):
    """Where servers mount a share from, and which share server is there, if one is."""

    path: str
    share_id: str
    share_server_id: str | None


def mounted(tx: Tx, share_id: str) -> list[Mounted]:
    """Where servers mount a share from, the preferred first: of replicas from the one that is written to."""
    return tx.entities(Mounted, _MOUNTED, {"of_share": share_id})


def mounted_of(tx: Tx, share_ids: Collection[str]) -> dict[str, list[Mounted]]:
    """The same of many shares, by share."""
    found: dict[str, list[Mounted]] = {}
    if share_ids:
        for one in tx.entities(Mounted, _MOUNTED_OF, {"of_shares": sorted(share_ids)}):
            found.setdefault(one.share_id, []).append(one)
    return found


def mounted_paths(tx: Tx, share_id: str) -> list[str]:
    """The paths of these."""
    return [one.path for one in mounted(tx, share_id)]


IS_WRITTEN_TO = sa.or_(share_instances.c.replica_state.is_(None), share_instances.c.replica_state == "active")
_ALL_MOUNTED = (
    _select(("path",), with_admin_only=False)
    .add_columns(share_instances.c.share_id, share_instances.c.share_server_id)
    .where(IS_WRITTEN_TO)
)
_MOUNTED = _ALL_MOUNTED.where(share_instances.c.share_id == sa.bindparam("of_share"))
_MOUNTED_OF = _ALL_MOUNTED.where(share_instances.c.share_id.in_(sa.bindparam("of_shares", expanding=True)))


def share_mounted_by(tx: Tx, service_host: str, path: str) -> str | None:
    """The share on a back end (host@backend) that is mounted by that path; None when there is none."""
    found = tx.row(_MOUNTED_BY, {"path": path, "first": f"{service_host}#", "beyond": f"{service_host}$"})
    return None if found is None else str(found.share_id)


# "$" comes right behind "#"
_MOUNTED_BY = (
    sa.select(share_instances.c.share_id)
    .join(t, t.c.share_instance_id == share_instances.c.id)
    .where(
        t.c.path == sa.bindparam("path"),
        share_instances.c.host >= sa.bindparam("first"),
        share_instances.c.host < sa.bindparam("beyond"),
    )
    .limit(1)
)


def of_instance(tx: Tx, instance_id: str, names: tuple[str, ...]) -> Sequence[Row]:
    """The locations of one instance."""
    return tx.rows(_select(names, with_admin_only=True).where(t.c.share_instance_id == instance_id))


def show(tx: Tx, location_id: str, names: tuple[str, ...], **of: str) -> Row | None:
    """One location, of the share or the instance named by `share_id` or `share_instance_id`."""
    statement = _select(names, with_admin_only=True).where(t.c.id == location_id)
    for column, value in of.items():
        statement = statement.where((share_instances if column == "share_id" else t).c[column] == value)
    return tx.row(statement)


def set_metadata(tx: Tx, location_id: str, pairs: Mapping[str, str], *, preferred: bool | None) -> bool:
    """Replace a location's metadata; False when it has just gone.

    `preferred` says whether it is one to mount from first; None leaves that alone. What is said here the back end does
    not take back.
    """
    values: dict[str, object] = {"metadata": dict(pairs), "updated_at": tx.now}
    if preferred is not None:
        values |= {"preferred": preferred, "preferred_by_hand": True}
    return tx.execute(sa.update(t).where(t.c.id == location_id).values(values)).rowcount == 1
