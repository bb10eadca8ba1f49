# SPDX-License-Identifier: Apache-2.0
"""A SQLite database that is new is opened by several processes at once: each gets it, and it has a write-ahead log."""

import contextlib
import sqlite3
import subprocess
import sys
import threading

from abaca.db.engine.database import write_ahead

OPENING = """
import sys, sqlalchemy as sa
from abaca.db.engine.database import Database
print("ready", flush=True)
sys.stdin.readline()
for number in range(40):
    db = Database(f"sqlite:///{sys.argv[1]}/{number}.sqlite")
    with db.read() as tx:
        assert tx.scalar(sa.text("PRAGMA journal_mode")) == "wal"
    db.close()
"""


def test_a_new_database_can_be_opened_by_several_processes_at_once(tmp_path):
    command = [sys.executable, "-c", OPENING, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    found = [subprocess.Popen(command, **pipes) for _ in range(4)]
    for one in found:
        assert one.stdout.readline() == "ready\n"
    for one in found:
        one.stdin.write("\n")
        one.stdin.flush()
    ends = [(one.communicate(timeout=60)[1], one.returncode) for one in found]
    assert ends == [("", 0)] * 4


def test_whoever_opens_it_while_another_writes_its_first_rows_waits(tmp_path):
    """SQLite refuses that at once, whatever time-out it was given."""
    first = sqlite3.connect(tmp_path / "new.sqlite", isolation_level=None)
    first.execute("CREATE TABLE made (x)")
    first.execute("BEGIN IMMEDIATE")
    was_refused, seen = threading.Event(), []

    class Opened(sqlite3.Connection):
        def execute(self, *text):
            try:
                return super().execute(*text)
            except sqlite3.OperationalError:
                was_refused.set()
                raise

    def look():
        with contextlib.closing(sqlite3.connect(tmp_path / "new.sqlite", factory=Opened)) as second:
            write_ahead(second)
            seen.extend(second.execute("PRAGMA journal_mode").fetchone())

    thread = threading.Thread(target=look)
    thread.start()
    assert was_refused.wait(60)
    assert seen == []
    first.execute("COMMIT")
    thread.join(60)
    first.close()
    assert seen == ["wal"]
