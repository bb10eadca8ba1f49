# SPDX-License-Identifier: Apache-2.0
"""Abaca is killed again and again in the middle of real work: all of it ends, and nothing is left over or missing."""

import pytest

from tests.conftest import wait_until
from tests.system import running
from tests.system.world import World

ROUNDS, NUMBER = 3, 12


@pytest.fixture(scope="module")
def world(run):
    return World(run, {"quota": {"shares": -1, "gigabytes": -1}}).start()


def begin_work(world, number):
    """Shares are asked for, each with as many rules as the number of the round, and those of the round before go."""
    before = [row["id"] for row in world.user.get("/shares?limit=1000")]
    made = [world.post_share(name=f"{number}-{one}") for one in range(NUMBER)]
    for share_id in before[: NUMBER // 2]:
        world.user.call("POST", f"/shares/{share_id}/action", {"force_delete": None})
    return made


def grant(world, share_id, number):
    for host in range(1, number + 2):
        words = {"access_type": "ip", "access_to": f"192.0.2.{host}", "access_level": "rw"}
        world.user.post(f"/shares/{share_id}/action", "allow_access", **words)


def kill_worker(world):
    running.kill_worker(world.abaca.process.pid)


def kill_all(world):
    world.abaca.kill()
    world.abaca.start()


@pytest.mark.parametrize("kill", [kill_worker, kill_all])
def test_what_was_under_way_when_abaca_was_killed_ends_and_leaves_nothing(world, kill):
    for number in range(ROUNDS):
        made = begin_work(world, number)
        for share_id in made[:number]:
            world.settled(share_id)
            grant(world, share_id, number)
        kill(world)
    wait_until(world.is_idle, 120, 0.5)
    shares = world.user.get("/shares/detail?limit=1000")
    assert {(share["status"], share["access_rules_status"]) for share in shares} == {("available", "active")}
    world.compare()
    assert world.used() == (len(shares), len(shares))
    assert world.user.get("/messages") == []
    rules = {}
    for row in world.user.get("/share_instances"):
        found = world.user.get(f"/share-access-rules?share_id={row['share_id']}")
        rules[row["id"]] = {(f"{rule['access_to']}/32", rule["access_level"]) for rule in found}
    assert world.local.clients() == rules
    world.delete(*[share["id"] for share in shares])
    world.compare()
