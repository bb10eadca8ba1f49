# SPDX-License-Identifier: Apache-2.0
"""The one writer of states: every state column of every table moves here, by its machine's table, and nowhere else.

    STATUS = moving.Mover(t.c.status, "Share instance")
    STATUS.move(tx, instance_id, "extend")

A move is one UPDATE that compares and sets, so it needs neither a lock nor a look before. What is declared to be
written beside a state (db/tables/columns.py) is written with it. `Database` refuses states from any other statement
(guard.py); this module holds the one permission.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from abaca import errors
from abaca.db.engine import guard
from abaca.db.engine.database import Tx, insert_into
from abaca.db.engine.statements import Column, Entity, Parameters, Row, Select
from abaca.db.tables import columns
from abaca.domain.state_machine import StateMachine

_PERMISSION = guard.claim()


class _Moves:
    """A statement that moves whatever its conditions say; made once, run often."""

    def __init__(self, statement: sa.Insert | sa.Update) -> None:
        self._statement = statement

    def run_along(self, tx: Tx, parameters: Parameters) -> Sequence[Row]:
        """The same, adding the rows that wait, at none of which it looks."""
        with tx.allowing(_PERMISSION):
            return tx.along(tx.rows, self._statement, parameters)

    def run(self, tx: Tx, parameters: Parameters | None = None) -> Sequence[Row]:
        """What was moved, as the columns that were asked for."""
        with tx.allowing(_PERMISSION):
            return tx.rows(self._statement, parameters)

    def entities(self, tx: Tx, entity: type[Entity], parameters: Parameters | None = None) -> list[Entity]:
        """The same as entities, whose columns were asked for."""
        with tx.allowing(_PERMISSION):
            return tx.entities(entity, self._statement, parameters)


class Mover:
    """Moves one state column."""

    def __init__(
        self, column: sa.Column[Any], resource: str, *, conflict: tuple[str, sa.Column[Any]] | None = None
    ) -> None:
        """`resource` is what users call the thing; `conflict` what they call it, and by which column, in a conflict."""
        self.column = column
        self.table: sa.Table = column.table
        self.machine: StateMachine = column.info["machine"]
        self._resource = resource
        self._conflict = conflict
        # Of rows that are named by their ids it is compared without its index, by which SQLite would go instead.
        self._compared = column.concat(sa.literal_column("''"))
        self._one = functools.lru_cache(256)(self._moving_one)
        self._many = functools.lru_cache(64)(self._moving_many)

    def try_move(
        self,
        tx: Tx,
        row_id: str,
        event: str,
        at: str | Sequence[str] | None = None,
        also: Parameters | None = None,
    ) -> bool:
        """Let `event` happen to one; False, with nothing changed, where its state does not allow it or nothing is left.

        With `at` it happens only at that state, or those: when the end of an operation is written, another one may have
        been announced. What is in `also` changes with it.
        """
        states = (at,) if isinstance(at, str) else None if at is None else tuple(at)
        new = {f"new_{name}": value for name, value in (also or {}).items()}
        moves = self._one(event, states, tuple(also or ()))
        return bool(moves.run(tx, {"row": row_id, "at": tx.now, **new}))

    def try_move_along(self, tx: Tx, row_id: str, event: str, also: Parameters) -> bool:
        """`try_move` of a row that was not added in this transaction, with the rows that wait to be added."""
        new = {f"new_{name}": value for name, value in also.items()}
        return bool(self._one(event, None, tuple(also)).run_along(tx, {"row": row_id, "at": tx.now, **new}))

    def move(self, tx: Tx, row_id: str, event: str) -> None:
        """Let `event` happen. Raises `Conflict` where the state does not allow it, `NotFound` where nothing is left."""
        if self.try_move(tx, row_id, event):
            return
        called, by = self._conflict or (self._resource, self.table.c.id)
        row = tx.row(sa.select(self.column, by.label("called")).where(self.table.c.id == row_id))
        if row is None:
            raise errors.NotFound(resource=self._resource, id=row_id)
        raise errors.Conflict(resource=called, id=row.called, event=event.replace("_", " "), status=row[0])

    def move_many(self, tx: Tx, row_ids: Sequence[str], event: str) -> set[str]:
        """Let `event` happen to each whose state allows it, in one statement; the ids of those."""
        if not row_ids:
            return set()
        return {row.id for row in self._many(event).run(tx, {"rows": list(row_ids), "at": tx.now})}

    def reset(self, tx: Tx, row_id: str, state: str | None) -> None:
        """An operator's word: set the state by hand. Raises `Invalid` for one that cannot be set."""
        if state not in self.machine.resettable and not (state is None and self.column.nullable):
            name = self.column.name.replace("_", " ").capitalize()
            raise errors.Invalid(
                f"{name} {state!r} cannot be set; choose one of: {', '.join(self.machine.resettable)}."
            )
        values = {self.column.name: state, "updated_at": tx.now, **self._beside(state)}
        _Moves(sa.update(self.table).where(self.table.c.id == row_id).values(values).returning(self.table.c.id)).run(tx)

    def moves(
        self,
        event: str,
        *conditions: sa.ColumnElement[bool],
        at: Sequence[str] | None = None,
        returning: Sequence[Column] | None = None,
    ) -> _Moves:
        """The statement that lets `event` happen to all rows that meet the conditions; it has a parameter `at`."""
        return _Moves(
            self._moving(event, self.column, at)
            .where(*conditions)
            .returning(*(self.table.primary_key.columns if returning is None else returning))
        )

    # ------------------------------------------------------------ the statements

    def _moving_one(self, event: str, at: tuple[str, ...] | None, also: tuple[str, ...]) -> _Moves:
        c = self.table.c
        if guarded := [name for name in also if columns.is_guarded(c[name])]:
            raise guard.StateWriteRefused(f"{self.table.name}.{guarded[0]}")
        new = {name: sa.bindparam(f"new_{name}", type_=c[name].type) for name in also}
        one = self._moving(event, self.column, at).where(c.id == sa.bindparam("row"))
        return _Moves(one.values(new).returning(c.id))

    def _moving_many(self, event: str) -> _Moves:
        c = self.table.c
        named = c.id.in_(sa.bindparam("rows", expanding=True))
        return _Moves(self._moving(event, self._compared, None).where(named).returning(c.id))

    def _moving(self, event: str, compared: Column, at: Sequence[str] | None) -> sa.Update:
        """Of all rows at one of its sources: the state and what stands beside it."""
        sources = {one: to for one, to in self.machine.sources(event).items() if to != "gone"}
        if at is not None:
            sources = {one: to for one, to in sources.items() if one in at}
        is_source: sa.ColumnElement[bool] = compared.in_([one for one in sources if one != "none"])
        if "none" in sources and self.column.nullable:
            is_source = sa.or_(is_source, self.column.is_(None))
        targets = sorted(set(sources.values()))
        values = {self.column.name: self._by_source(self.column, sources, {to: to for to in targets})}
        beside = {to: self._beside(to) for to in targets}
        for name in next(iter(beside.values()), {}):
            values[name] = self._by_source(self.table.c[name], sources, {to: beside[to][name] for to in targets})
        return sa.update(self.table).where(is_source).values(**values, updated_at=sa.bindparam("at"))

    def _by_source(self, column: sa.Column[Any], sources: Mapping[str, str], value: Mapping[str, object]) -> object:
        """The value of a column at the state to which each source leads."""
        if len(value) == 1:
            return next(iter(value.values()))
        is_at = {one: self.column.is_(None) if one == "none" else self.column == one for one in sources}
        return sa.case(*((is_at[one], value[to]) for one, to in sources.items()), else_=column)

    def _beside(self, state: str | None) -> dict[str, object]:
        """What is written beside the state, whatever the other states of the row are."""
        found: dict[str, object] = {}
        for column in self.table.c:
            if self.column.name in column.info.get("of", ()):
                found[column.name] = _computed(column, self.column, state)
        return found


