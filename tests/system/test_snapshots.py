# SPDX-License-Identifier: Apache-2.0
"""A snapshot of a share on the back end `local` is a read-only btrfs snapshot: what was there then stays."""

import errno

import pytest

from abaca.drivers.clients import btrfs
from lab import caller
from tests.conftest import wait_until
from tests.system.world import World


@pytest.fixture(scope="module")
def world(run):
    world = World(run).start()
    names = ("snapshot", "create_share_from_snapshot", "revert_to_snapshot", "mount_snapshot")
    able = {f"{name}_support": "True" for name in names}
    world.user.post(
        "/types", "share_type", name="copied", extra_specs={"driver_handles_share_servers": "False", **able}
    )
    return world


@pytest.fixture
def share(world):
    """A share of that type, with the directory that its clients see."""
    share_id = world.share(share_type="copied")
    (instance,) = world.user.get(f"/shares/{share_id}/instances")
    yield share_id, world.local.data(instance["id"])
    world.delete(share_id)
    world.compare()


def take(world, share_id):
    """The id of a snapshot that is available, and where it lies."""
    snapshot_id = world.user.post("/snapshots", "snapshot", share_id=share_id)["id"]
    shown = world.user.wait(f"/snapshots/{snapshot_id}", "available")
    return snapshot_id, world.local.directory / "pool" / shown["provider_location"]


def drop(world, snapshot_id):
    world.user.call("DELETE", f"/snapshots/{snapshot_id}")
    world.user.wait_gone(f"/snapshots/{snapshot_id}")


def test_a_snapshot_keeps_what_was_there_and_cannot_be_written(world, share):
    share_id, data = share
    (data / "file").write_text("then")
    snapshot_id, place = take(world, share_id)
    (data / "file").write_text("now")
    (data / "more").touch()
    assert btrfs.is_subvolume(place)
    assert [path.name for path in place.iterdir()] == ["file"]
    assert (place / "file").read_text() == "then"
    with pytest.raises(OSError, match="Read-only") as refused:
        (place / "file").write_text("never")
    assert refused.value.errno == errno.EROFS
    drop(world, snapshot_id)
    assert not place.exists()
    assert (data / "file").read_text() == "now"


def test_a_share_with_a_snapshot_grows_shrinks_and_stays(world, share):
    share_id, data = share
    (data / "file").write_text("then")
    snapshot_id, place = take(world, share_id)
    for action, size in (("extend", 3), ("shrink", 2)):
        world.user.call("POST", f"/shares/{share_id}/action", {action: {"new_size": size}})
        assert world.settled(share_id)["size"] == size
    with pytest.raises(caller.Refused, match=snapshot_id) as refused:
        world.post_delete(share_id)
    assert refused.value.status == 403
    assert (place / "file").read_text() == "then"
    assert world.user.get(f"/snapshots/{snapshot_id}")["size"] == 1
    drop(world, snapshot_id)


def test_a_share_from_a_snapshot_has_its_content_and_goes_its_own_way(world, share):
    share_id, data = share
    (data / "file").write_text("then")
    snapshot_id, _ = take(world, share_id)
    (data / "file").write_text("now")
    made = world.share(2, share_type="copied", snapshot_id=snapshot_id)
    (instance,) = world.user.get(f"/shares/{made}/instances")
    copy = world.local.data(instance["id"])
    assert (copy / "file").read_text() == "then"
    drop(world, snapshot_id)
    (copy / "file").write_text("later")
    assert (data / "file").read_text() == "now"
    assert (copy / "file").read_text() == "later"
    assert world.user.get(f"/shares/{made}")["size"] == 2
    world.delete(made)


def test_a_share_goes_back_to_its_newest_snapshot_and_stays_reachable(world, share):
    share_id, data = share
    world.allow(share_id, "10.9.9.9")
    (data / "file").write_text("then")
    snapshot_id, place = take(world, share_id)
    (data / "file").write_text("now")
    (data / "more").touch()
    world.user.call("POST", f"/shares/{share_id}/action", {"revert": {"snapshot_id": snapshot_id}})
    assert world.settled(share_id)["status"] == "available"
    assert [path.name for path in data.iterdir()] == ["file"]
    assert (data / "file").read_text() == "then"
    (data / "file").write_text("again")
    assert (place / "file").read_text() == "then"
    assert world.local.clients()[data.name] == {("10.9.9.9/32", "rw")}
    drop(world, snapshot_id)


def test_a_snapshot_is_exported_read_only_to_whom_its_rules_let_in(world, share):
    share_id, data = share
    (data / "file").write_text("then")
    snapshot_id, place = take(world, share_id)
    (found,) = world.user.get(f"/snapshots/{snapshot_id}/export-locations")
    assert found["path"].endswith(f":/snapshots/{place.name}")
    assert world.local.clients()[place.name] == set()
    words = {"access_type": "ip", "access_to": "10.9.9.9"}
    rule = world.user.post(f"/snapshots/{snapshot_id}/action", "allow_access", **words)
    listed = f"/snapshots/{snapshot_id}/access-list"
    wait_until(lambda: world.user.get(listed)[0]["state"] == "active")
    assert world.local.clients()[place.name] == {("10.9.9.9/32", "ro")}
    assert world.ensure()["unchanged"] == 1
    world.user.post(f"/snapshots/{snapshot_id}/action", "deny_access", access_id=rule["id"])
    wait_until(lambda: world.user.get(listed) == [])
    assert world.local.clients()[place.name] == set()
    drop(world, snapshot_id)
    assert place.name not in world.local.clients()
