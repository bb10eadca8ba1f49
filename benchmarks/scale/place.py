# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL with filled databases of several sizes, and Abaca on a copy of one."""

from __future__ import annotations

import base64
import pathlib
import time
from collections.abc import Mapping
from typing import Any

import psycopg

from benchmarks import clients, population, usage
from benchmarks.population import BACKENDS, HOST, LARGE, POOLS
from benchmarks.scale.questions import ADMIN, MEMBER
from lab import postgres, processes, runs, service

LOCALHOST = "127.0.0.1"
FOREVER_S = 10 * 365 * 86400
SETTINGS = {
    # what an operator gives PostgreSQL on a machine like this
    "shared_buffers": "2GB",
    "work_mem": "16MB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
    # counts what each statement reads
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.max": 50000,
    "pg_stat_statements.track": "all",
}
_PAGES = """SELECT coalesce(sum(shared_blks_hit + shared_blks_read + temp_blks_read), 0)
FROM pg_stat_statements JOIN pg_database ON pg_database.oid = dbid WHERE datname = '{name}'"""

_UNDER_WAY = """SELECT id FROM operations WHERE state IN ('queued', 'running', 'waiting')
UNION ALL SELECT query FROM pg_stat_activity
WHERE datname = current_database() AND state <> 'idle' AND pid <> pg_backend_pid()"""


class Databases:
    """The server. `kept` is a directory in which filled databases stay for the next time."""

    def __init__(self, run: runs.Run, kept: pathlib.Path | None) -> None:
        directory = None if kept is None else run.keep(kept)
        self.server = postgres.Postgres(run, directory=directory, settings=SETTINGS).start()
        self.say("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        self._run = run

    def filled(self, shares: int) -> tuple[str, float]:
        """The name of a database of so many shares, at the newest revision, and the seconds that filling took."""
        name, begun_s = f"filled_{shares}", time.monotonic()
        if not self._is_there(name):
            # of a run that ended while it was filling
            self.server.drop_database("draft")
            draft = self.server.create_database("draft")
            self._abaca(draft).upgrade_database()
            population.fill(draft, shares)
            self.say(f"ALTER DATABASE draft RENAME TO {name}")
        else:
            self._abaca(self.server.url(name)).upgrade_database()
            population.complete(self.server.url(name), shares)
        return name, time.monotonic() - begun_s

    def copy(self, name: str) -> str:
        """A copy of a database, to be changed; its address."""
        self.server.drop_database(f"{name}_used")
        self.say(f"CREATE DATABASE {name}_used TEMPLATE {name} STRATEGY file_copy")
        return self.server.url(f"{name}_used")

    def pages(self, url: str) -> int:
        """How many pages the statements in a database have read until now."""
        return int(self.say(_PAGES.format(name=url.rpartition("/")[2]))[0][0])

    def drop(self, url: str) -> None:
        self.server.drop_database(url.rpartition("/")[2])

    def say(self, statement: str, database: str = "postgres") -> list[Any]:
        with psycopg.connect(self.server.url(database, driver="postgresql"), autocommit=True) as connection:
            done = connection.execute(statement)
            return done.fetchall() if done.description else []

    def _is_there(self, name: str) -> bool:
        return bool(self.say(f"SELECT 1 FROM pg_database WHERE datname = '{name}'"))  # noqa: S608

    def _abaca(self, url: str) -> service.Service:
        sections = {"database": {"connection": url}}
        return service.Service(self._run, sections, directory=self._run.path("upgrading"))


class Place:
    """Abaca with users on one database; nothing runs until it is started."""

    def __init__(self, run: runs.Run, databases: Databases, shares: int) -> None:
        self.shares = shares
        self._databases = databases
        name, self.filled_in_s = databases.filled(shares)
        self.url = databases.copy(name)
        directory = run.path(f"abaca-{shares}")
        users = {ADMIN: (LARGE, "admin"), MEMBER: (LARGE, "member")}
        self.passwords = service.write_users(directory / "users", users)
        self.service = service.Service(run, _sections(self.url, directory / "users"), directory=directory)

    def close(self) -> None:
        self.service.stop()
        self._databases.drop(self.url)

    def door(self, who: str) -> clients.Door:
        """The API, for one of the users."""
        secret = base64.b64encode(f"{who}:{self.passwords[who]}".encode()).decode()
        headers = (
            f"Authorization: Basic {secret}\r\nX-OpenStack-Manila-API-Version: 2.99\r\n"
            "X-OpenStack-Manila-API-Experimental: true\r\n"
        )
        return clients.Door(LOCALHOST, self.service.port, headers)

    def serve(self) -> processes.Process:
        """The API alone, answering: nothing happens beside it."""
        program = self.service.spawn("api")
        processes.wait_until(self.service.is_healthy, 60, "the API", program)
        return program

    def roots(self, program: processes.Process) -> dict[str, int]:
        return {"API": program.pid, "database": self._databases.server.process.pid}

    def is_quiet(self) -> bool:
        """Whether no operation goes on, and no statement but this one is run."""
        return not self._databases.say(_UNDER_WAY, self.url.rpartition("/")[2])

    def database_spent(self) -> usage.Spent:
        return usage.Spent({"database": self._databases.server.process.pid})

    def pages(self) -> int:
        """How many pages its statements have read until now."""
        return self._databases.pages(self.url)

    def spent(self, program: processes.Process) -> usage.Spent:
        return usage.Spent(self.roots(program))


def _sections(url: str, users: pathlib.Path) -> dict[str, Mapping[str, object]]:
    dummy = {"driver": "dummy", "pool_count": POOLS, "pool_size_gib": 100_000_000}
    return {
        "DEFAULT": {
            "host": HOST,
            "enabled_share_backends": ",".join(BACKENDS),
            "default_share_type": "default",
            "auth_strategy": "http_basic",
            "http_basic_auth_user_file": users,
            "message_ttl": FOREVER_S,
        },
        "database": {"connection": url},
        "quota": {"shares": -1, "gigabytes": -1},
        # the back ends have none of the shares that were filled in: nothing is to be compared
        "worker": {"keep_operations_s": FOREVER_S, "keep_export_locations_s": FOREVER_S, "reconcile_percent": 0},
        "events": {"keep_s": FOREVER_S},
        "nodes": {"plugin": "rehearsal", "verify_interval_s": FOREVER_S},
        **dict.fromkeys(BACKENDS, dummy),
    }
