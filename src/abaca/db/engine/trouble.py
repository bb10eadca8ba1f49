# SPDX-License-Identifier: Apache-2.0
"""Why a database cannot be used: a person has to mend something (`ConfigError`), or it may pass (`Unavailable`).

SQLite says it by codes. Of PostgreSQL there is only the text when a connection is refused; what the text does not say
counts as passing, since waiting is what harms least.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import exc

from abaca import errors

_CONNECTION = "[database] connection"
_ANEW = "Put a backup in its place; or move it away, and the next start makes an empty one"
_ROOM = "Make room for it"
_SQLITE = {
    sqlite3.SQLITE_NOTADB: ("is no SQLite database", _ANEW),
    sqlite3.SQLITE_CORRUPT: ("is damaged", _ANEW),
    sqlite3.SQLITE_CANTOPEN: ("cannot be opened", "Make it a file that this user may read and write, or move it away"),
    sqlite3.SQLITE_PERM: ("may not be used by this user", "Give it to the user that runs Abaca"),
    sqlite3.SQLITE_READONLY: (
        "cannot be written",
        "Give it to the user that runs Abaca, on a disk that can be written",
    ),
    sqlite3.SQLITE_FULL: ("finds no room on its disk", _ROOM),
    sqlite3.SQLITE_IOERR: ("cannot be read or written", f"{_ROOM}, or look at its disk"),
}
_POSTGRESQL = (
    (r"role \"[^\"]*\" does not exist|not permitted to log in", f"Make that user, or name another in {_CONNECTION}"),
    (
        r"database \"[^\"]*\" does not exist",
        f"Make it with `createdb --owner USER NAME`, or name another in {_CONNECTION}",
    ),
    (r"authentication failed|no password supplied", f"Mend the user or the password in {_CONNECTION}"),
    (r"no pg_hba\.conf entry|rejects connection", "Let this host and user in, in the server's pg_hba.conf"),
    (r"permission denied|must be owner", "Make the user of the connection the owner of the database"),
    (r"does not support SSL|certificate|sslmode|private key file", f"Mend the options of TLS in {_CONNECTION}"),
    (r"invalid (connection option|URI|port|integer|value|.* value)|could not parse", f"Mend {_CONNECTION}"),
)


def as_error(url: sa.URL, error: exc.DBAPIError) -> errors.ConfigError | errors.Unavailable:
    """What to tell of a database that cannot be used: where it is, without the password, why not, and the mend."""
    where = url.render_as_string(hide_password=True)
    lines = [line.strip().removeprefix("- ") for line in str(error.orig).splitlines() if line.strip()]
    if url.get_backend_name() == "sqlite":
        code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
        if code in _SQLITE:
            what, mend = _SQLITE[code]
            return errors.ConfigError(problem=f"The database {url.database} {what}", mend=mend)
    else:
        for pattern, mend in _POSTGRESQL:
            found = next((line for line in lines if re.search(pattern, line)), None)
            if found is not None:
                return errors.ConfigError(problem=f"The database {where} refuses: {_reason(found)}", mend=mend)
    reason = _reason(lines[0]) if lines else type(error.orig).__name__
    return errors.Unavailable(
        f"The database {where} does not answer: {reason}. Start it, or mend [database] connection"
    )


def of_disk(error: BaseException) -> str | None:
    """What is wrong with the disk of an SQLite database that has failed for that; None for any other error."""
    code = getattr(getattr(error, "orig", None), "sqlite_errorcode", 0) & 0xFF
    return _SQLITE[code][0] if code in _DISK else None


def is_away(error: BaseException) -> bool:
    """Whether the database itself cannot work now: no connection, no room, a failing disk, another server's turn.

    False for what it says of a statement, which no waiting mends.
    """
    if isinstance(error, exc.TimeoutError):  # all connections are taken, by those who wait for it
        return True
    if not isinstance(error, exc.OperationalError | exc.InterfaceError | exc.InternalError):
        return False
    if isinstance(error.orig, sqlite3.Error):
        return getattr(error.orig, "sqlite_errorcode", 0) & 0xFF in _PASSES
    state = getattr(error.orig, "sqlstate", None)
    return state is None or state.startswith(_STATES)


# A broken connection; no room, memory or connections; being shut down; its disk; read-only since another one writes.
_STATES = ("08", "53", "57P", "58", "25006")
_DISK = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_PASSES = (*_DISK, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL)


@contextlib.contextmanager
def explained(url: sa.URL) -> Iterator[None]:
    """What the driver of the database raises in this block is raised as `as_error` has it."""
    try:
        yield
    except exc.DBAPIError as error:
        raise as_error(url, error) from None


def _reason(line: str) -> str:
    """What the server said, or else what the library says of it."""
    return line.partition("FATAL:")[2].strip() or line


def check_url(text: str) -> None:
    """Raises `ConfigError` for a connection that can never work. Its text is not shown: it may hold a password."""
    example = "Write postgresql://user:password@host:5432/name, with % for what is special in a URL"
    if not text.startswith(("sqlite:", "postgresql:", "postgresql+psycopg:")):
        raise errors.ConfigError(problem=f"{_CONNECTION} is neither SQLite nor PostgreSQL", mend=example)
    try:
        url = sa.make_url(text)
    except (exc.ArgumentError, ValueError):
        raise errors.ConfigError(problem=f"{_CONNECTION} is no URL, or its port is no number", mend=example) from None
    if url.port is not None and not 1 <= url.port <= 65535:
        raise errors.ConfigError(problem=f"{_CONNECTION} names the port {url.port}", mend="Write one of 1 to 65535")
    if url.get_backend_name() != "sqlite":
        _check_files(url)
        return
    if url.query or url.host or not url.database or not Path(url.database).is_absolute():
        raise errors.ConfigError(
            problem=f"{_CONNECTION} does not say which file SQLite shall use",
            mend="Write sqlite:////var/lib/abaca/abaca.sqlite, or leave it out for the one in state_path",
        )


def _check_files(url: sa.URL) -> None:
    for option in ("sslrootcert", "sslcert", "sslkey"):
        file = str(url.query.get(option, "system"))
        if file != "system" and not os.access(file, os.R_OK):
            raise errors.ConfigError(
                problem=f"{option} in {_CONNECTION}: {file} cannot be read", mend="Make it readable for this user"
            )
