# SPDX-License-Identifier: Apache-2.0
"""Snapshots that can be mounted are at the addresses that their share server has, also when these become others."""

import contextlib

import pytest

from tests.databases import fast_directory, place
from tests.operations import theatre as stage
from tests.operations.cases import CHECK, FIELDS, a_share_network

ABLE = {f"{name}_support": "True" for name in ("snapshot", "mount_snapshot")}


@pytest.fixture
def theatre():
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(fast_directory())
        database = place("sqlite", directory, None)
        stack.callback(database.close)
        made = stage.Theatre(database, directory, None, stack, makes_servers=True)
        mounted = {"name": "mounted", "extra_specs": {stage.DHSS: "True", **ABLE}}
        made.ask("POST", "/types", {"share_type": mounted}, who="admin")
        made.enter()
        yield made


def a_mountable_snapshot(theatre, network_id):
    """A share on the network, and a snapshot of it."""
    body = {"share_proto": "NFS", "size": 1, "share_type": "mounted", "share_network_id": network_id}
    share_id = theatre.ask("POST", "/shares", {"share": body})["share"]["id"]
    theatre.settle()
    snapshot_id = theatre.ask("POST", "/snapshots", {"snapshot": {"share_id": share_id}})["snapshot"]["id"]
    theatre.settle()
    return share_id, snapshot_id


def hosts(theatre, *path):
    """The addresses in export locations."""
    name, _, kind = path
    found = theatre.ask("GET", "/".join(("", *path)))
    (rows,) = found.values()
    assert rows, f"{name} has {kind}"
    return {one["path"].rpartition(":/dummy")[0] for one in rows}


def test_a_snapshot_follows_its_share_server_to_a_subnet_more_and_to_one_less(theatre):
    network_id = a_share_network(theatre)
    share_id, snapshot_id = a_mountable_snapshot(theatre, network_id)
    of_share, of_snapshot = ("shares", share_id, "export_locations"), ("snapshots", snapshot_id, "export-locations")
    (first,) = hosts(theatre, *of_share)
    assert hosts(theatre, *of_snapshot) == {first}
    theatre.ask("POST", f"/share-networks/{network_id}/action", CHECK)
    theatre.settle()
    subnet = theatre.ask("POST", f"/share-networks/{network_id}/subnets", {"share-network-subnet": FIELDS})
    theatre.settle()
    both = hosts(theatre, *of_share)
    assert len(both) == 2
    assert hosts(theatre, *of_snapshot) == both
    (made,) = subnet.values()
    theatre.ask("DELETE", f"//abaca/v1/share-networks/{network_id}/subnets/{made['id']}")
    theatre.settle()
    assert hosts(theatre, *of_share) == {first}
    assert hosts(theatre, *of_snapshot) == {first}
