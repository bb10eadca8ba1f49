# SPDX-License-Identifier: Apache-2.0
"""Hostlists as schedulers write them."""

import pytest

from abaca import errors
from abaca.domain.clusters import hostlists


@pytest.mark.parametrize(
    ("said", "names"),
    [
        (["web"], ["web"]),
        (["node[1-3]"], ["node1", "node2", "node3"]),
        (["node[008-010,7]"], ["node008", "node009", "node010", "node7"]),
        (["r[1-2]n[1-2]-ib"], ["r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib"]),
        (["a[1-2]", "a2", "b"], ["a1", "a2", "b"]),
        ([], []),
    ],
)
def test_a_hostlist_stands_for_names_each_once_and_in_order(said, names):
    assert hostlists.expand(said, 100) == names


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("node[1-3", "brackets"),
        ("node1-3]", "brackets"),
        ("node[[1]]", "brackets"),
        ("node[]", "no number"),
        ("node[a-b]", "no number"),
        ("node[3-1]", "ends before"),
        ("node[1-9999999999999]", "no number"),
    ],
)
def test_what_is_no_hostlist_is_refused_with_the_reason(said, why):
    with pytest.raises(errors.Invalid, match=why):
        hostlists.expand([said], 100)


@pytest.mark.parametrize("said", ["n[1-101]", "n[000000000-999999999]", "a[1-50]b[1-50]c[1-50]d[1-50]", "n[1-9]" * 500])
def test_too_many_names_are_refused_before_they_are_made(said):
    with pytest.raises(errors.Invalid, match="Too many servers"):
        hostlists.expand([said], 100)


def test_the_same_names_again_and_again_are_as_many():
    with pytest.raises(errors.Invalid, match="Too many servers"):
        hostlists.expand(["n[1-50]"] * 3, 100)


@pytest.mark.parametrize(
    "said",
    ["n" * 20_000 + "[1-100]", "[1-100]" + "[111111111]" * 2_000, "n" * 253 + "[8-10]-"],
    ids=["text", "numbers", "one too many"],
)
def test_names_that_no_server_can_have_are_refused_before_they_are_made(said):
    with pytest.raises(errors.Invalid, match="at most 255"):
        hostlists.expand([said], 100)


def test_the_longest_names_are_taken():
    assert [len(name) for name in hostlists.expand(["n" * 253 + "[8-10]"], 100)] == [254, 254, 255]
