# SPDX-License-Identifier: Apache-2.0
"""The database as the rest of Abaca sees it: `read()` for one-statement looks, `write()` for a transaction.

SQLite runs in WAL mode and takes its write lock at BEGIN; PostgreSQL runs at READ COMMITTED. Work that a transaction
queued is announced exactly when it commits (`Tx.wake`), so that nobody has to poll the tables.
"""

from __future__ import annotations

import contextlib
import copy
import datetime
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
import sqlalchemy as sa
from sqlalchemy import event, exc

from abaca.db.engine import connections, guard, inserts, limits, statements
from abaca.db.engine.statements import Entity, Parameters, Row

Clock = Callable[[], float]
# Of PostgreSQL's advisory locks: whose they are, and how many, so that no request can take up the memory for all locks.
_NAMED, _NAMED_LOCKS = 1_633_772_641, 256
_LOCK_NAMES = sa.text("SELECT pg_advisory_xact_lock(:of, key) FROM unnest(CAST(:keys AS integer[])) AS key")
Result = TypeVar("Result")
Run = Callable[[inserts.Carrier, Parameters], Result]
PLAN_ONCE = "SET plan_cache_mode = force_generic_plan"


# Which targets want events of a type (domain/administration/events.py).
Wanting = Callable[[str], Sequence[str]]


class Wakeup(Protocol):
    """How workers learn that a queue has work (journal/wakeup.py)."""

    def before_commit(self, tx: Tx, queues: Sequence[str]) -> None: ...

    def after_commit(self, queues: Sequence[str]) -> None: ...

    def close(self) -> None: ...


