# SPDX-License-Identifier: Apache-2.0
"""How much a database does: pages that PostgreSQL reads, and steps of SQLite's machine. Not how long it takes."""

import collections
import concurrent.futures
import contextlib
import threading

import sqlalchemy as sa

from tests.db.watched import Watched

_ONLOOKER = "onlooker"


class Counted:
    """What all databases do that are opened while it is on; they are of one kind."""

    def __init__(self, *, is_sqlite):
        self._is_sqlite = is_sqlite
        self._watched = Watched()
        # of SQLite's machine, in hundreds
        self._steps = 0
        self._seen = []

    @contextlib.contextmanager
    def on(self):
        """To be entered before the databases are opened."""
        with self._watched.on():
            # when it was made it may yet be given a handler for the limits of requests
            sa.event.listen(sa.pool.Pool, "checkout", self._prepare)
            try:
                yield self
            finally:
                sa.event.remove(sa.pool.Pool, "checkout", self._prepare)

    def _prepare(self, connection, _record, _proxy):
        if self._is_sqlite:
            connection.set_progress_handler(self._step, 100)
        else:
            connection.prepare_threshold = 0  # as it is after some runs

    def _step(self):
        self._steps += not threading.current_thread().name.startswith(_ONLOOKER)
        return 0

    @staticmethod
    def apart(do):
        """Do what is not counted: wait for an end by asking for it, which a busy machine does more often."""
        with concurrent.futures.ThreadPoolExecutor(1, _ONLOOKER) as onlooker:
            return onlooker.submit(do).result()

    def cost(self, db, do):
        """How much the databases do until it is done; `db` is one of them."""
        self._watched.forget()
        before = self._steps
        do()
        if self._is_sqlite:
            return self._steps - before
        self._seen = [one for one in self._watched.statements(db) if not one.thread.startswith(_ONLOOKER)]
        return sum(one.buffers for one in self._seen)

    def dearest(self, number=5):
        """The statements of PostgreSQL's on which the last cost went: pages, how often each was run, and its text."""
        pages, times = collections.Counter(), collections.Counter()
        for one in self._seen:
            pages[one.text] += one.buffers
            times[one.text] += 1
        return [f"{cost} pages, run {times[text]} times: {text}" for text, cost in pages.most_common(number)]
