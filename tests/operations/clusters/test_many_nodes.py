# SPDX-License-Identifier: Apache-2.0
"""A worker dies in the middle of a hundred nodes: another one goes on, and every node has the share once."""

import contextlib

import pytest

from tests.databases import fast_directory, place
from tests.operations import cases
from tests.operations import theatre as stage
from tests.operations.nursery import Nursery

NODES = 100


@pytest.fixture
def theatre(tmp_path, request):
    with contextlib.ExitStack() as stack:
        nursery = Nursery(tmp_path, "tests.operations.theatre", "abaca.drivers.dummy")
        stack.callback(nursery.close)
        directory = stack.enter_context(fast_directory())
        made = place("sqlite", directory, request)
        stack.callback(made.close)
        yield stage.Theatre(made, directory, nursery, stack)


@pytest.mark.system
@pytest.mark.parametrize(
    "point",
    ["cluster-change:attach_missing:inside", "attachment-attach:mount_on_server:inside"],
    ids=["while they are begun", "while they mount"],
)
def test_a_worker_that_dies_amid_a_hundred_nodes_leaves_none_behind(theatre, point):
    theatre.ensure_actor()
    prepared = cases.a_share_and_servers(theatre, NODES)
    theatre.leave()
    cluster_id = cases.make_cluster(theatre, prepared)
    child = theatre.kill_at({point: "die"}, stage.HASTY)
    assert child.ends_within(), child.explain()
    theatre.enter("another", timing=stage.HASTY)
    ended = theatre.until_ended("cluster-change", cluster_id, 60)
    theatre.settle()
    assert ended.state == "done"
    shown = theatre.ask("GET", f"//abaca/v1/clusters/{cluster_id}")["cluster"]
    assert (shown["status"], shown["node_states"]) == ("active", {"ready": NODES})
    assert len(theatre.nodes.tables()) == NODES
    assert theatre.check(ended) == []
