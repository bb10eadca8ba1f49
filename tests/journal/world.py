# SPDX-License-Identifier: Apache-2.0
"""A toy world: named things in places, as files that all worker processes share, and facts in the database.

Each thing knows which operation has put it there. Whoever puts or takes what belongs to another, or works beside
another that shall not be there, is complained of: that is how a test sees that two had the same key.
"""

import contextlib
import fcntl
import itertools
import os
import threading
from pathlib import Path

import sqlalchemy as sa

from abaca.db.engine.database import insert_into
from abaca.db.tables.catalog import availability_zones as t
from abaca.domain.ids import new_id

PLACES = ("home", "source", "destination", "held")
_numbers = itertools.count()


class World:
    """Things in places below a directory."""

    def __init__(self, directory):
        self.directory = Path(directory)
        for place in (*PLACES, "locks"):
            (self.directory / place).mkdir(parents=True, exist_ok=True)
        self._complaints = self.directory / "complaints"
        self._notes = self.directory / "notes"

    def put(self, place, name, owner):
        """Whole or not at all, and a second time as once."""
        path = self.directory / place / name
        made = self.directory / f"{os.getpid()}-{threading.get_ident()}-{next(_numbers)}"
        made.write_text(owner)
        try:
            os.link(made, path)
        except FileExistsError:
            self._is_of(path, owner)
        finally:
            made.unlink()

    def take(self, place, name, owner):
        """It is not there any more, if it was."""
        path = self.directory / place / name
        with contextlib.suppress(FileNotFoundError):
            if self._is_of(path, owner):
                path.unlink()

    def _is_of(self, path, owner):
        found = path.read_text()
        if found != owner:
            self.complain(f"{owner} finds {path.name}, which {found} has put there")
        return found == owner

    def there(self, place, name):
        return (self.directory / place / name).exists()

    @contextlib.contextmanager
    def alone(self, names):
        """Nobody else, of whichever process, works under one of the names meanwhile."""
        with contextlib.ExitStack() as stack:
            for name in names:
                file = stack.enter_context((self.directory / "locks" / name.replace("/", "_")).open("w"))
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    self.complain(f"two at once under {name}")
            yield

    def note(self, line):
        """Lines of all processes, in order."""
        _append(self._notes, line)

    @property
    def notes(self):
        return self._notes.read_text().splitlines() if self._notes.exists() else []

    def complain(self, line):
        _append(self._complaints, line)

    def complaints(self):
        """What was complained of since the last time."""
        if not self._complaints.exists():
            return []
        found = self._complaints.read_text().splitlines()
        self._complaints.unlink()
        return found

    def things(self, about):
        """`place/name` of each thing whose name begins so."""
        return {
            f"{place}/{path.name}"
            for place in PLACES
            for path in (self.directory / place).iterdir()
            if path.name.startswith(about)
        }


def _append(path, line):
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


# ---------------------------------------------------------------- facts


def state_fact(tx, name):
    """It is so, from this transaction on; False when that was so already. Of two who say it at once one is first."""
    row = {"id": new_id(), "name": name, "created_at": tx.now}
    return tx.row(insert_into(t, tx.dialect).on_conflict_do_nothing().returning(t.c.id), row) is not None


def withdraw_fact(tx, name):
    tx.execute(sa.delete(t).where(t.c.name == name))


def is_fact(tx, name):
    return tx.row(sa.select(t.c.id).where(t.c.name == name)) is not None


def facts(tx, about):
    """`facts/name` of each whose name begins so."""
    return {f"facts/{row.name}" for row in tx.rows(sa.select(t.c.name).where(t.c.name.startswith(about)))}
