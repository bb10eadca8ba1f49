# SPDX-License-Identifier: Apache-2.0
"""Services are up while their worker says so, and zones appear once."""

import pytest

from abaca.db.administration import pools, services
from abaca.db.catalog import availability_zones
from abaca.db.engine.database import Database
from tests.db.administration.test_pools import BACKEND, POOL, Stats, at_once

COLUMNS = ("host", "disabled", "disabled_reason", "ensuring", "stopped")


class Clock:
    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def db(database, clock):
    opened = Database(database.url, clock=clock)
    with opened.write() as tx:
        services.register(tx, services.SHARE_BINARY, BACKEND, "nova")
        pools.report(tx, BACKEND, [Stats()])
    yield opened
    opened.close()


def state(db):
    """The state under which the service is listed; it is one at a time."""
    with db.read() as tx:
        down_before = services.down_before(tx, 60)["down_before"]
        (found,) = (
            name
            for name in services.STATES
            if services.SERVICES.rows(tx, ("id",), {"state": services.State(name, down_before)})
        )
        assert pools.show(tx, POOL, 60).is_up == (found == "up")
    return found


def test_a_service_is_up_until_its_heartbeats_stop(db, clock):
    assert state(db) == "up"
    clock.now += 59
    assert state(db) == "up"
    clock.now += 2
    assert state(db) == "down"
    with db.write() as tx:
        services.heartbeat(tx, [BACKEND])
    assert state(db) == "up"


def test_a_service_that_ends_as_told_is_stopped_and_comes_back_up(db):
    with db.write() as tx:
        services.stop(tx, [BACKEND])
    assert state(db) == "stopped"
    with db.write() as tx:
        services.register(tx, services.SHARE_BINARY, BACKEND, "nova")
    assert state(db) == "up"


def test_a_service_keeps_its_id_and_its_switch_when_it_starts_again(db):
    with db.write() as tx:
        assert services.switch(tx, services.SHARE_BINARY, BACKEND, disabled=True, reason="new disks")
        first = services.register(tx, services.SHARE_BINARY, BACKEND, "nova")
        again = services.register(tx, services.SHARE_BINARY, BACKEND, "east")
        assert first == again
        assert services.SERVICES.rows(tx, COLUMNS, {"zone": "east"}) == [(BACKEND, True, "new disks", False, False)]
        assert pools.show(tx, POOL, 60).is_disabled


def test_switching_a_service_that_does_not_exist_says_so(db):
    with db.write() as tx:
        assert not services.switch(tx, services.SHARE_BINARY, "nowhere@x", disabled=True)


def test_ensuring_is_shown_while_it_lasts(db):
    with db.write() as tx:
        services.set_ensuring(tx, BACKEND, ensuring=True)
        assert services.SERVICES.rows(tx, ("host",), {"ensuring": True}) == [(BACKEND,)]
        services.set_ensuring(tx, BACKEND, ensuring=False)
        assert services.SERVICES.rows(tx, ("host",), {"ensuring": True}) == []


def test_what_a_back_end_said_of_itself_is_remembered(db):
    with db.write() as tx:
        assert services.backend_info(tx, BACKEND) is None
        services.set_backend_info(tx, BACKEND, "d1")
        assert services.backend_info(tx, BACKEND) == "d1"


def test_two_services_of_one_new_zone_make_it_once(db):
    def ensure():
        with db.write() as tx:
            availability_zones.ensure(tx, "west")

    at_once(6, ensure)
    with db.read() as tx:
        assert availability_zones.names(tx) == {"west"}
