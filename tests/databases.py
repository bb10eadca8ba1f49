# SPDX-License-Identifier: Apache-2.0
"""Databases for tests: SQLite in a file, and a PostgreSQL server of our own that may be stopped at will.

A test that takes the fixture `database` runs on both; the PostgreSQL half is marked `system`. Each test gets a database
of its own, made from a template that has the schema.
"""

import atexit
import contextlib
import functools
import itertools
import shutil
import tempfile
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from abaca.db import tables
from abaca.db.engine import schema
from abaca.db.engine.database import Database
from abaca.journal import wakeup
from lab import postgres as lab_postgres
from lab import processes, runs

# Of each table, how many rows the planner thinks there are: -1 before anybody has told it to look.
_KNOWN = "SELECT relname, reltuples FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
_AS_MADE = {(name, -1) for name in (*tables.metadata.tables, "alembic_version")}


class Server(lab_postgres.Postgres):
    """A PostgreSQL server that makes fresh databases quickly; what it tests is a server that dies, not a disk."""

    def __init__(self, run):
        super().__init__(run)
        self._names = itertools.count()
        self._free = []

    def prepare(self):
        self.start()
        self.execute("ALTER SYSTEM SET fsync = off", "ALTER SYSTEM SET autovacuum = off", "SELECT pg_reload_conf()")
        db = Database(self.create_database("template_abaca"))
        schema.create_if_empty(db)
        db.close()
        return self

    def execute(self, *statements):
        with psycopg.connect(self.url(driver="postgresql"), autocommit=True, connect_timeout=10) as connection:
            for statement in statements:
                connection.execute(statement)

    def new_database(self, *, is_unused=False):
        """The URL of a database with the schema and nothing in it; `is_unused`: where no test has left empty pages."""
        if self._free and not is_unused:
            return self.url(self._free.pop())
        return self.create_database(f"test_{next(self._names)}", template="template_abaca")

    def give_back(self, url):
        """The test is over: the next may have the database, without what is in it, unless the planner knows it."""
        name = url.rpartition("/")[2]
        end = sql.SQL("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = {}")
        address = self.url(name, driver="postgresql")
        with contextlib.suppress(psycopg.OperationalError):  # a test may leave the server stopped
            self.execute(end.format(sql.Literal(name)))
            with psycopg.connect(address, autocommit=True, connect_timeout=10) as connection:
                is_as_made = set(connection.execute(_KNOWN)) == _AS_MADE
                for table in reversed(tables.metadata.sorted_tables) if is_as_made else ():
                    connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table.name)))
            if is_as_made:
                self._free.append(name)
            else:
                self.drop_database(name)


class _Shared:
    """The server of this test run: whichever modules ask for the fixture, there is one."""

    server = None
    run = None
    users = 0


@pytest.fixture(scope="session")
def postgres():
    if _Shared.users == 0:
        _Shared.run = runs.Run()
        _Shared.server = Server(_Shared.run).prepare()
    _Shared.users += 1
    yield _Shared.server
    _Shared.users -= 1
    if _Shared.users == 0:
        with contextlib.suppress(processes.LabError):
            _Shared.server.stop("immediate")
        _Shared.run.close()


on_sqlite = pytest.param("sqlite", id="sqlite")
on_postgres = pytest.param("postgresql", id="postgresql", marks=pytest.mark.system)


class Place:
    """A database with the means to wake workers: what processes need to know to meet there."""

    def __init__(self, url, directory, server=None):
        self.url = url
        self.directory = Path(directory)
        self.server = server
        self._opened = []
        self._is_closed = False

    @property
    def is_sqlite(self):
        return self.server is None

    def open(self, **options):
        """A `Database` as a process of its own would have one; closed at the end of the test."""
        speaker = wakeup.Datagrams(self.directory) if self.is_sqlite else wakeup.Notify()
        db = Database(self.url, **{"wakeup": speaker, **options})
        self._opened.append(db)
        return db

    def listener(self, name):
        if self.is_sqlite:
            return wakeup.DatagramListener(self.directory, name)
        return wakeup.NotifyListener(self._opened[0].url, retry_s=0.05)

    def close(self):
        """As often as one likes; the first time the next may have the database."""
        for db in self._opened:
            db.close()
        if isinstance(self.server, Server) and not self._is_closed:
            self.server.give_back(self.url)
        self._is_closed = True


@functools.cache
def _template() -> Path:
    """A file of SQLite that has the schema and nothing in it."""
    directory = tempfile.mkdtemp(prefix="abaca-test-")
    atexit.register(shutil.rmtree, directory)
    template = Path(directory) / "template.sqlite"
    db = Database(f"sqlite:///{template}")
    schema.create_if_empty(db)
    db.close()
    return template


def new_sqlite(file: Path) -> str:
    """The URL of a database with the schema and nothing in it, in a file that is not there yet."""
    shutil.copyfile(_template(), file)
    return f"sqlite:///{file}"


def place(kind, directory, request, *, is_unused=False):
    """A fresh database of the kind, closed at the end of the fixture or test that asks, also when that fails.

    `is_unused` is for those who count pages.
    """
    if kind == "sqlite":
        made = Place(new_sqlite(directory / "abaca.sqlite"), directory)
    else:
        server = request.getfixturevalue("postgres")
        if server._process is None:  # a test that took it away has failed
            server.start()
        made = Place(server.new_database(is_unused=is_unused), directory, server)
    if request is not None:
        request.addfinalizer(made.close)
    return made


# What is tested is processes that die, not disks.
_FAST = Path("/dev/shm")


@contextlib.contextmanager
def fast_directory():
    """An empty directory, in memory where there is such a place."""
    made = tempfile.mkdtemp(prefix="abaca-test-", dir=_FAST if _FAST.is_dir() else None)
    try:
        yield Path(made)
    finally:
        shutil.rmtree(made)


@pytest.fixture(params=[on_sqlite, on_postgres])
def database(request):
    with fast_directory() as directory:
        made = place(request.param, directory, request)
        yield made
        made.close()
