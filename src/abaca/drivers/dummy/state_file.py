# SPDX-License-Identifier: Apache-2.0
"""What a dummy back end holds, in one SQLite file that any number of worker processes and threads may share.

A change is one transaction, so a process killed inside a call leaves either all of it or nothing. Nothing is synced to
disk: what is rehearsed here need not survive a power cut.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from abaca.drivers import contract

Record = dict[str, Any]

# The kind of the records of what was seen of each instance; they outlive it.
SEEN = "seen"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS held (kind TEXT, id TEXT, value BLOB, PRIMARY KEY (kind, id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pools (name TEXT PRIMARY KEY, allocated_gib INTEGER NOT NULL) WITHOUT ROWID;
"""


# What SQLite says while somebody else has the file, and of a disk that is full or fails.
_PASSING = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
)


class StateFile:
    """Records by kind and id, and per pool the sum of what was claimed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._expected = threading.local()

    def open(self) -> None:
        """Raises `contract.Unreachable` when the file cannot be opened."""
        with self._lock:
            if self._db is not None:
                return
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                db = sqlite3.connect(self._path, timeout=10, isolation_level=None, check_same_thread=False)
                db.execute("PRAGMA journal_mode=WAL")
                db.execute("PRAGMA synchronous=OFF")
                db.executescript(_SCHEMA)
            except (OSError, sqlite3.Error) as error:
                raise contract.Unreachable(reason=f"{self._path}: {error}") from error
            self._db = db

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    @contextlib.contextmanager
    def expecting(self, generations: Mapping[str, int]) -> Iterator[None]:
        """Changes by this thread are for these instances, by id, and compare their generations."""
        self._expected.generations = generations
        try:
            yield
        finally:
            self._expected.generations = {}

    @contextlib.contextmanager
    def change(self) -> Iterator[Records]:
        """One transaction, undone by an exception.

        Raises `contract.Unreachable` when closed or locked too long, or while its disk is full or fails, and
        `contract.Superseded` when it comes too late.
        """
        with self._lock:
            if self._db is None:
                raise contract.Unreachable(reason="it is not started")
            try:
                with _transaction(self._db):
                    records = Records(self._db)
                    for id, generation in getattr(self._expected, "generations", {}).items():
                        records.see(id, generation)
                    yield records
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in _PASSING:
                    raise
                raise contract.Unreachable(reason=f"{self._path}: {error}") from error


@contextlib.contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    finally:
        if db.in_transaction:  # some failures of a disk have ended it already
            db.execute("ROLLBACK")


class Records:
    """The state file inside one transaction."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def get(self, kind: str, id: str) -> Record | None:
        row = self._db.execute("SELECT value FROM held WHERE kind = ? AND id = ?", (kind, id)).fetchone()
        return None if row is None else msgspec.json.decode(row[0], type=Record)

    def need(self, kind: str, id: str) -> Record:
        """Raises `contract.Gone` when there is no such record."""
        record = self.get(kind, id)
        if record is None:
            raise contract.Gone(reason=f"no {kind} {id}")
        return record

    def put(self, kind: str, id: str, record: Record) -> None:
        self._db.execute(
            "INSERT INTO held VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
            (kind, id, msgspec.json.encode(record)),
        )

    def is_superseded(self, instance_id: str, generation: int | None) -> bool:
        """Whether a greater generation was seen for the instance."""
        seen = self.get(SEEN, instance_id)
        return seen is not None and generation is not None and seen["generation"] > generation

    def see(self, instance_id: str, generation: int) -> None:
        """Keep the generation as the one that was seen. Raises `contract.Superseded` when that is a greater one."""
        if self.is_superseded(instance_id, generation):
            raise contract.Superseded(reason=f"this call for {instance_id} comes too late")
        self.put(SEEN, instance_id, {"generation": generation})

    def drop(self, kind: str, id: str) -> None:
        self._db.execute("DELETE FROM held WHERE kind = ? AND id = ?", (kind, id))

    def all(self, kind: str) -> dict[str, Record]:
        rows = self._db.execute("SELECT id, value FROM held WHERE kind = ? ORDER BY id", (kind,))
        return {id: msgspec.json.decode(value, type=Record) for id, value in rows}

    def ids_after(self, kind: str, after: str, most: int) -> list[str]:
        """Of up to `most` records, in order, that follow `after`."""
        found = "SELECT id FROM held WHERE kind = ? AND id > ? ORDER BY id LIMIT ?"
        return [id for (id,) in self._db.execute(found, (kind, after, most))]

    def kinds(self) -> list[str]:
        return [kind for (kind,) in self._db.execute("SELECT DISTINCT kind FROM held ORDER BY kind")]

    def allocated_gib(self, pool: str) -> int:
        row = self._db.execute("SELECT allocated_gib FROM pools WHERE name = ?", (pool,)).fetchone()
        return 0 if row is None else int(row[0])

    def claim(self, pool: str, gib: int) -> None:
        """Count `gib` more (or fewer) as claimed in the pool."""
        self._db.execute(
            "INSERT INTO pools VALUES (?, ?)"
            " ON CONFLICT DO UPDATE SET allocated_gib = allocated_gib + excluded.allocated_gib",
            (pool, gib),
        )
