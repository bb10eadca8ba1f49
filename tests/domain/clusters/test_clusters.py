# SPDX-License-Identifier: Apache-2.0
"""What is wanted on the nodes of a cluster, and how these are judged."""

import pytest

from abaca import errors
from abaca.domain.clusters import clusters
from abaca.domain.clusters.clusters import RANKS, Selector, WantedShare, node_state

A, B = "share-a", "share-b"


def test_a_share_of_the_cluster_replaces_the_groups_entry_whole():
    of_cluster = [WantedShare(A, "/mnt/all", "ro")]
    of_group = [WantedShare(A, "/mnt/own", "rw"), WantedShare(B, "/mnt/b")]
    assert clusters.effective(of_cluster, of_group) == [of_cluster[0], of_group[1]]


def test_on_every_node_is_what_all_groups_have_alike():
    a, b, elsewhere = WantedShare(A, "/mnt/a"), WantedShare(B, "/mnt/b"), WantedShare(B, "/mnt/c")
    assert clusters.on_every_node([a], []) == [a]
    assert clusters.on_every_node([a], [[b], [b]]) == [a, b]
    assert clusters.on_every_node([a], [[b], [elsewhere], []]) == [a]
    assert clusters.on_every_node([], [[b], [elsewhere]]) == []


def test_a_share_without_a_path_is_at_mnt_and_its_id_and_may_be_written():
    assert clusters.wanted_share(A, None, None) == WantedShare(A, "/mnt/share-a", "rw")


@pytest.mark.parametrize(
    ("of_cluster", "of_group"),
    [
        ([WantedShare(A, "/mnt/x")], [WantedShare(B, "/mnt/x")]),
        ([WantedShare(A, "/mnt/x")], [WantedShare(B, "/mnt/x/deeper")]),
        ([WantedShare(A, "/mnt/share-b")], [clusters.wanted_share(B, None, None)]),
    ],
)
def test_two_shares_at_one_place_of_a_node_are_refused_by_whatever_route(of_cluster, of_group):
    with pytest.raises(errors.Invalid, match=r"share-a and share-b .* 'workers'"):
        clusters.check_together(of_cluster, {"workers": of_group})


def test_the_entry_that_is_replaced_is_in_nobodys_way():
    clusters.check_together([WantedShare(A, "/mnt/a")], {"g": [WantedShare(A, "/mnt/b"), WantedShare(B, "/mnt/b")]})


def test_paths_that_only_begin_alike_are_two_places():
    clusters.check_paths([WantedShare(A, "/mnt/x"), WantedShare(B, "/mnt/x-y"), WantedShare("c", "/mnt/xy")], "nodes")


def test_a_share_is_named_once_in_a_list():
    with pytest.raises(errors.Invalid, match="named twice for the cluster"):
        clusters.check_shares([WantedShare(A, "/mnt/x"), WantedShare(A, "/mnt/y")], "the cluster")


@pytest.mark.parametrize(
    ("selector", "is_taken"),
    [
        (Selector({"role": "worker"}), True),
        (Selector({"role": "worker", "rack": "2"}), False),
        (Selector(name="node*"), True),
        (Selector({"role": "worker"}, "web*"), False),
        (Selector(server_group="g"), True),
        (Selector(server_group="other"), False),
        (Selector({"role": "worker"}, "node*", "g"), True),
        (Selector(), False),
    ],
)
def test_a_selector_takes_what_has_all_that_it_says(selector, is_taken):
    assert selector.takes("node-1", {"role": "worker"}, ("g", "h")) is is_taken


@pytest.mark.parametrize(
    ("wanted", "had", "worst", "is_refused", "is_leaving", "state"),
    [
        (0, 0, None, False, False, "ready"),
        (2, 2, "active", False, False, "ready"),
        (2, 1, "active", False, False, "waiting"),
        (2, 2, "attaching", False, False, "mounting"),
        (2, 2, "inactive", False, False, "off"),
        (2, 2, "error", False, False, "error"),
        (2, 1, "active", True, False, "error"),
        (2, 1, "detaching", False, True, "leaving"),
    ],
)
def test_a_node_is_as_the_worst_of_its_shares(wanted, had, worst, is_refused, is_leaving, state):
    rank = None if worst is None else RANKS[worst]
    assert node_state(wanted, had, rank, is_refused=is_refused, is_leaving=is_leaving) == state
