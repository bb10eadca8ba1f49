# SPDX-License-Identifier: Apache-2.0
"""Statements compiled once and then handed straight to the database's driver.

SQLAlchemy writes the SQL and knows how values are converted; executing through it costs three times what the driver
itself takes for a row. So a statement object that is run again and again (those of modules and of `lists.py`) is
compiled at its second run, and from then on its parameters go to the driver and its rows come back without a detour.
What is run once, in bulk, or relies on defaults of columns goes through SQLAlchemy as ever.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import result_tuple
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.sql.compiler import SQLCompiler

from abaca.db.engine import guard

# A row of whatever columns were asked for, by position or by name: what lists are made of. Where the columns are always
# the same ones a query gives entities (`Tx.entities`), whose fields have types and are read forty times as fast.
Row = sa.Row[*tuple[Any, ...]]
Entity = TypeVar("Entity", bound=msgspec.Struct)
# A column of a table, or any expression that a statement can select; and a statement of whatever columns.
Column = sa.ColumnElement[Any]
Select = sa.Select[*tuple[Any, ...]]
Parameters = Mapping[str, object]
Convert = Callable[[Any], object]
# Rows as a cursor fetches them.
Fetched = Sequence[Sequence[Any]]
# What a statement is run with, by the names in its SQL.
Values = dict[str, Any]

NONE: Parameters = {}
# How many lengths of its lists a statement remembers the SQL for.
_LENGTHS = 64
# Rows whose memory a cursor that is kept may hold on to.
_FEW = 100


# The option of a statement that PostgreSQL plans for its values.
_BY_VALUES = "planned_for_values"
# The cursors that each connection keeps: for plans made once, and for plans made for values.
_ONCE, _EACH_TIME = "cursor", "cursor for values"

Planned = TypeVar("Planned", bound=sa.Executable)


def planned_for_values(statement: Planned) -> Planned:
    """The same statement, which PostgreSQL plans at each run for the values it is run with.

    For conditions that very few rows meet, or very many, as the values will: a plan for any values guesses that a third
    do, and walks a whole table for nothing. Planning takes 0.1 to 0.8 ms, so for such statements alone; and for none
    with a secret among its values, which stand in the text that is sent. SQLite is not concerned.
    """
    return statement.execution_options(**{_BY_VALUES: True})


def is_planned_for_values(statement: sa.Executable) -> bool:
    """Whether it is."""
    return bool(statement.get_execution_options().get(_BY_VALUES))


@functools.lru_cache(256)
def changing(table: sa.Table, names: tuple[str, ...]) -> sa.Update:
    """An UPDATE of the row with the id `:of`, whose columns `names` become `:new_<name>` and `updated_at` `:at`."""
    values = {name: sa.bindparam(f"new_{name}", type_=table.c[name].type) for name in names}
    made = sa.update(table).where(table.c.id == sa.bindparam("of", type_=table.c.id.type))
    return made.values({**values, "updated_at": sa.bindparam("at", type_=table.c.updated_at.type)})


def joined(texts: Column, separator: str) -> Column:
    """The texts of several rows in one, with the separator between them.

    It stands in the SQL: as a parameter it would have SQLAlchemy run the statement, and write it anew each time.
    """
    return sa.func.aggregate_strings(texts, sa.literal_column(f"'{separator}'"))  # type: ignore[arg-type]


def columns_of(entity: type[msgspec.Struct], *sources: sa.FromClause, **named: Column) -> list[Column]:
    """What a statement must select for `Tx.entities`: a column for each field of the entity, in the fields' order.

    A field is the column `named` like it, or else that of the first source which has one of its name. Raises TypeError
    for a field without a column.
    """
    found: list[Column] = []
    for field in entity.__struct_fields__:
        columns = (source.c[field] for source in sources if field in source.c)
        column = named[field].label(field) if field in named else next(columns, None)
        if column is None:
            raise TypeError(f"no column for {entity.__name__}.{field}")
        found.append(column)
    return found


def check_fields(entity: type[msgspec.Struct], names: Iterable[str]) -> None:
    """Raises TypeError unless the columns of a result are the fields of the entity, in their order."""
    if tuple(names) != entity.__struct_fields__:
        raise TypeError(f"{entity.__name__} has the fields {entity.__struct_fields__}, the result {tuple(names)}")


def maker(names: Sequence[str]) -> Callable[[Sequence[object]], Row]:
    """What makes rows with columns of these names, for what is known without looking."""
    make = result_tuple(names)
    return lambda values: make(tuple(values))


class Done(NamedTuple):
    """What a statement without rows has done."""

    rowcount: int


class _Text(NamedTuple):
    """A statement's SQL for given lengths of its lists."""

    sql: str
    # a list's name, and those of its elements in the SQL
    lists: tuple[tuple[str, Sequence[str]], ...]
    converts: tuple[tuple[str, Convert], ...]
    # where the driver wants values by position: their names
    order: Sequence[str] | None


