# SPDX-License-Identifier: Apache-2.0
"""What a list costs is what its rows cost: the Python functions that are called for each are few, and counted here."""

import sys

import pytest

from tests.api.world import world

NEWEST = {"x-openstack-manila-api-version": "2.99"}
SHARES = 12
# the row itself, its makers, its two links, its time and its metadata
MOST_PER_ROW = 9
# one that is sent costs no more because others could have been
MOST_OF_FILTERS = 5


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with world(tmp_path_factory.mktemp("rows"), worker=False) as made:
        body = {"share": {"share_proto": "NFS", "size": 1, "metadata": {"k": "v"}}}
        for _ in range(SHARES):
            assert made.ask("member", "POST", "/shares", body, **NEWEST).status == 200
        yield made


def calls(here, path):
    """The functions of Abaca that are called for a request, by file."""
    found = []

    def look(frame, event, _argument):
        if event == "call" and "/abaca/" in frame.f_code.co_filename:
            found.append(frame.f_code.co_filename.rpartition("/")[2])

    here.ask("member", "GET", path, **NEWEST)
    sys.setprofile(look)
    try:
        answer = here.ask("member", "GET", path, **NEWEST)
    finally:
        sys.setprofile(None)
    assert answer.status == 200
    return found


def test_a_row_of_a_list_takes_few_calls(here):
    one, many = (len(calls(here, f"/shares/detail?limit={limit}")) for limit in (1, SHARES))
    assert (many - one) / (SHARES - 1) <= MOST_PER_ROW


def test_filters_that_nobody_sends_cost_nothing(here):
    found = calls(here, "/shares?limit=1")
    assert found.count("bodies.py") <= MOST_OF_FILTERS
