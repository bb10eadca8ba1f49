# SPDX-License-Identifier: Apache-2.0
"""What is measured, running: PostgreSQL as safe as an installed one, Keystone, `abaca run`, and the bare stack."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, Self

import psycopg

from abaca.domain.shares import shares
from benchmarks import clients
from lab import keystone, postgres, processes, runs

HOST = "127.0.0.1"
VERSION = "2.86"
THREADS = 8
_CONFIGURATION = """[DEFAULT]
host = bench
osapi_share_listen_port = {port}
auth_strategy = keystone
default_share_type = default
enabled_share_backends = dummy
[database]
connection = {database}
[quota]
shares = -1
gigabytes = -1
[keystone_authtoken]
{authtoken}
[dummy]
driver = dummy
"""


class Stand:
    """Everything together; use it as a context manager."""

    def __init__(self) -> None:
        self.run = runs.Run()
        self._started = contextlib.ExitStack()
        self._started.callback(self.run.close)

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._started.close()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        self._started.close()

    def _start(self) -> None:
        self.postgres = self._started.enter_context(postgres.Postgres(self.run))
        self.keystone = self._started.enter_context(keystone.Keystone(self.run))
        self.project_id = self.keystone.project_id("demo")
        self.database = self.postgres.create_database("abaca")
        self.port = processes.free_port(HOST)
        self.configuration = self.run.path("abaca") / "abaca.conf"
        authtoken = "\n".join(f"{name} = {value}" for name, value in self.keystone.validation_options().items())
        self.configuration.write_text(
            _CONFIGURATION.format(port=self.port, database=self.database, authtoken=authtoken)
        )
        self._abaca_command("db", "upgrade")
        self.abaca = self.spawn_abaca()
        self.door = self.door_of("demo")
        self.admin = self.door_of("admin")
        processes.wait_until(lambda: self._answers(self.door), 30, "the API", self.abaca)
        self._make_type()
        self.bare_port = processes.free_port(HOST)
        self.bare = self._spawn_bare()
        self.bare_door = clients.Door(HOST, self.bare_port, "")
        processes.wait_for_port(HOST, self.bare_port, 30, self.bare)

    @property
    def roots(self) -> dict[str, int]:
        """The process at the root of each tree whose CPU counts."""
        return {"Abaca": self.abaca.pid, "database": self.postgres.process.pid}

    def spawn_abaca(self) -> processes.Process:
        """`abaca run`, started."""
        return self.run.spawn([*self._abaca_argv("run")], log="abaca.log")

    def door_of(self, user: str) -> clients.Door:
        """The API, for a user of Keystone with a fresh token."""
        headers = (
            f"X-Auth-Token: {self.keystone.token(user)}\r\n"
            f"X-OpenStack-Manila-API-Version: {VERSION}\r\nX-OpenStack-Manila-API-Experimental: true\r\n"
        )
        return clients.Door(HOST, self.port, headers)

    def psycopg(self) -> psycopg.Connection[Any]:
        """A connection to the service's database, in autocommit."""
        return psycopg.connect(self.postgres.url("abaca", driver="postgresql"), autocommit=True)

    def populate(self, first: int, last: int) -> None:
        """Add available shares of these numbers, each with an instance, to the project, as fast as SQL can."""
        with self.psycopg() as connection:
            (type_id,) = connection.execute("SELECT id FROM share_types").fetchone() or ("",)
            facts = {"project": self.project_id, "type": type_id, "rank": shares.status_rank("available")}
            indexes = [row[0] for row in connection.execute(_INDEXES)]
            for index in indexes:
                connection.execute("DROP INDEX " + index.split()[2])
            rows = {"first": first, "last": last, "indexes": ";".join(indexes)}
            for statement in _POPULATE.format(**rows, **facts).split(";"):
                connection.execute(statement)

    def _answers(self, door: clients.Door) -> bool:
        try:
            return door.ask("GET", "/v2/shares?limit=1").status == 200
        except OSError:
            return False

    def _make_type(self) -> None:
        body = {"name": "default", "extra_specs": {"driver_handles_share_servers": "False", "snapshot_support": "True"}}
        answer = self.admin.ask("POST", "/v2/types", {"share_type": body})
        if answer.status != 200:
            raise processes.LabError(f"no share type: {answer.status} {answer.body!r}")

        def serves() -> bool:
            made = self.door.ask("POST", "/v2/shares", {"share": {"share_proto": "NFS", "size": 1}}).json()
            processes.wait_until(lambda: self.status(made["share"]["id"]) != "creating", 30, "a share")
            return self.status(made["share"]["id"]) == "available"

        processes.wait_until(serves, 30, "the back end", self.abaca)

    def status(self, share_id: str) -> str:
        """A share's status, as the API says."""
        return str(self.door.ask("GET", f"/v2/shares/{share_id}").json()["share"]["status"])

    def _abaca_argv(self, command: str) -> Iterator[str]:
        yield from (sys.executable, "-m", "abaca", command)
        yield from ("--config-file", str(self.configuration), "--state-path", str(self.configuration.parent / "state"))

    def _abaca_command(self, *words: str) -> None:
        processes.command([sys.executable, "-m", "abaca", *words, "--config-file", str(self.configuration)], 60)

    def _spawn_bare(self) -> processes.Process:
        options = ["--interface", "wsgi", "--workers", "1", "--blocking-threads", str(THREADS), "--no-ws"]
        argv = [sys.executable, "-m", "granian", *options, "--host", HOST, "--port", str(self.bare_port)]
        launch = processes.Launch(env={"BARE_DATABASE": self.database})
        return self.run.spawn([*argv, "benchmarks.bare:app"], log="bare.log", launch=launch)


# The indexes beside the keys are made at the end: row by row they take minutes for a million.
_INDEXES = """
SELECT indexdef FROM pg_indexes WHERE tablename IN ('shares', 'share_instances') AND indexname LIKE 'ix\\_%%'
"""
_POPULATE = """
SET session_replication_role = replica;
SET synchronous_commit = off;
SET maintenance_work_mem = '256MB';
INSERT INTO shares (
    id, project_id, user_id, name, size, share_proto, metadata, created_at, is_public, snapshot_support,
    create_share_from_snapshot_support, revert_to_snapshot_support, mount_snapshot_support,
    snapshot_inherit_share_access_support, is_soft_deleted)
SELECT md5('share' || n)::uuid::text, '{project}', '{project}', 'share-' || n, 1, 'NFS', '{{"team": "blue"}}',
    timestamp '2026-01-01' + n * interval '1 second', false, true, false, false, false, false, false
FROM generate_series({first}, {last}) AS n;
INSERT INTO share_instances (
    id, share_id, status, status_rank, access_rules_status, host, availability_zone, share_type_id, progress,
    created_at, cast_rules_to_readonly)
SELECT md5('instance' || n)::uuid::text, md5('share' || n)::uuid::text, 'available', {rank}, 'active',
    'bench@other#pool1', 'nova', '{type}', '100%', timestamp '2026-01-01' + n * interval '1 second', false
FROM generate_series({first}, {last}) AS n;
{indexes};
VACUUM ANALYZE shares;
VACUUM ANALYZE share_instances;
CHECKPOINT;
"""
