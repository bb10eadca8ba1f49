# SPDX-License-Identifier: Apache-2.0
"""Two back ends in one worker: what befalls one is not felt at the other."""

import contextlib
import socket

import pytest

from tests.conftest import wait_until
from tests.system.world import World


@pytest.fixture(scope="module")
def world(run):
    """`local`, and `slow`, which takes a minute for each share and half a minute to say how full it is."""
    sections = {
        "DEFAULT": {"enabled_share_backends": "local, slow", "report_interval": 1},
        "slow": {"driver": "dummy", "delays": "create:60,delete:0.1", "pool_size_gib": 1000},
        "quota": {"shares": -1},
    }
    world = World(run, sections).start()
    for name in ("local", "slow"):
        words = {"driver_handles_share_servers": "False", "share_backend_name": name}
        world.user.post("/types", "share_type", name=name, extra_specs=words)
    wait_until(lambda: {row["state"] for row in world.backends().values()} == {"up"}, every_s=0.2)
    return world


def test_a_back_end_whose_every_thread_hangs_does_not_hold_up_the_other(world):
    waiting = [world.post_share(share_type="slow") for _ in range(12)]
    wait_until(lambda: world.backends()["slow"]["operations"].get("running") == 8, every_s=0.2)
    world.delete(*[world.share(share_type="local") for _ in range(5)])
    seen = world.backends()
    live = seen["slow"]["operations"]
    assert (live["running"], sum(live.values())) == (8, 12)
    assert seen["local"]["operations"] == {}
    assert {world.user.get(f"/shares/{share_id}")["status"] for share_id in waiting} == {"creating"}


def test_while_the_nfs_server_cannot_start_the_other_back_end_serves_and_then_all_goes_on(world):
    kept = world.share(share_type="local")
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        wait_until(lambda: takes_port(taken, world), every_s=0.001)
        asked = world.post_share(share_type="local")
        wait_until(lambda: world.backends()["local"]["problem"], every_s=0.5)
        assert "NFS-Ganesha did not start" in world.backends()["local"]["problem"]
        assert world.backends()["slow"]["problem"] is None
        assert world.user.get(f"/shares/{asked}")["status"] == "creating"
    assert world.settled(asked, 120)["status"] == "available"
    wait_until(lambda: world.backends()["local"]["problem"] is None, every_s=0.5)
    world.delete(kept, asked)


def takes_port(taken, world):
    """Whether the NFS server is dead and somebody else listens on its port: who is faster decides."""
    with contextlib.suppress(OSError):
        world.local.kill_ganesha()
    try:
        taken.bind(("::", world.nfs_port))
    except OSError:
        return False
    taken.listen()
    return True
