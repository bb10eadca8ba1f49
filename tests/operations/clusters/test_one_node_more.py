# SPDX-License-Identifier: Apache-2.0
"""One node more for a cluster costs little more among thousands than among ten. Counted, not timed."""

import contextlib
import math

import pytest

from tests.databases import fast_directory, on_postgres, place
from tests.db.counted import Counted
from tests.operations import cases
from tests.operations import theatre as stage
from tests.operations.clusters import crowds

FEW, MANY = 10, 5_000
# What is shown of it counts its nodes by their states, and so does the end of each change: that alone may grow. SQLite
# takes some ninety steps a node for both.
TIMES, MORE = 2, {"sqlite": 10_500, "postgresql": 1_200}
NETWORK = "10.0.0.0/8"
# On a busy machine what is looked at from time to time is looked at more often, so that the least of some counts.
MOST_EXCHANGES = 6


class Crowd:
    """A cluster of so many nodes, and three servers that are none of them yet."""

    def __init__(self, kind, number, request, stack):
        directory = stack.enter_context(fast_directory())
        made = place(kind, directory, request, is_unused=True)
        stack.callback(made.close)
        self._counted = stack.enter_context(Counted(is_sqlite=made.is_sqlite).on())
        self.theatre = stage.Theatre(made, directory, None, stack)
        self.theatre.ensure_actor()
        share_id, servers = cases.a_share_and_servers(self.theatre, FEW + 3)
        self.others = servers[FEW:]
        self.id = cases.make_cluster(self.theatre, (share_id, servers[:FEW]), network=NETWORK)
        self.theatre.settle()
        if number > FEW:
            crowds.grow(self.theatre.db, self.id, number - FEW)

    def change(self, **how):
        groups = [{"name": "nodes", **how}]
        self.theatre.ask("PATCH", f"//abaca/v1/clusters/{self.id}", {"cluster": {"node_groups": groups}})
        self._counted.apart(self.theatre.settle)

    def cost(self, **how):
        return self._counted.cost(self.theatre.db, lambda: self.change(**how))

    def exchange(self, new):
        """What it costs that one of the first two others comes, and that the other one of them goes."""
        come, go = self.others[new], self.others[1 - new]
        return self.cost(add_servers=[come]), self.cost(remove_servers=[go])

    def least(self, most):
        """The least of some exchanges, of more while it costs more than `most`; and where the last one's cost went."""
        least = self.exchange(1)
        for number in range(2, MOST_EXCHANGES + 1):
            least = tuple(map(min, least, self.exchange(number % 2)))
            if all(cost <= wanted for cost, wanted in zip(least, most, strict=True)):
                break
        return least, self._counted.dearest()

    def shown(self):
        found = self.theatre.ask("GET", f"//abaca/v1/clusters/{self.id}")["cluster"]
        return found["status"], found["node_states"]


@pytest.mark.parametrize("kind", ["sqlite", on_postgres])
def test_a_node_that_comes_or_goes_costs_little_more_among_thousands(kind, request):
    def least(number, most):
        with contextlib.ExitStack() as stack:
            crowd = Crowd(kind, number, request, stack)
            crowd.change(add_servers=crowd.others[:1])  # what is only done once is done
            found = crowd.least(most)
            assert crowd.shown() == ("active", {"ready": number + 1})
        return found

    few, _ = least(FEW, (math.inf, math.inf))
    most = [TIMES * cost + MORE[kind] for cost in few]
    many, spent = least(MANY, most)
    assert all(cost <= wanted for cost, wanted in zip(many, most, strict=True)), (few, many, spent)


def test_a_node_that_loses_its_share_while_another_comes_is_not_passed_by(theatre):
    theatre.ensure_actor()
    share_id, (first, second, third) = cases.a_share_and_servers(theatre)
    cluster_id = cases.make_cluster(theatre, (share_id, [first, second]))
    theatre.settle()
    theatre.leave()
    wanted = {"node_groups": [{"name": "nodes", "add_servers": [third]}]}
    theatre.ask("PATCH", f"//abaca/v1/clusters/{cluster_id}", {"cluster": wanted})
    theatre.ask("DELETE", f"//abaca/v1/servers/{first}", who="admin")
    theatre.enter()
    theatre.settle()
    shown = theatre.ask("GET", f"//abaca/v1/clusters/{cluster_id}")["cluster"]
    assert (shown["status"], shown["node_states"]) == ("error", {"ready": 2, "waiting": 1})
    assert shown["next_try_at"] is not None