class NoWakeup:
    """Nobody is listening: workers find the work at their next slow look."""

    def before_commit(self, tx: Tx, queues: Sequence[str]) -> None:
        """Nothing to do."""

    def after_commit(self, queues: Sequence[str]) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to give back."""


class Tx:
    """One transaction. `now` is its time, naive UTC, the same for every row that it writes."""

    __slots__ = ("_added", "_connection", "_queues", "_statements", "now", "subscriptions", "turns")

    def __init__(
        self,
        connection: sa.Connection,
        now: datetime.datetime,
        known: statements.Statements,
        subscriptions: Wanting | None = None,
    ) -> None:
        self._connection = connection
        # rows that wait for the next statement
        self._added: list[inserts.Added] = []
        self.now = now
        # None: nobody wants any event
        self.subscriptions = subscriptions
        self._statements = known
        # of those who look for what may take long; whoever changes something has none
        self.turns: limits.Turns | None = None
        self._queues: dict[str, None] = {}

    @property
    def connection(self) -> sa.Connection:
        """What the transaction runs on, with all of its rows added."""
        self.flush()
        return self._connection

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self._connection.dialect.name

    def allowing(self, permission: guard.Permission) -> contextlib.AbstractContextManager[None]:
        """Statements of this transaction may write states in the block."""
        return permission.on(self._connection)

    def add(self, table: sa.Table, row: Parameters, permission: guard.Permission | None = None) -> None:
        """Add a row, with the next statement at the latest. Only with `permission` it may set states.

        What the database refuses it refuses then: not for rows whose refusal somebody expects here.
        """
        self._added.append(inserts.added(table, row, permission))
        if self.dialect != "postgresql" or len(self._added) >= inserts.MOST:  # without a network nothing is spared
            self.flush()

    def flush(self) -> None:
        """Send the rows that wait."""
        if self._added:
            found, self._added = self._added, []
            self._send(found, self.execute, *(inserts.together(found) if len(found) > 1 else inserts.alone(found[0])))

    def along(self, run: Run[Result], statement: inserts.Carrier, parameters: Parameters) -> Result:
        """`run` (`execute`, `rows`) a statement that looks at none of the rows that wait: it adds these as well."""
        if not self._added or not inserts.may_be_carried(statement, self._added):
            return run(statement, parameters)
        found, self._added = self._added, []
        return self._send(found, run, *inserts.carried(statement, parameters, found))

    def _send(
        self,
        found: Sequence[inserts.Added],
        run: Run[Result],
        statement: inserts.Carrier,
        parameters: Parameters,
    ) -> Result:
        permission = next((one.permission for one in found if one.permission is not None), None)
        with contextlib.nullcontext() if permission is None else self.allowing(permission):
            return run(statement, parameters)

    def execute(
        self, statement: sa.Executable, parameters: Parameters | Sequence[Parameters] | None = None
    ) -> statements.Done | sa.CursorResult[Any]:
        """Run a statement with its parameters, or once for each of a sequence of them, for its `rowcount`."""
        if parameters is not None and not isinstance(parameters, Mapping) and len(parameters) == 1:
            parameters = parameters[0]
        if parameters is None or isinstance(parameters, Mapping):
            ready = self._ready(statement, parameters)
            if ready is not None:
                return statements.do(ready, self._connection, parameters or statements.NONE)
        elif (ready := self._ready(statement, parameters[0])) is not None:
            return statements.do_many(ready, self._connection, parameters)
        return self._connection.execute(statement, parameters)

    def change(self, table: sa.Table, row_id: str, values: Parameters) -> int:
        """Set columns of the row with that id, and when it was changed; how many rows have it."""
        new = {f"new_{name}": value for name, value in values.items()}
        return self.execute(statements.changing(table, tuple(values)), {"of": row_id, "at": self.now, **new}).rowcount

    def entity(
        self, entity: type[Entity], statement: sa.Executable, parameters: Parameters | None = None
    ) -> Entity | None:
        """The first row as an entity, or None."""
        found = self.entities(entity, statement, parameters)
        return found[0] if found else None

    def entities(
        self, entity: type[Entity], statement: sa.Executable, parameters: Parameters | None = None
    ) -> list[Entity]:
        """All rows as entities: the statement selects `columns_of` them. Raises TypeError where it does not."""
        ready = self._ready(statement, parameters)
        if ready is not None:
            return statements.fetch_entities(entity, ready, self._connection, parameters or statements.NONE)
        result = self._connection.execute(statement, parameters)
        statements.check_fields(entity, result.keys())
        return [entity(*row) for row in result]

    def row(self, statement: sa.Executable, parameters: Parameters | None = None) -> Row | None:
        """The first row, or None."""
        rows = self.rows(statement, parameters)
        return rows[0] if rows else None

    def rows(self, statement: sa.Executable, parameters: Parameters | None = None) -> Sequence[Row]:
        """All rows."""
        ready = self._ready(statement, parameters)
        if ready is None:
            return self._connection.execute(statement, parameters).all()
        return statements.fetch(ready, self._connection, parameters or statements.NONE)

    def scalar(self, statement: sa.Executable, parameters: Parameters | None = None) -> Any:
        """The first column of the first row, or None."""
        row = self.row(statement, parameters)
        return None if row is None else row[0]

    def _ready(self, statement: sa.Executable, parameters: Parameters | None) -> statements.Ready | None:
        if self._added:
            self.flush()
        return self._statements.ready(self._connection.dialect, statement, parameters or statements.NONE)

    def turn(self) -> contextlib.AbstractContextManager[None]:
        """To be entered for what may take long: one at a time of a process does. Raises `Unavailable`."""
        return contextlib.nullcontext() if self.turns is None else self.turns.one()

    def savepoint(self) -> contextlib.AbstractContextManager[object]:
        """What is written in the block is undone when it raises; the transaction can go on."""
        return self.connection.begin_nested()

    def lock_names(self, names: Iterable[str]) -> None:
        """Nobody else gets past this with one of the names until this transaction ends: for what has no row to lock.

        Those who lock rows as well lock the same of both first. Some names share a lock.
        """
        if self.dialect == "postgresql":  # SQLite has one writer
            keys = sorted({zlib.crc32(name.encode()) % _NAMED_LOCKS for name in names})
            self.connection.execute(_LOCK_NAMES, {"of": _NAMED, "keys": keys})

    def end_with(self, text: str) -> None:
        """Run a text of several statements, the last of which ends the transaction: that spares a round trip."""
        statements.say(text, self.connection)

    def wake(self, queue: str) -> None:
        """Announce work on `queue` when this transaction commits."""
        self._queues[queue] = None

    @property
    def queues(self) -> list[str]:
        """The queues to announce."""
        return list(self._queues)


def insert_into(table: sa.Table, dialect: str) -> Any:
    """An INSERT that knows ON CONFLICT. Only the dialect in use is imported: PostgreSQL's costs 3 MiB."""
    if dialect == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)


