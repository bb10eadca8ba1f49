# SPDX-License-Identifier: Apache-2.0
"""Shares that go and shares that never came: no snapshot holds the first back, no data of the second is lost."""

import contextlib

import pytest

from abaca import errors
from abaca.db.shares import snapshot_export_locations, snapshots
from abaca.db.tables.shares import snapshot_export_locations as locations
from abaca.domain.shares import snapshots as rules
from abaca.drivers import contract
from abaca.operations.administration import snapshot_mend
from abaca.operations.shares import snapshot_instances
from tests.api.world import NEWEST
from tests.databases import database, postgres  # noqa: F401 (fixtures)
from tests.operations import cases, takeover
from tests.operations import theatre as stage
from tests.operations.snapshot_cases import a_share_for_snapshots, a_snapshot, take_snapshot


def refusal(theatre, share_id, **more):
    """The code of the answer to who wants a snapshot of it."""
    body = {"snapshot": {"share_id": share_id, **more}}
    return theatre.world.ask("member", "POST", "/snapshots", body, **{"x-openstack-manila-api-version": NEWEST}).status


def test_a_share_that_is_being_released_has_no_new_snapshots_not_even_by_force(theatre):
    """The snapshot would keep the share's row for ever, and the release would never end."""
    theatre.enter()
    share_id = a_share_for_snapshots(theatre)
    theatre.leave()
    takeover.unmanage(theatre, share_id)
    assert refusal(theatre, share_id, force=True) == 400
    theatre.enter()
    assert theatre.until_ended("share-unmanage", share_id).state == "done"


@pytest.mark.parametrize(("kind", "ask"), [("share-delete", cases.delete), ("share-unmanage", takeover.unmanage)])
def test_one_that_an_operator_has_called_available_stays_with_the_snapshots_taken_since(theatre, kind, ask):
    """What was to go has become the only source of a snapshot, and would never have ended."""
    theatre.enter()
    share_id = a_share_for_snapshots(theatre)
    theatre.leave()
    ask(theatre, share_id)
    reset = {"reset_status": {"status": "available"}}
    theatre.ask("POST", f"/shares/{share_id}/action", reset, who="admin")
    snapshot_id = take_snapshot(theatre, share_id)
    theatre.enter()
    gone = theatre.until_ended(kind, share_id)
    assert gone.state == "failed"
    assert "still has snapshots" in gone.error_text
    assert theatre.until_ended("snapshot-create", snapshot_id).state == "done"
    assert theatre.status(share_id) == "available"


@pytest.mark.parametrize("status", ["manage_starting", "manage_error", "unmanage_starting", "deleting"])
def test_what_is_not_here_is_not_copied(status):
    with pytest.raises(errors.Invalid):
        rules.check_source("s", status, "h@b#p", force=True)


def test_data_that_could_not_be_taken_over_outlives_the_deletion_of_the_share_by_force(database, tmp_path):  # noqa: F811
    """Neither closing it to all nor giving it up works; then the administrator deletes what is in an error."""
    orders = "dummy\nfailures = set_access:Refused:1,unmanage:Refused:3"
    with contextlib.ExitStack() as stack:
        theatre = stage.Theatre(database, tmp_path, None, stack, orders)
        theatre.enter()
        share = {"export_path": "10.0.0.10:/dummy/found", "service_host": takeover.POOL, "protocol": "NFS"}
        body = {"share": {**share, "driver_options": {"size": 7}}}
        share_id = theatre.ask("POST", "/shares/manage", body, who="admin")["share"]["id"]
        assert theatre.until_ended("share-manage", share_id).state == "failed"
        assert theatre.status(share_id) == "manage_error"
        assert len(theatre.driver.contents()["instance"]) == 1
        theatre.ask("POST", f"/shares/{share_id}/action", {"force_delete": None}, who="admin")
        assert theatre.until_ended("share-delete", share_id).state == "done"
        contents = theatre.driver.contents()
        assert (contents.get("instance", {}), list(contents["unmanaged"])) == ({}, ["found"])
        with theatre.db.read() as tx:
            assert stage.counted_wrong(tx) == []


def instance_of(theatre, snapshot_id):
    with theatre.db.read() as tx:
        return snapshots.find(tx, snapshot_id).instance_id


def test_a_snapshot_that_was_taken_is_never_taken_for_one_that_was_not(theatre):
    """Its status is what an operator has made of it."""
    theatre.enter()
    _, snapshot_id = a_snapshot(theatre)
    instance_id = instance_of(theatre, snapshot_id)
    reset = {"reset_status": {"status": "error"}}
    theatre.ask("POST", f"/snapshots/{snapshot_id}/action", reset, who="admin")
    with theatre.db.write() as tx:
        args = snapshot_instances.found(tx, instance_id)
        snapshot_mend.start(tx, snapshot_mend.Args(args.snapshot, snapshot_id), cases.HOST, None)
    theatre.settle()
    assert instance_id in theatre.driver.contents()["snapshot"]


def test_where_snapshots_are_is_written_of_those_that_are_there(theatre):
    """One may go while its back end is asked where it is."""
    theatre.enter()
    _, snapshot_id = a_snapshot(theatre)
    instance_id = instance_of(theatre, snapshot_id)
    here, there = contract.Export(path="here:/x", preferred=True), contract.Export(path="there:/x")

    def written(*exports):
        with theatre.db.write() as tx:
            snapshot_export_locations.replace_many(tx, {instance_id: exports, "gone": exports})
            return {row.path: row.id for row in tx.rows(locations.select())}

    before = written(here)
    assert list(before) == ["here:/x"]
    after = written(here, there)
    assert (after.keys(), after["here:/x"]) == ({"here:/x", "there:/x"}, before["here:/x"])
    assert written() == {}
