# SPDX-License-Identifier: Apache-2.0
"""The private PostgreSQL starts quickly, survives what a real one survives, and is gone afterwards."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from lab import postgres, processes, runs

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def run() -> Iterator[runs.Run]:
    with runs.Run() as run:
        yield run
    assert run.leftovers() == []


@pytest.fixture(scope="module")
def server(run: runs.Run) -> Iterator[postgres.Postgres]:
    with postgres.Postgres(run) as server:
        yield server


def connect(server: postgres.Postgres, database: str) -> psycopg.Connection:
    return psycopg.connect(server.url(database, driver="postgresql"), autocommit=True)


def test_it_is_durable_private_and_not_root(server: postgres.Postgres) -> None:
    with connect(server, "postgres") as connection:
        shown = {name: connection.execute(f"SHOW {name}").fetchone()[0] for name in ("fsync", "listen_addresses")}
    assert shown == {"fsync": "on", "listen_addresses": "127.0.0.1"}
    assert Path(f"/proc/{server.process.pid}").stat().st_uid != 0


def test_a_database_is_copied_from_a_template(server: postgres.Postgres) -> None:
    server.create_database("pattern")
    with connect(server, "pattern") as connection:
        connection.execute("CREATE TABLE seen AS SELECT 7 AS number")
    assert server.create_database("copy", template="pattern") == server.url("copy")
    with connect(server, "copy") as connection:
        assert connection.execute("SELECT number FROM seen").fetchone() == (7,)
    server.drop_database("copy")
    server.drop_database("copy")
    with pytest.raises(psycopg.OperationalError):
        connect(server, "copy")


@pytest.mark.parametrize("way", ["smart", "fast", "immediate", "kill"])
def test_what_was_committed_survives_a_restart(way: str, server: postgres.Postgres) -> None:
    server.create_database(f"kept_{way}")
    with connect(server, f"kept_{way}") as connection:
        connection.execute("CREATE TABLE seen AS SELECT 7 AS number")
    before = server.process.pid
    if way == "kill":
        server.kill()
        server.start()
    else:
        server.restart(mode=way)
    assert server.process.pid != before
    with connect(server, f"kept_{way}") as connection:
        assert connection.execute("SELECT number FROM seen").fetchone() == (7,)


def test_its_processes_end_with_it(run: runs.Run) -> None:
    with postgres.Postgres(run, "short") as server:
        pids = [server.process.pid, *processes.children(server.process.pid)]
        assert len(pids) > 3
    assert not any(map(processes.alive, pids))
