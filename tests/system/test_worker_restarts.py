# SPDX-License-Identifier: Apache-2.0
"""A worker that is restarted, as for an upgrade: who asks for a share meanwhile gets it, a moment later."""

import pytest

from tests.conftest import wait_until
from tests.system.world import World


@pytest.fixture
def world(run):
    sections = {"DEFAULT": {"enabled_share_backends": "first", "service_down_time": 120}, "first": {"driver": "dummy"}}
    world = World(run, sections)
    world.abaca.spawn("api")
    wait_until(world.abaca.is_healthy)
    return world


def state(world):
    (service,) = world.user.get("/services")
    return service["state"]


def test_a_share_that_is_asked_for_while_its_worker_restarts_comes(world):
    worker = world.abaca.spawn("worker")
    world.ready()
    worker.stop()
    assert state(world) == "stopped"
    share_id = world.post_share()
    assert world.user.get(f"/shares/{share_id}")["status"] == "creating"
    world.abaca.spawn("worker")
    assert world.settled(share_id)["status"] == "available"
