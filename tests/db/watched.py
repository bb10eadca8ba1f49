# SPDX-License-Identifier: Apache-2.0
"""What databases really do: each statement that a program sends, with the plan by which it was run.

PostgreSQL says it of each statement when it has run it (auto_explain); of SQLite each text is asked for its plan.
"""

import contextlib
import json
import re
import sqlite3
import threading
from typing import NamedTuple

import sqlalchemy as sa

_EXPLAIN = {
    "log_min_duration": "0", "log_analyze": "on", "log_timing": "off", "log_buffers": "on", "log_format": "json",
    "log_level": "notice",
}  # fmt: skip


def explain(connection, tell):
    """Have PostgreSQL tell the plan of each statement once it has run it."""
    connection.execute("LOAD 'auto_explain'")
    for name, value in _EXPLAIN.items():
        connection.execute(f"SET auto_explain.{name} = {value}")
    connection.add_notice_handler(lambda notice: tell(notice.message_primary))


class Seen(NamedTuple):
    """A statement that was run: by which thread, its text, and its plan as lines."""

    thread: str
    text: str
    lines: list
    # pages that were read, of PostgreSQL
    buffers: int = 0

    @property
    def scanned(self):
        """The tables of which every row was looked at."""
        found = (re.match(r"Seq Scan (\w+)|SCAN (\w+)", line) for line in self.lines)
        return {one[1] or one[2] for one in found if one}

    @property
    def indexes(self):
        """The indexes that were gone by."""
        return set(re.findall(r"\b(?:ix|uq|pk)_\w+", "\n".join(self.lines)))


class Watched:
    """The statements of all databases that are opened while it is on."""

    def __init__(self):
        self._told = []

    @contextlib.contextmanager
    def on(self):
        """To be entered before the databases are opened."""
        sa.event.listen(sa.pool.Pool, "connect", self.watch)
        try:
            yield self
        finally:
            sa.event.remove(sa.pool.Pool, "connect", self.watch)

    def watch(self, connection, _record=None):
        """What one connection is asked from now on."""

        def tell(said):
            self._told.append((threading.current_thread().name, said))

        if isinstance(connection, sqlite3.Connection):
            connection.set_trace_callback(tell)
            return
        explain(connection, tell)
        connection.commit()

    def forget(self, thread=None):
        """Begin anew, or leave out what that thread has done so far."""
        self._told[:] = [one for one in self._told if thread not in (None, one[0])]

    def statements(self, db):
        """What was run since, on the database `db`; transactions and settings are left out."""
        with db.read() as tx:
            ask = tx.connection.connection.dbapi_connection
            told = list(self._told)
            if not db.is_sqlite:
                return [_of_postgresql(thread, said) for thread, said in told if " plan:\n" in said]
            ask.set_trace_callback(None)
            is_work = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)", re.IGNORECASE)
            return [
                Seen(thread, said, [row[3] for row in ask.execute(f"EXPLAIN QUERY PLAN {said}")])
                for thread, said in told
                if is_work.match(said)
            ]


def _of_postgresql(thread, said):
    plan = json.loads(said[said.index("{") :])
    top = plan["Plan"]
    buffers = top.get("Shared Hit Blocks", 0) + top.get("Shared Read Blocks", 0)
    return Seen(thread, plan["Query Text"], list(_lines(top)), buffers)


def _lines(node):
    names = (node.get(key) for key in ("Node Type", "Relation Name", "Index Name"))
    yield " ".join(name for name in names if name) + f" rows={node['Plan Rows']}"
    for one in node.get("Plans", ()):
        yield from _lines(one)
