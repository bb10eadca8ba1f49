# SPDX-License-Identifier: Apache-2.0
"""A machine writes to its share without pause, and whatever dies meanwhile, it never sees an error."""

import signal

import pytest

from tests.conftest import wait_until
from tests.system.world import GRACE_S, World, Writer

# What starting the NFS server and a busy machine may add to its grace period.
MARGIN_S = 30
UNNOTICED_S = 5


@pytest.fixture(scope="module")
def world(run, network, machine):
    return World(run, network=network).start()


@pytest.fixture(scope="module")
def share(world, machine):
    """The directory on the machine where a share of its own is mounted."""
    share_id = world.share(name="written")
    world.allow(share_id, machine.ipv4)
    world.mount(machine, world.locations(share_id)[0], "/mnt/written")
    yield "/mnt/written"
    machine.run(["umount", "-f", "-l", "/mnt/written"])
    world.delete(share_id)
    world.compare()


@pytest.fixture
def writer(machine, share, request):
    return Writer(machine, f"{share}/{request.node.name}")


def test_killing_abaca_is_not_noticed(world, writer, figure):
    world.abaca.kill()
    writer.wait_for_more(20)
    world.abaca.start()
    world.share(name="made after the kill")
    gap_s = writer.finish()
    figure("longest gap in writing", gap_s, "s")
    assert gap_s < UNNOTICED_S


def test_stopping_abaca_is_not_noticed(world, writer, figure):
    world.abaca.stop()
    writer.wait_for_more(20)
    world.abaca.start()
    world.share(name="made after the stop")
    gap_s = writer.finish()
    figure("longest gap in writing", gap_s, "s")
    assert gap_s < UNNOTICED_S


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "restarted"])
def test_writing_goes_on_when_the_nfs_server_is(world, writer, number, figure):
    before = world.local.signal("ganesha", number)
    wait_until(lambda: world.local.live() is not None and world.local.pid() != before)
    gap_s = writer.finish()
    figure("longest gap in writing", gap_s, "s")
    assert gap_s < GRACE_S + MARGIN_S


def test_writing_goes_on_when_the_whole_host_was_away(world, writer, figure):
    """As after a power cut: every process has died, nothing is mounted, there is no loop device."""
    world.abaca.kill()
    world.local.kill_ganesha()
    world.local.signal("bus", signal.SIGKILL)
    world.local.take_down()
    world.abaca.start()
    gap_s = writer.finish()
    figure("longest gap in writing", gap_s, "s")
    assert gap_s < GRACE_S + MARGIN_S
