# SPDX-License-Identifier: Apache-2.0
"""Only the mover writes states: any other statement that would is refused before it reaches the database.

The guarded columns are those that the tables declare as states (db/tables/columns.py). The guard stands in the cursors
of the connections that `Database` makes, below SQLAlchemy and below engine/statements.py, so that each statement meets
it: one that is built, a text, one for many rows, one through the driver's own connection. Each text is read once; from
then on it costs a look into a set.
"""

from __future__ import annotations

import contextlib
import functools
import sqlite3
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from abaca.db.engine.limits import Deadline
from abaca.db.engine.written import ALL, written
from abaca.db.tables import columns

# So many texts are remembered; long ones, whose lists have many lengths, by what is nearly unique of them.
_MOST = 4096
_LONG = 2048
_Key = str | tuple[int, int]
_harmless: set[_Key] = set()
# What the others write.
_guarded: dict[_Key, str] = {}


class StateWriteRefused(exc.DontWrapMixin, RuntimeError):
    """Code that is not the mover has tried to write a state."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} is a state, which only db/engine/moving.py writes: let an event of its machine happen instead"
        )


class Permission:
    """What the mover holds: statements of a connection may write states while it is `on`."""

    def on(self, connection: sa.Connection) -> contextlib.AbstractContextManager[None]:
        """To be entered around a statement."""
        return _Open(connection.connection.dbapi_connection)


_unclaimed = [Permission()]


def claim() -> Permission:
    """The only permission there is. Raises `RuntimeError` when somebody has it already."""
    if not _unclaimed:
        raise RuntimeError("the mover has the permission to write states, and nobody else gets one")
    return _unclaimed.pop()


class _Open(contextlib.AbstractContextManager[None]):
    """While this is entered the guard of a connection lets states be written."""

    __slots__ = ("_before", "_connection")

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._before: bool = getattr(connection, "is_moving", False)

    def __enter__(self) -> None:
        self._connection.is_moving = True

    def __exit__(self, *_: object) -> None:
        self._connection.is_moving = self._before


@functools.cache
def guarded_columns() -> Mapping[str, frozenset[str]]:
    """By table, in small letters, the columns that only the mover writes."""
    found = {
        table.name: frozenset(column.name for column in table.c if columns.is_guarded(column))
        for table in columns.metadata.tables.values()
    }
    return {name: names for name, names in found.items() if names}


def _look(sql: str, connection: Any) -> None:
    """A text that is not known to be harmless. Raises `StateWriteRefused`."""
    key: _Key = sql if len(sql) < _LONG else (len(sql), hash(sql))
    if key in _harmless:
        return
    what = _guarded.get(key)
    if what is None:
        if len(_harmless) + len(_guarded) >= _MOST:
            _harmless.clear()
            _guarded.clear()
        what = _states_written(sql)
        if not what:
            _harmless.add(key)
            return
        _guarded[key] = what
    if not getattr(connection, "is_moving", False):
        raise StateWriteRefused(what)


def _states_written(sql: str) -> str:
    """The states that it writes, for people; nothing when it writes none."""
    declared = guarded_columns()
    found = []
    for table, names in written(sql, declared).items():
        hit = declared[table] if ALL in names else declared[table] & names
        found += [f"{table}.{name}" for name in sorted(hit)]
    return ", ".join(found)


# ---------------------------------------------------------------- SQLite

_execute, _executemany = sqlite3.Cursor.execute, sqlite3.Cursor.executemany


class SqliteCursor(sqlite3.Cursor):
    """A cursor with the guard."""

    def execute(self, sql: str, *parameters: Any) -> SqliteCursor:
        """As ever. Raises `StateWriteRefused`."""
        connection = self.connection
        connection.deadline.begin()  # type: ignore[attr-defined]
        if sql not in _harmless:
            _look(sql, connection)
        return _execute(self, sql, *parameters)

    def executemany(self, sql: str, *parameters: Any) -> SqliteCursor:
        """As ever. Raises `StateWriteRefused`."""
        connection = self.connection
        connection.deadline.begin()  # type: ignore[attr-defined]
        if sql not in _harmless:
            _look(sql, connection)
        return _executemany(self, sql, *parameters)

    def executescript(self, sql: str) -> SqliteCursor:
        """As ever. Raises `StateWriteRefused`."""
        _look(sql, self.connection)
        return super().executescript(sql)  # type: ignore[return-value]


class SqliteConnection(sqlite3.Connection):
    """A connection all of whose cursors have the guard."""

    is_moving = False

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        self.deadline = Deadline()

    def cursor(self, factory: Any = SqliteCursor) -> Any:
        """A cursor with the guard."""
        return super().cursor(factory)

    def execute(self, sql: str, *parameters: Any) -> Any:
        """As ever. Raises `StateWriteRefused`."""
        return self.cursor().execute(sql, *parameters)

    def executemany(self, sql: str, *parameters: Any) -> Any:
        """As ever. Raises `StateWriteRefused`."""
        return self.cursor().executemany(sql, *parameters)

    def executescript(self, sql: str) -> Any:
        """As ever. Raises `StateWriteRefused`."""
        return self.cursor().executescript(sql)


# ---------------------------------------------------------------- PostgreSQL


@functools.cache
def postgresql_cursor(*, writes_values: bool = False) -> type[Any]:
    """A cursor class with the guard. Made when it is wanted: on SQLite psycopg is not loaded.

    With `writes_values` values stand in the text that is sent, and PostgreSQL plans it for them, whatever the
    connection says of plans. Not for secrets: PostgreSQL logs the text of what fails.
    """
    import psycopg

    class PostgresqlCursor(psycopg.ClientCursor if writes_values else psycopg.Cursor):  # type: ignore[misc]
        """A cursor with the guard."""

        def execute(self, query: Any, *parameters: Any, **more: Any) -> Any:
            if type(query) is not str or query not in _harmless:
                _look(self._said(query), self.connection)
            return super().execute(query, *parameters, **more)

        def executemany(self, query: Any, *parameters: Any, **more: Any) -> None:
            if type(query) is not str or query not in _harmless:
                _look(self._said(query), self.connection)
            super().executemany(query, *parameters, **more)

        def copy(self, statement: Any, *parameters: Any, **more: Any) -> Any:
            _look(self._said(statement), self.connection)
            return super().copy(statement, *parameters, **more)

        def stream(self, query: Any, *parameters: Any, **more: Any) -> Any:
            _look(self._said(query), self.connection)
            return super().stream(query, *parameters, **more)

        def _said(self, query: Any) -> str:
            if isinstance(query, str):
                return query
            return query.decode() if isinstance(query, bytes) else str(query.as_string(self))

    return PostgresqlCursor