class Database:
    """Two pools on one database: reads in autocommit (one round trip each), writes in transactions."""

    def __init__(
        self,
        url: str,
        *,
        clock: Clock = time.time,
        wakeup: Wakeup | None = None,
        pool_size: int = 8,
        abandoned_s: float = 20.0,
        most: limits.Limits | None = None,
    ) -> None:
        """PostgreSQL takes back what a transaction has locked when nothing is heard from it for `abandoned_s`.

        A statement that takes longer than `most` says is stopped.
        """
        self.url = sa.make_url(url)
        self.wakeup: Wakeup = wakeup or NoWakeup()
        # who wants events of what is written; None: nobody
        self.subscriptions: Wanting | None = None
        # a clock, and how many seconds the database's is ahead of it
        self._time: tuple[Clock, float] = (clock, 0.0)
        self._closed = threading.Event()
        self._is_rehearsal = False
        self._statements = statements.Statements()
        # who asks for much
        self._turns = limits.Turns() if most is None else limits.Turns(waiting=most.waiting)
        self._writer = _engine(self.url, pool_size, autocommit=False)
        self._reader = _engine(self.url, pool_size, autocommit=True)
        self._looking = connections.Connections(self._reader)
        self._single = self._reader if self.is_sqlite else _engine(self.url, pool_size, autocommit=True)
        self._at_once = self._looking if self.is_sqlite else connections.Connections(self._single)
        if not self.is_sqlite:
            event.listen(self._writer, "connect", _not_abandoned(abandoned_s))
            event.listen(self._single, "connect", _go_by_indexes)
        if most is not None:
            event.listen(self._reader, "connect", limits.limiting(most.look_s))
            event.listen(self._writer, "connect", limits.limiting(most.change_s))
            if not self.is_sqlite:
                event.listen(self._single, "connect", limits.limiting(most.change_s))

    @property
    def is_sqlite(self) -> bool:
        """Whether this is the embedded database."""
        return self.url.get_backend_name() == "sqlite"

    def time(self) -> float:
        """Seconds since the epoch by the database's clock, as far as it is known."""
        clock, ahead_s = self._time
        return clock() + ahead_s

    def now(self) -> datetime.datetime:
        """The same as naive UTC."""
        return datetime.datetime.fromtimestamp(self.time(), datetime.UTC).replace(tzinfo=None)

    def agree_on_time(self) -> None:
        """From now on count from the database's clock, so that leases of several hosts compare.

        Between two such looks this host's own clock may be set to whatever: only its passing counts.
        """
        if self.is_sqlite:
            return
        with self.read() as tx:
            before_s = time.monotonic()
            theirs_s = float(tx.scalar(sa.text("SELECT extract(epoch FROM clock_timestamp())")))
            self._time = time.monotonic, theirs_s - (before_s + time.monotonic()) / 2

    def keep_time(self, every_s: float = 10.0) -> None:
        """Agree so now and again and again, in a thread of its own, until this is closed; what fails is tried anew."""
        if not self.is_sqlite:
            self._try_to_agree()
            threading.Thread(target=self._keep_time, args=(every_s,), name="time", daemon=True).start()

    def _keep_time(self, every_s: float) -> None:
        while not self._closed.wait(every_s):
            self._try_to_agree()

    def _try_to_agree(self) -> None:
        with contextlib.suppress(exc.SQLAlchemyError):
            self.agree_on_time()

    @contextlib.contextmanager
    def read(self) -> Iterator[Tx]:
        """A connection for looking. Each statement sees what was committed before it."""
        with self._with_one_of(self._looking) as tx:
            yield tx

    @contextlib.contextmanager
    def _with_one_of(self, kept: connections.Connections) -> Iterator[Tx]:
        connection = kept.take()
        try:
            tx = Tx(connection, self.now(), self._statements)
            tx.turns = self._turns
            yield tx
            tx.flush()
        except BaseException:
            connection.close()
            raise
        kept.give_back(connection)

    def once(self) -> contextlib.AbstractContextManager[Tx]:
        """A connection for one statement that is a transaction by itself: a round trip where `write()` takes three.

        PostgreSQL goes by indexes there, also with a plan from when the tables had no rows.
        """
        return self.write() if self._is_rehearsal else self._with_one_of(self._at_once)

    @contextlib.contextmanager
    def write(self) -> Iterator[Tx]:
        """A transaction: commits at the end of the block, rolls back when it raises."""
        with connections.connect(self._writer) as connection, connection.begin() as begun:
            tx = Tx(connection, self.now(), self._statements, self.subscriptions)
            yield tx
            tx.flush()
            queues = tx.queues
            if self._is_rehearsal:
                begun.rollback()
                return
            if queues:
                self.wakeup.before_commit(tx, queues)
        if queues:
            self.wakeup.after_commit(queues)

    def connect(self) -> sa.Connection:
        """A connection of one's own, in autocommit, outside the pools' bounds of time."""
        return connections.connect(self._reader)

    def rehearsal(self) -> Database:
        """The same database, by the same connections; but what is written is taken back, and wakes nobody."""
        made = copy.copy(self)
        made._is_rehearsal = True
        return made

    def open_connections(self, number: int) -> None:
        """Have so many of each pool open, if not more are. Raises SQLAlchemyError."""
        with contextlib.ExitStack() as stack:
            for _ in range(number):
                stack.callback(self._looking.give_back, self._looking.take())
                stack.enter_context(connections.connect(self._writer))

    def let_go(self) -> None:
        """Give all connections back, before a fork, say; whoever asks next gets new ones."""
        self._looking.close()
        self._at_once.close()
        for engine in (self._writer, self._reader, self._single):
            engine.dispose()

    def close(self) -> None:
        """Give all connections back for good."""
        self._closed.set()
        self.let_go()
        self.wakeup.close()


