# SPDX-License-Identifier: Apache-2.0
"""What ensuring the shares of a back end takes, how that grows with their number, and whether readers notice."""

from __future__ import annotations

import contextlib
import datetime
import json
import re
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import sqlalchemy as sa

from abaca.db.journal.operations import ENDED
from abaca.db.tables import journal as journal_tables
from abaca.db.tables import shares as share_tables
from abaca.domain.ids import new_id
from benchmarks import clients, usage
from benchmarks.figures import Figure
from benchmarks.stand import HOST, Stand
from lab import caller, processes, service

FEW, MANY = 1_000, 100_000
MOST_S = {FEW: 0.5, MANY: 60.0}
ROUNDS = {FEW: 5, MANY: 1}
IDLE_S = 20
READERS = 4
PAUSE_S = 0.02
"""Between two requests of a reader: 200 requests a second at most, which leave the machine to the rest."""
FIRST, SECOND = "192.0.2.1", "192.0.2.2"
_COUNTED = {"moved": "updated", "unchanged": "unchanged"}
_CHUNK = 5_000
_LIMIT_S = 1_200.0


def run(stand: Stand) -> Iterator[Figure]:
    """On PostgreSQL, then on SQLite."""
    stand.postgres.create_database("ensured")
    yield from _on(stand, "PostgreSQL", stand.postgres.url("ensured"))
    yield from _on(stand, "SQLite", None)


def _on(stand: Stand, database: str, url: str | None) -> Iterator[Figure]:
    with Place(stand, database, url) as place:
        took: dict[tuple[str, int], Ensured] = {}
        ways = (("moved", place.move), ("unchanged", place.ask))
        for number in (FEW, MANY):
            place.plant(number)
            place.move()
            for what, ensuring in ways:
                name = f"{database}: ensure of {number:,} shares, {what}"
                found = clients.middle([place.watch(ensuring) for _ in range(ROUNDS[number])])
                if found.counts[_COUNTED[what]] != number:
                    raise RuntimeError(f"{name}: {found.counts}")
                yield Figure(f"{name}: wall", found.wall_s, "s", MOST_S[number])
                yield Figure(f"{name}: CPU of Abaca", found.cpu_s["Abaca"], "s")
                if "database" in found.cpu_s:
                    yield Figure(f"{name}: CPU of the database", found.cpu_s["database"], "s")
                took[what, number] = found
        for what, _ in ways:
            few, many = took[what, FEW], took[what, MANY]
            name = f"{database}: a share of {MANY:,}, {what}, times one of {FEW:,}"
            yield Figure(f"{name}: wall", many.wall_s / few.wall_s * FEW / MANY, "x", 1.5)
            yield Figure(f"{name}: CPU, all in", many.all_cpu_s / few.all_cpu_s * FEW / MANY, "x", 1.5)
        until_s = time.monotonic() + IDLE_S
        idle_s = place.read(lambda: time.monotonic() >= until_s)
        yield from _readers(database, "idle", idle_s, None)
        for what, ensuring in ways:
            op_id = ensuring()
            meanwhile_s = place.read(lambda op_id=op_id: place.has_ended(op_id))
            yield from _readers(database, f"while {MANY:,} are ensured, {what}", meanwhile_s, idle_s)


def _readers(database: str, when: str, took_s: Sequence[float], idle_s: Sequence[float] | None) -> Iterator[Figure]:
    name = f"{database}: GET {when}"
    yield Figure(f"{name}: requests", len(took_s), "")
    yield Figure(f"{name}: p50", clients.middle(took_s) * 1000, "ms")
    yield Figure(f"{name}: p99", _p99(took_s) * 1000, "ms")
    if idle_s is not None:
        yield Figure(f"{name}: p99, times idle", _p99(took_s) / _p99(idle_s), "x", 2)


