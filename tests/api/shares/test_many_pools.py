# SPDX-License-Identifier: Apache-2.0
"""A new share costs as much among a thousand pools as with one: counted are rows and the Python functions called."""

import sys

import msgspec
import pytest

from abaca.db.administration import pools, services
from tests.api.world import world

NEWEST = {"x-openstack-manila-api-version": "2.99"}
TYPE = {"share_type": {"name": "default", "extra_specs": {"driver_handles_share_servers": "false"}}}
CAPABILITIES = {"driver_handles_share_servers": False, "storage_protocol": "NFS"}
MANY = 1000
TIMES = 1.5


class Stats(msgspec.Struct):
    """A pool as a back end reports it."""

    name: str
    free_gib: float
    total_gib: float = 1e6
    capabilities: dict = msgspec.field(default_factory=CAPABILITIES.copy)


def calls(here):
    """The functions of Abaca that are called for a new share, and which rows of pools are made."""
    found = []

    def look(frame, event, _argument):
        if event == "call" and "/abaca/" in frame.f_code.co_filename:
            found.append(frame.f_code)

    sys.setprofile(look)
    try:
        answer = here.ask("member", "POST", "/shares", {"share": {"share_proto": "NFS", "size": 1}}, **NEWEST)
    finally:
        sys.setprofile(None)
    assert answer.status == 200
    return len(found), sum(code is pools._pool.__code__ for code in found)


@pytest.fixture(scope="module")
def costs(tmp_path_factory):
    """By the number of pools, what a share costs when some were made before."""
    found = {}
    for count in (1, MANY):
        with world(tmp_path_factory.mktemp("pools"), worker=False) as here:
            assert here.ask("admin", "POST", "/types", TYPE, **NEWEST).status == 200
            with here.db.write() as tx:
                services.register(tx, services.SHARE_BINARY, "a@b", "nova")
                pools.report(tx, "a@b", [Stats(f"p{number:04}", 1e5 + number * 37 % MANY) for number in range(count)])
            found[count] = [calls(here) for _ in range(4)][1:]
            assert here.number("SELECT count(*) FROM shares JOIN share_instances ON share_id = shares.id "
                               "WHERE host IS NOT NULL") == 4  # fmt: skip
    return found


def test_a_share_costs_as_much_among_a_thousand_pools(costs):
    few, many = (max(called for called, _ in costs[count]) for count in (1, MANY))
    assert many <= TIMES * few
    assert all(1 <= rows <= 4 for _, rows in costs[MANY])
