# SPDX-License-Identifier: Apache-2.0
"""The schema's revision: is the database the one this code was written for, and how it becomes that.

Looking costs one SELECT; Alembic is imported only to upgrade. No revision is written to be used by the release before:
programs run on the one schema that they know, and are refused on any other.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from abaca import errors
from abaca.db import tables
from abaca.db.engine import trouble
from abaca.db.engine.database import write_ahead
from abaca.db.migrations import HEAD

if TYPE_CHECKING:
    from alembic.config import Config

    from abaca.db.engine.database import Database, Tx

_UPGRADE_LOCK = 0x0ABACA
# As Alembic makes it.
_version = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


def revision(db: Database) -> str | None:
    """The revision that the database is at, None when it is empty. Raises what the driver raises when it is away."""
    with db.read() as tx:
        return _revision(tx)


def _revision(tx: Tx) -> str | None:
    if not sa.inspect(tx.connection).has_table("alembic_version"):
        return None
    found = tx.scalar(sa.select(_version.c.version_num))
    return None if found is None else str(found)


def check(db: Database) -> None:
    """Raises `ConfigError` when the database is at any revision but this code's, `Unavailable` when it is away."""
    with trouble.explained(db.url):
        found = revision(db)
    if found is not None and not found.isdecimal():
        raise _foreign(found)
    if found is None or found < HEAD:
        state = "is empty" if found is None else f"is at revision {found}"
        problem = f"The database {state}, this release needs {HEAD}"
        raise errors.ConfigError(problem=problem, mend="Run `abaca db upgrade`")
    if found > HEAD:
        raise _ahead(found, "Install that release, or restore the backup from before its upgrade")


def _ahead(found: str, mend: str) -> errors.ConfigError:
    return errors.ConfigError(problem=f"The database is at revision {found}, ahead of this release's {HEAD}", mend=mend)


def _foreign(found: str) -> errors.ConfigError:
    return errors.ConfigError(
        problem=f"The database is at revision {found[:32]!r}, which is none of Abaca's",
        mend="Give Abaca one of its own",
    )


def create_if_empty(db: Database) -> bool:
    """Make the schema of an empty SQLite database at once, without the chain; whether it was empty.

    Several processes may call it together: SQLite's write lock lets one of them do it.
    """
    with trouble.explained(db.url):
        return revision(db) is None and _create(db)


def _create(db: Database) -> bool:
    with db.write() as tx:
        if _revision(tx) is not None:
            return False
        if sa.inspect(tx.connection).get_table_names():
            raise errors.ConfigError(
                problem=f"{db.url.database} holds tables but no revision", mend="Give Abaca a database of its own"
            )
        tables.metadata.create_all(tx.connection)
        _version.create(tx.connection)
        tx.execute(sa.insert(_version).values(version_num=HEAD))
    return True


def alembic_config() -> Config:
    """Alembic's configuration without a file: the chain lies beside this module."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "abaca.db:migrations")
    config.set_main_option("path_separator", "os")
    return config


def upgrade(url: str, to: str = "head") -> tuple[str | None, str | None]:
    """Bring the database forward to revision `to`; the revisions before and after.

    In one transaction, but for revisions of PostgreSQL that say that they are outside of any: they lock nobody out, and
    are repeated where they ended half-way. Raises `ConfigError` for a database that is ahead of this release, and as
    `check` does when it cannot be used.
    """
    from alembic import command

    return _migrate(url, command.upgrade, to, _legs)


def downgrade(url: str, to: str) -> tuple[str | None, str | None]:
    """Take the database back to revision `to`, in one transaction; the revisions before and after. Data may be lost."""
    from alembic import command

    return _migrate(url, command.downgrade, to)


class _Leg(NamedTuple):
    """A part of the way: to which revision, and whether outside of a transaction."""

    to: str
    is_outside: bool


def _legs(config: Config, before: str | None, to: str) -> list[_Leg]:
    from alembic.script import ScriptDirectory

    way = list(ScriptDirectory.from_config(config).iterate_revisions(to, before or "base"))
    legs: list[_Leg] = []
    for one in reversed(way):
        leg = _Leg(one.revision, bool(getattr(one.module, "outside_transaction", False)))
        if legs and legs[-1].is_outside == leg.is_outside:
            legs.pop()
        legs.append(leg)
    return legs


def _migrate(
    url: str,
    move: Callable[[Config, str], None],
    to: str,
    legs: Callable[[Config, str | None, str], list[_Leg]] | None = None,
) -> tuple[str | None, str | None]:
    engine = migration_engine(sa.make_url(url))
    config = alembic_config()
    try:
        with trouble.explained(engine.url), _alone(engine):
            way = [_Leg(to, is_outside=False)]
            if legs is not None and engine.dialect.name == "postgresql":
                with engine.connect() as connection:
                    way = legs(config, _known(connection), to) or way
            passed = [_moved(engine, config, move, leg) for leg in way]
    finally:
        engine.dispose()
    return passed[0][0], passed[-1][1]


@contextlib.contextmanager
def _alone(engine: sa.Engine) -> Iterator[None]:
    """Nobody else upgrades meanwhile. SQLite's write lock sees to that by itself."""
    if engine.dialect.name != "postgresql":
        yield
        return
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        # asked again and again: an index is not made while a statement waits, as one for a lock would
        while not connection.scalar(sa.text("SELECT pg_try_advisory_lock(:key)"), {"key": _UPGRADE_LOCK}):
            time.sleep(0.1)
        yield


def _known(connection: sa.Connection) -> str | None:
    found = _current(connection)
    if found is not None and not found.isdecimal():
        raise _foreign(found)
    if found is not None and found > HEAD:
        raise _ahead(found, "There is nothing to upgrade here: install the release that it belongs to")
    return found


def _moved(
    engine: sa.Engine, config: Config, move: Callable[[Config, str], None], leg: _Leg
) -> tuple[str | None, str | None]:
    """Go that leg; the revisions before and after it."""
    outside = engine.execution_options(isolation_level="AUTOCOMMIT") if leg.is_outside else engine
    with outside.connect() as connection, connection.begin():
        before = _known(connection)
        config.attributes["connection"] = connection
        move(config, leg.to)
        if connection.dialect.name == "sqlite":
            _refuse_dangling(connection)
        return before, _current(connection)


def _current(connection: sa.Connection) -> str | None:
    from alembic.runtime.migration import MigrationContext

    found = MigrationContext.configure(connection).get_current_revision()
    return None if found is None else str(found)


def migration_engine(url: sa.URL) -> sa.Engine:
    """Unlike at work, SQLite's foreign keys are off: a table that is rebuilt must not take its children with it."""
    if url.get_backend_name() != "sqlite":
        return sa.create_engine(url.set(drivername="postgresql+psycopg"), poolclass=sa.NullPool)
    engine = sa.create_engine(url, poolclass=sa.NullPool, connect_args={"timeout": 30})

    @sa.event.listens_for(engine, "connect")
    def _prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None
        write_ahead(connection)

    @sa.event.listens_for(engine, "begin")
    def _lock_at_once(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _refuse_dangling(connection: sa.Connection) -> None:
    dangling = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
    if dangling is not None:
        raise errors.ConfigError(
            problem=f"The upgrade would leave a row of {dangling[0]} without its {dangling[2]}",
            mend="Nothing was changed; report this as a bug",
        )
