# SPDX-License-Identifier: Apache-2.0
"""A worker that is told of a changed configuration takes it, or says why not, and serves on either way."""

import os
import signal

import pytest

from lab import processes
from tests.conftest import wait_until
from tests.system.world import World

OLD, NEW = "192.0.2.1", "192.0.2.2"
TAKEN, REFUSED = "serves by its changed options", "is refused and all stays as it was"


@pytest.fixture(scope="module")
def world(run):
    sections = {"DEFAULT": {"enabled_share_backends": "first"}, "first": {"driver": "dummy", "export_ips": OLD}}
    return World(run, sections).start()


@pytest.fixture(autouse=True)
def put_back(world):
    yield
    world.abaca.configure("first", driver="dummy", export_ips=OLD, pool_count=1, delays="", exprot_ips=None)
    world.abaca.reload()
    wait_until(world.is_idle, every_s=0.2)


@pytest.fixture(scope="module")
def share(world):
    return world.share()


def change(world, says, **options):
    """Change the section, tell of it, and return what was logged once `says` was."""
    before = len(world.log())
    world.abaca.configure("first", **options)
    world.abaca.reload()
    wait_until(lambda: says in world.log()[before:])
    return world.log()[before:]


def hosts(world, share_id):
    return [path.partition(":")[0] for path in world.locations(share_id)]


def test_a_changed_address_is_taken_and_shown_without_a_restart(world, share):
    workers = processes.children(world.abaca.process.pid)
    change(world, TAKEN, export_ips=f"{NEW}, {OLD}")
    wait_until(lambda: hosts(world, share) == [NEW, OLD])
    assert hosts(world, world.share()) == [NEW, OLD]
    assert processes.children(world.abaca.process.pid) == workers


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"export_ips": "nowhere"}, "'nowhere' does not appear to be an IPv4 or IPv6 address"),
        ({"pool_count": 2}, "[first] pool_count cannot change while the back end serves"),
        ({"driver": "local"}, "[first] driver cannot change while the back end serves"),
        ({"exprot_ips": OLD}, "[first] has no option 'exprot_ips'"),
    ],
    ids=["wrong", "rigid", "another driver", "unknown"],
)
def test_what_cannot_be_taken_is_refused_with_its_reason_and_nothing_is_changed(world, share, options, why):
    said = change(world, REFUSED, **{"export_ips": NEW, **options})
    assert why in said
    assert hosts(world, world.share()) == [OLD]
    assert hosts(world, share) == [OLD]


def test_work_under_way_is_not_interrupted(world):
    change(world, TAKEN, delays="create:4")
    share_id = world.post_share()
    wait_until(lambda: [one for one in world.operations(share_id) if one["state"] == "running"])
    change(world, TAKEN, delays="", export_ips=NEW)
    assert world.settled(share_id)["status"] == "available"
    (made,) = world.operations(share_id)
    assert (made["kind"], made["state"], made["attempt"]) == ("share-create", "done", 0)


def test_a_change_while_its_shares_are_being_ensured_is_seen_by_all_of_them(world, share):
    change(world, TAKEN, delays="ensure:3", export_ips=f"{OLD}, {NEW}")
    wait_until(lambda: world.command("operation", "list", "--kind", "backend-ensure"))
    change(world, TAKEN, delays="", export_ips=NEW)
    wait_until(lambda: world.is_idle() and hosts(world, share) == [NEW], every_s=0.2)


def test_a_worker_of_its_own_is_told_in_the_same_way(world, share):
    world.abaca.stop()
    worker = world.abaca.spawn("worker")
    log = world.run.directory / f"{world.abaca.directory.name}-worker.log"
    try:
        wait_until(lambda: "back end first is served" in log.read_text())
        world.abaca.configure("first", export_ips=NEW)
        os.kill(worker.pid, signal.SIGHUP)
        wait_until(lambda: TAKEN in log.read_text())
    finally:
        worker.stop()
    world.abaca.start()
    wait_until(lambda: hosts(world, share) == [NEW])
