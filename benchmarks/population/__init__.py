# SPDX-License-Identifier: Apache-2.0
"""A database as it is after a year: any number of shares with all that belongs to them, written as fast as SQL can.

`python -m benchmarks.population postgresql://... 100000` fills a database that has Abaca's tables and nothing in them.

A tenth of the shares is in one project, `LARGE`. Whatever is rare, such as a status or a name, is so on ten of its
oldest shares, whatever the number of all; so a list that finds them shows the same at each size, and has to look
behind all others for them. What is counted (quota usage, the room of pools) is what is there.
"""

from __future__ import annotations

import contextlib
import datetime
import sqlite3
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from abaca.db import tables
from abaca.db.administration import pools
from abaca.db.catalog import quotas
from abaca.db.engine.database import Database
from abaca.domain.shares.shares import status_rank
from benchmarks.population import contents
from benchmarks.population.words import (
    BACKENDS,
    BIG_CLUSTER,
    DEFAULT_TYPE,
    GOLD_TYPE,
    HOST,
    LARGE,
    POOLS,
    RARE,
    RARE_HOST,
    RARE_SHARES,
    RARE_TYPE,
    Postgresql,
    Rows,
    Sqlite,
    Words,
    id_of,
)

__all__ = [
    "BACKENDS",
    "BIG_CLUSTER",
    "DEFAULT_TYPE",
    "GOLD_TYPE",
    "HOST",
    "LARGE",
    "POOLS",
    "RARE",
    "RARE_HOST",
    "RARE_SHARES",
    "RARE_TYPE",
    "fill",
    "id_of",
]


def insert(rows: Rows) -> str:
    """The statement that writes them; columns not named have their defaults. Raises ValueError where there is none."""
    columns = dict(rows.columns)
    for column in tables.metadata.tables[rows.table].columns:
        if column.name in columns or column.nullable or column.server_default is not None:
            continue
        if column.default is not None and column.default.is_scalar:
            columns[column.name] = str(sa.literal(column.default.arg).compile(compile_kwargs={"literal_binds": True}))
        elif not column.autoincrement or not column.primary_key or isinstance(column.type, sa.String):
            raise ValueError(f"{column} needs a value: say it in {__name__}")
    where = f"{rows.where} AND n <= {rows.number}" if rows.number else rows.where
    order = " ORDER BY n" if rows.number else ""
    names, values = ", ".join(columns), ", ".join(columns.values())
    return f"INSERT INTO {rows.table} ({names}) SELECT {values} FROM {rows.source} WHERE {where}{order}"  # noqa: S608


def fill(url: str, shares: int) -> None:
    """Fill an empty database of Abaca's with so many shares and the history of a year until now."""
    address = sa.make_url(url)
    if address.get_backend_name() == "sqlite":
        _fill_sqlite(str(address.database), Words(shares, Sqlite(_now())))
    else:
        _fill_postgresql(url, shares)
    _count(url)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")


# What is offered waits for that.
_OFFERED = f"""UPDATE share_instances SET status = 'awaiting_transfer', status_rank = {status_rank("awaiting_transfer")}
WHERE status = 'available' AND share_id IN (SELECT share_id FROM share_transfers)"""  # noqa: S608


def complete(url: str, shares: int) -> None:
    """Fill the tables that a filled database of PostgreSQL has not had yet when it was filled."""
    with _on_postgresql(url, shares) as (connection, words):
        rows = list(contents.everything(words))
        is_empty = {
            name: connection.execute(f"SELECT NOT EXISTS (SELECT 1 FROM {name})").fetchone()[0]  # noqa: S608 - our own tables
            for name in dict.fromkeys(one.table for one in rows)
        }
        for one in rows:
            if is_empty[one.table]:
                connection.execute(insert(one))
                connection.execute(f"VACUUM ANALYZE {one.table}")
        if is_empty["share_transfers"]:
            connection.execute(_OFFERED)
    if any(is_empty.values()):
        _count(url)


def _count(url: str) -> None:
    """Whatever else is counted is what is there, as after a restore."""
    database = Database(url)
    with database.write() as tx:
        quotas.recount(tx)
        pools.recount(tx)
    database.close()


def _fill_sqlite(path: str, words: Words) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for pragma in ("synchronous = OFF", "cache_size = -1000000", "temp_store = MEMORY"):
            connection.execute(f"PRAGMA {pragma}")
        last = words.shares
        connection.execute("BEGIN")
        connection.execute(
            "CREATE TEMP TABLE numbers AS WITH RECURSIVE up(n) AS"  # noqa: S608
            f" (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < {last}) SELECT n FROM up"
        )
        # in one order: of indexes that seem to be as good SQLite takes that which was made last
        _write(
            connection,
            words,
            "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND name LIKE 'ix%' ORDER BY name",
        )
        # its rows are not counted (ANALYZE): Abaca never does that
        connection.execute("COMMIT")


@contextlib.contextmanager
def _on_postgresql(url: str, shares: int) -> Iterator[tuple[Any, Words]]:
    """A connection by which rows are written fast, and what is said of them."""
    import psycopg

    words = Words(shares, Postgresql(_now()))
    plain = sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, autocommit=True) as connection:
        for setting in (
            "session_replication_role = replica",
            "synchronous_commit = off",
            "maintenance_work_mem = '512MB'",
            "work_mem = '256MB'",
        ):
            connection.execute(f"SET {setting}")
        connection.execute(
            f"CREATE TEMP TABLE numbers AS SELECT n FROM generate_series(1, {words.shares}) AS n"  # noqa: S608
        )
        yield connection, words


def _fill_postgresql(url: str, shares: int) -> None:
    with _on_postgresql(url, shares) as (connection, words):
        _write(
            connection,
            words,
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' AND indexname LIKE 'ix%'"
            " AND indexdef NOT LIKE 'CREATE UNIQUE%'",
        )
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


def _write(connection: Any, words: Words, indexes: str) -> None:
    """Write everything. The indexes beside the keys are made at the end: row by row they take minutes for a million."""
    found = connection.execute(indexes).fetchall()
    for name, _ in found:
        connection.execute(f"DROP INDEX {name}")
    for rows in contents.everything(words):
        connection.execute(insert(rows))
    for _, definition in found:
        connection.execute(definition)
