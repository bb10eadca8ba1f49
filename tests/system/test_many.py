# SPDX-License-Identifier: Apache-2.0
"""Two hundred shares at once, on a real back end; and what is left on the machine when they, and then all, are gone."""

import concurrent.futures
import time
from pathlib import Path

import pytest

from lab import processes, runs
from tests.conftest import wait_until
from tests.system.world import World

NUMBER = 200


@pytest.fixture(scope="module")
def world(run):
    return World(run, {"quota": {"shares": -1, "gigabytes": -1}}).start()


def states(world, path, key):
    """How many of what is listed at `path` are in which state."""
    found = [row[key] for row in world.user.get(f"{path}?limit=1000")]
    return {state: found.count(state) for state in found}


def is_ensuring(world):
    (service,) = world.user.get("/services")
    return service["ensuring"]


def ensure(world):
    """All of its shares have been looked at, and none was found to be otherwise than it should be."""
    world.user.call("POST", "/services/ensure-shares", {"host": "here@local"})
    wait_until(lambda: not is_ensuring(world), 120, 0.05)
    assert states(world, "/shares/detail", "status") == {"available": NUMBER}


def test_two_hundred_shares_come_are_granted_and_go_without_a_trace(world, figure):
    def allow(share_id):
        words = {"access_type": "ip", "access_to": "192.0.2.0/24", "access_level": "rw"}
        return world.user.post(f"/shares/{share_id}/action", "allow_access", **words)["id"]

    begun = time.monotonic()

    def took(what):
        nonlocal begun
        figure(f"to have {NUMBER} shares {what}, a share", 1000 * (time.monotonic() - begun) / NUMBER, "ms")
        begun = time.monotonic()

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        shares = list(pool.map(world.post_share, [1] * NUMBER))
        wait_until(lambda: states(world, "/shares/detail", "status") == {"available": NUMBER}, 120, 0.2)
        took("available")
        assert world.local.limits() == NUMBER
        world.compare()
        begun = time.monotonic()
        list(pool.map(allow, shares))
        wait_until(lambda: states(world, "/shares/detail", "access_rules_status") == {"active": NUMBER}, 120, 0.2)
        took("granted")
        files = list((world.local.directory / "ganesha" / "exports").iterdir())
        assert len(files) == NUMBER
        assert all("192.0.2.0/24" in file.read_text() for file in files)
        begun = time.monotonic()
        ensure(world)
        took("ensured")
        before = len(world.log())
        world.abaca.configure("local", export_ips="127.0.0.2, 127.0.0.1")
        begun = time.monotonic()
        world.abaca.reload()
        wait_until(lambda: "ensures its shares" in world.log()[before:])
        wait_until(
            lambda: not is_ensuring(world) and world.locations(shares[-1])[0].startswith("127.0.0.2:"), 120, 0.05
        )
        took("given another address")
        assert all(world.locations(share_id)[0].startswith("127.0.0.2:") for share_id in shares)
        world.compare()
        begun = time.monotonic()
        list(pool.map(world.post_delete, shares))
        wait_until(lambda: states(world, "/shares", "id") == {}, 120, 0.2)
        took("gone")
    world.compare()
    assert world.instances() == {}
    assert world.used() == (0, 0)
    assert world.user.get("/messages") == []
    assert world.is_idle()
    wait_until(lambda: world.local.limits() == 0, every_s=0.2)
    assert len(world.local.loops()) == 1
    (seen,) = world.backends().values()
    assert ([pool["provisioned_gib"] for pool in seen["pools"]], seen["operations"]) == ([0], {})


def traces(run):
    """Whatever on this machine bears the name of a run."""
    words = {run.prefix, run.mark, str(run.directory)}
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    lines += processes.command(["losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"]).splitlines()
    lines += processes.command(["ip", "-o", "link"]).splitlines()
    lines += [str(path) for place in ("/run/netns", "/run/abaca-lab", "/tmp", "/dev/shm") for path in entries(place)]
    lines += [str(path) for path in entries("/sys/fs/btrfs") if path.name.endswith(run.prefix)]
    for directory in entries("/proc"):
        if directory.name.isdigit() and processes.alive(int(directory.name)):
            lines.append(f"{directory} {read(directory / 'cmdline')} {read(directory / 'environ')}")
    return [line for line in lines if any(word in line for word in words)]


def entries(place):
    return list(Path(place).iterdir()) if Path(place).is_dir() else []


def read(file):
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def test_after_everything_nothing_is_left_on_the_machine(machine, network):
    """Killed in the middle of it, with a share mounted and work under way."""
    with runs.Run() as run:
        world = World(run, network=network).start()
        share_id = world.share()
        world.allow(share_id, machine.ipv4)
        world.mount(machine, world.locations(share_id)[0], "/mnt/left")
        for _ in range(10):
            world.post_share()
        world.abaca.kill()
        assert traces(run) != []
        machine.run(["umount", "-f", "-l", "/mnt/left"])
    assert run.leftovers() == []
    assert traces(run) == []
