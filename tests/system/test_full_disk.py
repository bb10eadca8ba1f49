# SPDX-License-Identifier: Apache-2.0
"""The disk below Abaca is full: the database, the exports and the pool's file have no room to grow."""

import contextlib

import pytest

from lab import caller, processes
from tests.conftest import wait_until
from tests.system.world import World, fill

PLACE = "/mnt/share"


@pytest.fixture
def disk(run, request):
    """A disk of 400 MiB."""
    place = run.path(f"disk{len(request.node.name)}")
    processes.command(["mount", "-t", "tmpfs", "-o", "size=400M", "tmpfs", str(place)])
    return place


def ask(world, number):
    """The ids of the shares that were accepted of so many; the others were refused as what may come later."""
    accepted, statuses = [], set()
    for _ in range(number):
        try:
            accepted.append(world.post_share())
        except caller.Refused as refused:
            statuses.add(refused.status)
    assert statuses <= {503}
    return accepted


def test_what_was_asked_while_the_disk_was_full_ends_well_or_with_a_message(run, disk):
    world = World(run, directory=disk).start()
    before = world.share()
    fill(disk / "filler")
    asked = ask(world, 5)
    api = processes.children(world.abaca.process.pid)
    (disk / "filler").unlink()
    for share_id in asked:
        assert world.settled(share_id, 120)["status"] == "available" or world.messages(share_id)
    wait_until(world.is_idle, 60, 0.5)
    world.delete(before, world.share(), *asked)
    world.compare()
    assert world.used() == (0, 0)
    assert processes.children(world.abaca.process.pid) == api
    world.abaca.stop()


def test_a_pool_that_could_not_be_written_serves_again_once_there_is_room(run, disk, network, machine):
    sections = {"DEFAULT": {"report_interval": 1}, "local": {"pool_image": disk / "pool.img"}}
    world = World(run, sections, network=network).start()
    share_id = world.share()
    world.allow(share_id, machine.ipv4)
    world.mount(machine, world.locations(share_id)[0], PLACE)
    machine.check(["sh", "-c", f"echo kept > {PLACE}/kept && sync {PLACE}/kept"])
    fill(disk / "filler")
    write = ["dd", "if=/dev/zero", f"of={PLACE}/data", "bs=1M", "count=50", "conv=fsync"]
    assert machine.run(write, 60).code != 0

    def is_told():
        with contextlib.suppress(processes.LabError):
            world.local.commit()  # or the kernel would do so half a minute later
        return "make room on it" in (world.backends()["local"]["problem"] or "")

    wait_until(is_told, 60, 0.5)
    asked = world.post_share()
    (disk / "filler").unlink()
    wait_until(lambda: not world.backends()["local"]["problem"], 60, 0.5)
    machine.check(write, 60)
    assert machine.check(["cat", f"{PLACE}/kept"]) == "kept\n"
    machine.check(["umount", PLACE])
    assert world.settled(asked, 120)["status"] == "available" or world.messages(asked)
    world.delete(share_id, asked, world.share())
    world.compare()
    world.abaca.stop()
