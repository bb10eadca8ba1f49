# SPDX-License-Identifier: Apache-2.0
"""What the local back end needs is not there: it is not served, it is said why, and nothing else suffers."""

import itertools
import re
from pathlib import Path

import pytest

from lab import processes
from tests.conftest import ROOT, wait_until
from tests.system.world import World

PROGRAMS = ("mkfs.btrfs", "losetup", "blkid", "dbus-daemon", "ganesha.nfsd", "nsenter")
NUMBERS = itertools.count()
UNIT = ROOT / "packaging/worker-local/local.conf"


@pytest.fixture
def world(run):
    """Two back ends, not started: `local`, and `dummy` that needs nothing."""
    sections = {"DEFAULT": {"enabled_share_backends": "local, dummy"}, "dummy": {"driver": "dummy"}}
    made = World(run, sections, directory=run.path(f"abaca{next(NUMBERS)}"))
    yield made
    made.abaca.stop()


def path_without(run, missing):
    """A directory for PATH with all programs but one."""
    place = run.path(f"without-{missing}")
    for program in {*PROGRAMS} - {missing}:
        (place / program).unlink(missing_ok=True)
        (place / program).symlink_to(processes.find(program))
    return place


def serves_the_other(world):
    """The API answers, and the dummy back end makes and deletes shares."""
    world.ready()
    share_id = world.share()
    assert world.user.get(f"/shares/{share_id}")["host"].startswith("here@dummy#")
    world.delete(share_id)


def is_not_served(world, reason):
    wait_until(lambda: world.backends()["local"]["problem"], every_s=0.2)
    seen = world.backends()
    assert seen["local"]["state"] == "new"
    assert reason in seen["local"]["problem"]
    assert "\n" not in seen["local"]["problem"]
    assert (seen["dummy"]["state"], seen["dummy"]["problem"]) == ("up", None)
    (service,) = [row for row in world.user.get("/services") if row["host"] == "here@local"]
    assert service["state"] == "down"


@pytest.mark.parametrize(
    ("program", "mend"),
    [
        ("ganesha.nfsd", "ganesha.nfsd is not installed: apt-get install nfs-ganesha"),
        ("mkfs.btrfs", "mkfs.btrfs is not installed: apt-get install btrfs-progs"),
    ],
    ids=["ganesha", "btrfs"],
)
def test_a_missing_program_is_named_with_its_package_and_the_other_back_end_serves(world, run, program, mend):
    world.abaca.start(before=["env", f"PATH={path_without(run, program)}"])
    is_not_served(world, mend)
    serves_the_other(world)


def test_once_the_program_is_there_the_back_end_is_served_without_a_restart(world, run):
    place = path_without(run, "ganesha.nfsd")
    world.abaca.start(before=["env", f"PATH={place}"])
    is_not_served(world, "apt-get install nfs-ganesha")
    (place / "ganesha.nfsd").symlink_to(processes.find("ganesha.nfsd"))
    wait_until(lambda: world.backends()["local"]["state"] == "up", every_s=0.2)
    assert world.backends()["local"]["problem"] is None


def test_without_root_everything_else_works(world):
    """A user namespace, because the files that Python is made of may be root's own."""
    world.abaca.start(before=["unshare", "--user", "--map-user=65534", "--map-group=65534"])
    is_not_served(world, "it mounts file systems and must run as root: run the worker as root")
    serves_the_other(world)


def bounding_set(pid):
    """The capabilities that a process can have at all: one bit for each."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("CapBnd:"))
    return int(line.split()[1], 16)


def test_what_its_unit_leaves_the_worker_is_enough_for_a_share_s_life(run):
    """What clients need the others for when they change files, docs/operating/installing.md says."""
    given = re.search(r"^CapabilityBoundingSet=(.+)$", UNIT.read_text(), re.MULTILINE).group(1).split()
    world = World(run, directory=run.path(f"abaca{next(NUMBERS)}"))
    wanted = ",".join(["-all", *(name.removeprefix("CAP_").lower().join(["+", ""]) for name in given)])
    world.abaca.start(before=["setpriv", "--bounding-set", wanted])
    try:
        world.ready()
        share_id = world.share()
        rule_id = world.allow(share_id, "10.0.0.1")
        assert bounding_set(world.local.pid()).bit_count() == len(given)
        for action, size in (("extend", 2), ("shrink", 1)):
            world.user.call("POST", f"/shares/{share_id}/action", {action: {"new_size": size}})
            world.user.wait(f"/shares/{share_id}", "available")
        pid = world.local.kill_ganesha()
        wait_until(lambda: world.local.live() is not None and world.local.pid() != pid, every_s=0.1)
        world.compare()
        world.deny(share_id, rule_id)
        world.delete(share_id)
        world.compare()
    finally:
        world.abaca.stop()
