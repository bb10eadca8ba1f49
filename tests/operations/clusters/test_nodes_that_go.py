# SPDX-License-Identifier: Apache-2.0
"""What ends, or is tried again, costs the same among thousands of a share as among few. Counted, not timed."""

import contextlib
import threading

import pytest
import sqlalchemy as sa

from abaca.db.tables.attachments import attachments
from abaca.db.tables.clusters import clusters
from abaca.db.tables.shares import access_rules
from tests.conftest import wait_until
from tests.databases import fast_directory, place
from tests.db.counted import Counted
from tests.operations import cases
from tests.operations import theatre as stage
from tests.operations.clusters import crowds

FEW, MANY = 22, 2_000
GONE = 20
# The end of the change counts the nodes of the cluster, once: that alone may grow (test_one_node_more.py).
TIMES, MORE = 1.5, {"sqlite": 4_000}


class Crowd:
    """A cluster of so many nodes with an access rule each, whose back end is asked for nothing while `cost` counts."""

    def __init__(self, kind, number, request, stack):
        directory = stack.enter_context(fast_directory())
        made = place(kind, directory, request, is_unused=True)
        stack.callback(made.close)
        self._counted = stack.enter_context(Counted(is_sqlite=made.is_sqlite).on())
        self.theatre = stage.Theatre(made, directory, None, stack)
        self._is_counted = threading.Event()
        self._is_counted.set()
        self.theatre.enter(arms=self._hold_rules)
        self.share_id, self.servers = cases.a_share_and_servers(self.theatre, FEW)
        self.id = cases.make_cluster(self.theatre, (self.share_id, self.servers))
        self.theatre.settle()
        if number > FEW:
            crowds.grow(self.theatre.db, self.id, number - FEW)

    def _hold_rules(self, point):
        if point == "access-rules-sync:take_rules:before":
            assert self._is_counted.wait(120)

    def remove(self):
        """What it takes that `GONE` nodes go, until the change of the cluster ends."""
        self._is_counted.clear()
        groups = [{"name": "nodes", "remove_servers": self.servers[:GONE]}]
        wanted = {"cluster": {"node_groups": groups}}
        url = f"//abaca/v1/clusters/{self.id}"
        try:
            with self.theatre.db.read() as tx:
                return self._counted.cost(self.theatre.db, lambda: self._change(tx, url, wanted))
        finally:
            self._is_counted.set()

    def _change(self, tx, url, wanted):
        self.theatre.ask("PATCH", url, wanted)
        status = sa.select(clusters.c.status).where(clusters.c.id == self.id)
        wait_until(lambda: tx.scalar(status) == "active", 60)

    def number_of(self, table):
        with self.theatre.db.read() as tx:
            found = sa.select(sa.func.count()).select_from(table).where(table.c.share_id == self.share_id)
            return tx.scalar(found)


# pages of PostgreSQL depend on what its planner knows of tables that have just grown
@pytest.mark.parametrize("kind", ["sqlite"])
def test_an_end_costs_little_more_among_thousands_and_all_their_rules_go(kind, request):
    cost = {}
    for number in (FEW, MANY):
        with contextlib.ExitStack() as stack:
            crowd = Crowd(kind, number, request, stack)
            cost[number] = crowd.remove()
            crowd.theatre.settle()
            assert crowd.number_of(attachments) == crowd.number_of(access_rules) == number - GONE
    assert cost[MANY] <= TIMES * cost[FEW] + MORE[kind], cost