def _computed(column: sa.Column[Any], moved: sa.Column[Any], state: str | None) -> object:
    """The value of a column beside states, one of which becomes `state`; in SQL where others have a part in it."""
    of, value = column.info["of"], column.info["value"]
    others = [column.table.c[name] for name in of if name != moved.name]
    if not others:
        return value(state)
    if len(others) > 1:
        raise ValueError(f"{column}: more than two states are behind it")
    other = others[0]

    def of_both(one: str | None) -> int:
        known = {moved.name: state, other.name: one}
        return int(value(*(known[name] for name in of)))

    # what no machine knows is like nothing
    usual = of_both(None if other.nullable else "")
    by_value: dict[int, list[str]] = {}
    for one in sorted(other.info["machine"].values):
        by_value.setdefault(of_both(one), []).append(one)
    whens: list[Any] = [
        (other.in_([sa.literal_column(f"'{one}'") for one in ones]), sa.literal_column(str(worth)))
        for worth, ones in by_value.items()
        if worth != usual
    ]
    return sa.case(*whens, else_=sa.literal_column(str(usual))) if whens else usual


# ---------------------------------------------------------------- rows that come to be


def add(tx: Tx, table: sa.Table, values: Parameters, born: Mapping[str, str], *, unless_taken: bool = False) -> bool:
    """Write a new row, whose states are those that the events `born` lead to from `none`; whether it was written.

    With `unless_taken` it is not where another row has one of its unique keys; otherwise that raises `IntegrityError`.
    """
    row = {**values, **states(table, born, values)}
    if not unless_taken:
        tx.add(table, row, _PERMISSION)
        return True
    with tx.allowing(_PERMISSION):
        return tx.row(_inserting(table, tx.dialect), row) is not None