class Ready:
    """One statement, compiled for one set of parameter names."""

    def __init__(self, compiled: SQLCompiler, dialect: sa.Dialect, keys: Iterable[str], kept: str = _ONCE) -> None:
        # which of a connection's cursors runs it
        self.kept = kept
        self._compiled = compiled
        self._dialect = dialect
        binds = compiled.bind_names
        # a parameter is given by the name that the statement's author wrote, which SQL may spell otherwise
        self._given = tuple((name, bind.key) for bind, name in binds.items() if bind.key in keys)
        self._own = {name: bind.effective_value for bind, name in binds.items() if bind.key not in keys}
        self._lists = tuple(name for bind, name in binds.items() if bind in compiled.post_compile_params)
        self._texts: dict[tuple[int, ...], _Text] = {}
        self._converts: tuple[tuple[int, Convert], ...] = ()
        self._names: tuple[str, ...] | None = None
        self._make: Callable[[Any], Row]
        # the type whose fields are known to be the columns
        self._entity: type[msgspec.Struct] | None = None

    def values(self, parameters: Parameters) -> Values:
        """All values by the names that they have in SQL."""
        values = dict(self._own)
        for name, key in self._given:
            values[name] = parameters[key]
        return values

    def text(self, values: Values) -> _Text:
        """The SQL for these values."""
        lengths = tuple([len(values[name]) for name in self._lists])
        text = self._texts.get(lengths)
        if text is None:
            if len(self._texts) >= _LENGTHS:
                self._texts.clear()
            text = self._texts[lengths] = self._write(values)
        return text

    def rows(self, cursor: Any, found: Fetched) -> list[Row]:
        """What the cursor has fetched, as rows."""
        if self._names is None:
            self._look(cursor.description)
        make = self._make
        return [make(values) for values in self._converted(found)]

    def entities(self, entity: type[Entity], cursor: Any, found: Fetched) -> list[Entity]:
        """What the cursor has fetched, as entities. Raises TypeError where their fields are not its columns."""
        if self._entity is not entity:
            check_fields(entity, self._names or self._look(cursor.description))
            self._entity = entity
        return [entity(*values) for values in self._converted(found)]

    def _converted(self, found: Fetched) -> Fetched:
        if not self._converts:
            return found
        converted = []
        for one in found:
            values = list(one)
            for at, convert in self._converts:
                values[at] = convert(values[at])
            converted.append(values)
        return converted

    def _look(self, described: Sequence[Any]) -> tuple[str, ...]:
        """Learn from the first result what its columns are called, and how their values are converted."""
        columns = self._compiled._result_columns
        kinds = (column.type.dialect_impl(self._dialect) for column in columns)
        found = [kind.result_processor(self._dialect, told[1]) for kind, told in zip(kinds, described, strict=False)]
        self._converts = tuple((at, convert) for at, convert in enumerate(found) if convert is not None)
        self._names = tuple([column.keyname for column in columns] or [told[0] for told in described])
        self._make = result_tuple(self._names)
        return self._names

    def _write(self, values: Values) -> _Text:
        compiled = self._compiled
        converts: dict[str, Any] = dict(compiled._bind_processors)
        if not self._lists:
            return _Text(compiled.string, (), tuple(converts.items()), compiled.positiontup)
        state = compiled._process_parameters_for_postcompile(dict(values))
        converts = {name: one for name, one in converts.items() if name not in self._lists} | dict(state.processors)
        return _Text(
            state.statement, tuple(state.parameter_expansion.items()), tuple(converts.items()), state.positiontup
        )


def run(ready: Ready, connection: sa.Connection, parameters: Parameters) -> Any:
    """The cursor, with the statement executed. Raises what SQLAlchemy raises for the driver's errors."""
    values = ready.values(parameters)
    text = ready.text(values)
    for name, ones in text.lists:
        values.update(zip(ones, values.pop(name), strict=True))
    return _sent(connection, ready.kept, "execute", text.sql, _bound(text, values))