def _p99(values: Sequence[float]) -> float:
    return sorted(values)[len(values) * 99 // 100]


class Ensured(NamedTuple):
    """One ensuring: seconds from the request to the end, CPU seconds of the trees of processes meanwhile, and what was
    found how often."""

    wall_s: float
    cpu_s: dict[str, float]
    counts: dict[str, int]

    @property
    def all_cpu_s(self) -> float:
        return sum(self.cpu_s.values())


class Place:
    """An `abaca run` without users on a database of its own, with any number of shares on one back end."""

    def __init__(self, stand: Stand, name: str, url: str | None) -> None:
        sections: dict[str, dict[str, object]] = {
            # comparing 100,000 shares at the usual rate takes an hour, and is work that this waits for
            "worker": {"reconcile_percent": 0},
            "DEFAULT": {"host": "bench", "enabled_share_backends": "dummy", "default_share_type": "default"},
            "quota": {"shares": -1, "gigabytes": -1},
            "dummy": {"driver": "dummy", "export_ips": FIRST},
        }
        if url is not None:
            sections["database"] = {"connection": url}
        self._stand = stand
        self._is_sqlite = url is None
        self._at = FIRST
        self.service = service.Service(stand.run, sections, directory=stand.run.path(f"ensured-{name.lower()}"))
        self._state = self.service.directory / "state"
        self._engine = sa.create_engine(url or f"sqlite:///{self._state / 'abaca.sqlite'}")
        self._user = caller.Caller(self.service.url, {})
        self._door = clients.Door(HOST, self.service.port, "X-OpenStack-Manila-API-Version: 2.86\r\n")

    def __enter__(self) -> Self:
        if not self._is_sqlite:
            self.service.upgrade_database()
        self.service.start()
        caller.ensure_type(self._user)
        caller.wait_for_pools(self._user)
        made = self._user.post("/shares", "share", share_proto="NFS", size=1)
        self._user.wait(f"/shares/{made['id']}", "available")
        return self

    def __exit__(self, *_exception: object) -> None:
        self._engine.dispose()
        self.service.stop()

    # ---------------------------------------------------------------- shares

    def plant(self, number: int) -> None:
        """Have so many shares in all: copies of one that was made, in the database and in the back end's books."""
        known = [
            share_tables.shares,
            share_tables.share_instances,
            share_tables.export_locations,
            share_tables.export_location_history,
        ]
        with self._engine.begin() as connection, contextlib.closing(self._books()) as books, books:
            instance_id, share_id = connection.execute(
                sa.select(share_tables.share_instances.c.id, share_tables.share_instances.c.share_id)
            ).first()
            rows = [connection.execute(statement).mappings().first() for statement in _templates(instance_id, share_id)]
            (held,) = books.execute("SELECT value FROM held WHERE id = ?", (instance_id,)).fetchone()
            there = connection.scalar(sa.select(sa.func.count()).select_from(share_tables.shares))
            texts = [json.dumps(dict(row), default=str) for row in rows]
            for begin in range(there, number, _CHUNK):
                names = (share_id, instance_id, rows[2]["id"])
                ids = [{one: new_id() for one in names} for _ in range(begin, min(begin + _CHUNK, number))]
                for table, row, text in zip(known, rows, texts, strict=True):
                    connection.execute(sa.insert(table), [_copy(row, text, others) for others in ids])
                copied = [(others[instance_id], _renamed(held.decode(), others)) for others in ids]
                books.executemany("INSERT INTO held VALUES ('instance', ?, CAST(? AS BLOB))", copied)
        if not self._is_sqlite:
            with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(sa.text("VACUUM ANALYZE"))
        with self._engine.connect() as connection:
            found = connection.execute(sa.select(share_tables.shares.c.id).limit(500)).scalars()
            self._looks = [self._door.request("GET", f"/v2/shares/{one}") for one in found]

    def _books(self) -> sqlite3.Connection:
        return sqlite3.connect(self._state / "backends" / "dummy" / "dummy.sqlite", timeout=30)

    # ---------------------------------------------------------------- ensuring

    def ask(self) -> str:
        """Ask for it as an administrator does, and the operation's id."""
        before = self._newest()
        self._user.call("POST", "/services/ensure-shares", {"host": "bench@dummy"})
        return self._newer(before)

    def move(self) -> str:
        """Give the back end another export address while it serves; the id of the operation that follows."""
        before = self._newest()
        self._at = SECOND if self._at == FIRST else FIRST
        self.service.configure("dummy", export_ips=self._at)
        self.service.reload()
        return self._newer(before)

    def watch(self, ensuring: Any) -> Ensured:
        """Ask for one once all is quiet, and see it end."""
        processes.wait_until(lambda: self.has_ended(None), _LIMIT_S, "the end of all ensuring")
        spent = usage.Spent(self.roots)
        op_id = ensuring()
        processes.wait_until(lambda: self.has_ended(op_id), _LIMIT_S, "the end of an ensuring")
        cpu_s, row = spent.so_far(), self._row(op_id)
        if row.state != "done":
            raise RuntimeError(f"the ensuring is {row.state}: {row.error_text}")
        return Ensured((row.finished_at - row.created_at).total_seconds(), cpu_s, row.data["findings"])

    @property
    def roots(self) -> dict[str, int]:
        """The trees of processes that work for it."""
        mine = {"Abaca": self.service.process.pid}
        return mine if self._is_sqlite else mine | {"database": self._stand.postgres.process.pid}

    def has_ended(self, op_id: str | None) -> bool:
        """Whether this operation, or every one, has ended."""
        table = journal_tables.operations
        which = sa.true() if op_id is None else table.c.id == op_id
        with self._engine.connect() as connection:
            return not connection.scalar(
                sa.select(sa.func.count()).select_from(table).where(which, table.c.state.not_in(ENDED))
            )

    def _newest(self) -> int:
        with self._engine.connect() as connection:
            return connection.scalar(sa.select(sa.func.max(journal_tables.operations.c.seq))) or 0

    def _newer(self, seq: int) -> str:
        table = journal_tables.operations
        newer = sa.select(table.c.id).where(table.c.seq > seq, table.c.kind == "backend-ensure")

        def found() -> str | None:
            with self._engine.connect() as connection:
                return connection.scalar(newer)

        return str(processes.wait_until(found, 60.0, "an ensuring"))

    def _row(self, op_id: str) -> Any:
        with self._engine.connect() as connection:
            return connection.execute(
                sa.select(journal_tables.operations).where(journal_tables.operations.c.id == op_id)
            ).one()

    # ---------------------------------------------------------------- reading

    def read(self, is_over: Any) -> list[float]:
        """The seconds of each request of some readers, who ask until it is over."""
        took_s: list[float] = []
        over = threading.Event()

        def watch() -> None:
            while not over.is_set():
                if is_over():
                    over.set()
                over.wait(0.1)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        readers = [self._reader(number, over, took_s) for number in range(READERS)]
        clients.drive(self._door, readers)
        watcher.join()
        return took_s

    def _reader(self, number: int, over: threading.Event, took_s: list[float]) -> clients.Client:
        while not over.is_set():
            for raw in self._looks[number::READERS]:
                answer = yield raw
                if answer.status != 200:
                    raise RuntimeError(f"a look was answered with {answer.status}: {answer.body[:200]!r}")
                took_s.append(answer.took_s)
                if over.is_set():
                    return
                yield PAUSE_S


def _templates(instance_id: str, share_id: str) -> Iterator[sa.Select[Any]]:
    """What is copied, in the order in which it is written: all of one share, and where it can be mounted now."""
    locations, history = share_tables.export_locations, share_tables.export_location_history
    yield sa.select(share_tables.shares).where(share_tables.shares.c.id == share_id)
    yield sa.select(share_tables.share_instances).where(share_tables.share_instances.c.id == instance_id)
    yield sa.select(locations).where(locations.c.share_instance_id == instance_id)
    yield sa.select(history).where(history.c.share_instance_id == instance_id, history.c.until.is_(None))


def _renamed(text: str, others: dict[str, str]) -> str:
    return re.sub("|".join(map(re.escape, others)), lambda found: others[found[0]], text)


def _copy(row: Any, text: str, others: dict[str, str]) -> dict[str, Any]:
    """The row as that of another share: its ids wherever they stand, and a fresh id where it has one of its own."""
    copied = json.loads(_renamed(text, others))
    if copied["id"] == row["id"]:
        copied["id"] = new_id()
    times = {name: value for name, value in row.items() if isinstance(value, datetime.datetime)}
    return {**copied, **times}