def _engine(url: sa.URL, pool_size: int, *, autocommit: bool) -> sa.Engine:
    options: dict[str, Any] = {
        "json_serializer": lambda value: msgspec.json.encode(value).decode(),
        "json_deserializer": msgspec.json.decode,
        # errors are logged, and among the values may be secrets
        "hide_parameters": True,
        "pool_size": pool_size,
        "max_overflow": pool_size,
        "pool_timeout": 30,
        # those that are used have their statements planned; further ones are for bursts
        "pool_use_lifo": True,
    }
    if autocommit:
        options |= {"isolation_level": "AUTOCOMMIT", "pool_reset_on_return": None}
    if url.get_backend_name() == "sqlite":
        return _sqlite(url, options, autocommit=autocommit)
    # a server that vanishes without a word is noticed within half a minute, not within hours
    options["connect_args"] = {
        "connect_timeout": 5,
        "application_name": "abaca",
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 30000,
        "cursor_factory": guard.postgresql_cursor(),
    }
    engine = sa.create_engine(url.set(drivername="postgresql+psycopg"), **options)
    event.listen(engine, "checkout", connections.refuse_a_dead_one)
    if autocommit:
        event.listen(engine, "connect", _plan_once)
    return engine


def _sqlite(url: sa.URL, options: dict[str, Any], *, autocommit: bool) -> sa.Engine:
    arguments = {"timeout": 30, "check_same_thread": False, "factory": guard.SqliteConnection}
    engine = sa.create_engine(url, connect_args=arguments, poolclass=sa.QueuePool, **options)

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        for pragma in ("busy_timeout=30000", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")
        write_ahead(connection)

    if not autocommit:

        @event.listens_for(engine, "begin")
        def _lock_at_once(connection: sa.Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def write_ahead(connection: sqlite3.Connection, within_s: float = 30.0) -> None:
    """Let the database of an SQLite connection keep a write-ahead log, which it remembers. Raises OperationalError.

    A database that is new may be getting its log from another process at this moment, and that is an error at once:
    SQLite's own time-out does not count here.
    """
    until_s = time.monotonic() + within_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise
            if time.monotonic() >= until_s:
                raise
            time.sleep(0.01)
        else:
            return


def _saying(command: str) -> Callable[[Any, object], None]:
    """What tells new connections something for good."""

    def say(connection: Any, _record: object) -> None:
        connection.execute(command)
        connection.commit()

    return say


# Looks go by indexes whatever the values are, and planning a page anew costs twice as much as reading it.
_plan_once = _saying(PLAN_ONCE)
# A plan that is made once, of a table that is empty then, would read all of it for ever, and for each row anew.
_go_by_indexes = _saying("SET enable_seqscan = off; SET enable_bitmapscan = off")


def _not_abandoned(after_s: float) -> Callable[[Any, object], None]:
    """A process that is frozen in a transaction, its host suspended say, keeps nobody else waiting."""
    return _saying(f"SET idle_in_transaction_session_timeout = {int(after_s * 1000)}")