def add_many(tx: Tx, table: sa.Table, rows: Sequence[Parameters], born: Mapping[str, str]) -> None:
    """The same for many rows with the same columns."""
    if rows:
        with tx.allowing(_PERMISSION):
            tx.execute(_inserting(table, None), [{**row, **states(table, born, row)} for row in rows])


def added_from(table: sa.Table, names: Sequence[str], select: Select, born: Mapping[str, str]) -> _Moves:
    """The statement that writes a new row for each that `select` finds, with its columns under these names."""
    own = states(table, born, names)
    wanted = select.add_columns(*(sa.literal(value, table.c[name].type).label(name) for name, value in own.items()))
    written = sa.insert(table).inline().from_select([*names, *own], wanted, include_defaults=False)
    return _Moves(written.returning(*table.primary_key.columns))


def states(table: sa.Table, born: Mapping[str, str], given: Iterable[str] = ()) -> dict[str, object]:
    """The states of a new row, and what stands beside them. Raises `ValueError` when an event is missing."""
    if taken := [name for name in given if columns.is_guarded(table.c[name])]:
        raise guard.StateWriteRefused(f"{table.name}.{taken[0]}")
    found: dict[str, object] = {}
    for column in table.c:
        machine = column.info.get("machine")
        if machine is None:
            continue
        if column.name in born:
            found[column.name] = machine.after("none", born[column.name])
        elif not column.nullable:
            raise ValueError(f"{column}: by which event is it born?")
    for column in table.c:
        if "of" in column.info:
            found[column.name] = column.info["value"](*(found.get(name) for name in column.info["of"]))
    return found


@functools.cache
def _inserting(table: sa.Table, dialect: str | None) -> Any:
    if dialect is None:
        return sa.insert(table).inline()
    return insert_into(table, dialect).on_conflict_do_nothing().returning(*table.primary_key.columns)
