# SPDX-License-Identifier: Apache-2.0
"""Workers beside each other, and after each other, in the middle of a hundred nodes: each has the share once."""

import contextlib

import msgspec
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


def assert_all_ready(theatre, cluster_id):
    """The cluster's change ends well, each node has its mount, and nothing is left over."""
    ended = theatre.until_ended("cluster-change", cluster_id, 60)
    theatre.settle()
    assert ended.state == "done"
    shown = theatre.ask("GET", f"//abaca/v1/clusters/{cluster_id}")["cluster"]
    assert (shown["status"], shown["node_states"]) == ("active", {"ready": NODES})
    assert len(theatre.nodes.tables()) == NODES
    assert theatre.check(ended) == []


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
    assert_all_ready(theatre, cluster_id)


@pytest.mark.system
def test_two_workers_share_a_hundred_nodes_and_one_takes_over_when_the_other_dies(theatre):
    two = theatre.nursery.start(
        "tests.operations.theatre:play_victim",
        config=str(theatre.config),
        name="two",
        arms={"attachment-attach:mount_on_server:inside": "die"},
        timing=msgspec.to_builtins(stage.HASTY),
    )
    prepared = cases.a_share_and_servers(theatre, NODES)  # that it has made: it is there
    cluster_id = cases.make_cluster(theatre, prepared)
    theatre.enter("one", timing=stage.HASTY)  # later, lest it does all by itself
    assert two.ends_within(), two.explain()  # in the middle of its part of the nodes
    assert_all_ready(theatre, cluster_id)