def say(sql: str, connection: sa.Connection) -> None:
    """Have PostgreSQL run a text without values, which may be of several statements."""
    _sent(connection, _ONCE, "execute", sql, None, prepare=False)


def _bound(text: _Text, values: Values) -> Values | list[object]:
    """The values as the driver wants them."""
    for name, convert in text.converts:
        values[name] = convert(values[name])
    return values if text.order is None else [values[name] for name in text.order]


def _sent(connection: sa.Connection, kept: str, how: str, sql: str, bound: Any, **more: object) -> Any:
    pooled = connection.connection
    # a cursor is made in a tenth of the time that a short statement takes, so each connection keeps one
    cursor = pooled.info.get(kept)
    if cursor is None:
        cursor = pooled.info[kept] = pooled.cursor() if kept == _ONCE else _cursor_for_values(pooled)
    try:
        getattr(cursor, how)(sql, bound, **more)
    except BaseException as error:  # noqa: BLE001 - it raises, and knows a lost connection from a refused statement
        del pooled.info[kept]
        connection._handle_dbapi_exception(error, sql, bound, cursor, None)
    return cursor


def _cursor_for_values(pooled: sa.PoolProxiedConnection) -> DBAPICursor:
    made: DBAPICursor = guard.postgresql_cursor(writes_values=True)(pooled.dbapi_connection)
    return made


def do(ready: Ready, connection: sa.Connection, parameters: Parameters) -> Done:
    """Execute for its effect alone."""
    cursor = run(ready, connection, parameters)
    if connection.dialect.name == "sqlite":
        # rows that a RETURNING has ready would keep the transaction from committing
        cursor.fetchall()
    return Done(cursor.rowcount)


def do_many(ready: Ready, connection: sa.Connection, rows: Sequence[Parameters]) -> Done:
    """Execute once for each of these, for its effect alone. The statement holds no lists."""
    text = ready.text(ready.values(rows[0]))
    bound = [_bound(text, ready.values(row)) for row in rows]
    return Done(_sent(connection, ready.kept, "executemany", text.sql, bound).rowcount)


def fetch(ready: Ready, connection: sa.Connection, parameters: Parameters) -> list[Row]:
    """All rows."""
    cursor = run(ready, connection, parameters)
    found = cursor.fetchall()
    rows = ready.rows(cursor, found)
    _let_go(connection, ready.kept, cursor, len(found))
    return rows


def fetch_entities(
    entity: type[Entity], ready: Ready, connection: sa.Connection, parameters: Parameters
) -> list[Entity]:
    """The same, each row as an entity."""
    cursor = run(ready, connection, parameters)
    found = cursor.fetchall()
    entities = ready.entities(entity, cursor, found)
    _let_go(connection, ready.kept, cursor, len(found))
    return entities


def _let_go(connection: sa.Connection, kept: str, cursor: Any, number: int) -> None:
    if number > _FEW:
        cursor.close()
        del connection.connection.info[kept]


class Statements:
    """The statements that one database has seen, each as long as somebody holds it."""

    def __init__(self) -> None:
        self._seen: weakref.WeakKeyDictionary[sa.Executable, dict[tuple[str, ...], Ready | None]] = (
            weakref.WeakKeyDictionary()
        )

    def ready(self, dialect: sa.Dialect, statement: sa.Executable, parameters: Parameters) -> Ready | None:
        """The compiled statement; None at its first run, and for one that SQLAlchemy must run."""
        known = self._seen.get(statement)
        if known is None:
            known = self._seen[statement] = {}
            if not is_planned_for_values(statement):
                # most statements that are made for one run end here
                return None
        keys = tuple(parameters)
        if keys not in known:
            known[keys] = _compiled(dialect, statement, keys)
        return known[keys]


def _compiled(dialect: sa.Dialect, statement: sa.Executable, keys: tuple[str, ...]) -> Ready | None:
    compiled = statement.compile(dialect=dialect, column_keys=sorted(keys))  # type: ignore[attr-defined]
    needs_more = not isinstance(compiled, SQLCompiler) or (
        compiled.insert_prefetch
        or compiled.update_prefetch
        or compiled.implicit_returning
        or compiled.literal_execute_params
        or compiled.escaped_bind_names
        or any(bind.required and bind.key not in keys for bind in compiled.bind_names)
    )
    for_values = dialect.name == "postgresql" and is_planned_for_values(statement)
    return None if needs_more else Ready(compiled, dialect, keys, _EACH_TIME if for_values else _ONCE)
