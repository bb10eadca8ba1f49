# SPDX-License-Identifier: Apache-2.0
"""What says that it is busy, with nothing going to end that, is healed; what an operation explains is left alone."""

import contextlib

import pytest
import sqlalchemy as sa

from abaca.db.journal import operations as rows
from abaca.db.networks import share_servers
from abaca.db.shares import share_instances
from abaca.db.tables import networks
from abaca.db.tables.administration import services
from abaca.db.tables.shares import access_rules, instance_access_rules, snapshot_instances
from abaca.db.tables.shares import share_instances as t
from abaca.domain.networks.share_servers import CAPABILITIES
from abaca.domain.shares.shares import SHARE_INSTANCE
from abaca.domain.shares.snapshots import SNAPSHOT_INSTANCE
from abaca.reconcile import stuck_states
from abaca.reconcile.stuck_states import StuckStates
from tests import planting
from tests.api.world import PROJECT
from tests.databases import database, postgres  # noqa: F401 (fixtures)
from tests.operations import cases
from tests.operations import theatre as stage
from tests.operations.theatre import Theatre

HOST = "testhost@alpha"


@pytest.fixture
def theatre(database, tmp_path):  # noqa: F811
    with contextlib.ExitStack() as stack:
        yield Theatre(database, tmp_path, None, stack)


@pytest.fixture
def share_id(theatre):
    theatre.enter()
    made = cases.a_share(theatre)
    theatre.settle()
    theatre.leave()
    return made


def heal(theatre, *hosts):
    return StuckStates(theatre.db, hosts or (HOST,)).heal()


def set_by_hand(theatre, table, **values):
    planting.put(theatre.db, table, **values)


def states(theatre):
    with theatre.db.read() as tx:
        return [row.status for row in tx.rows(sa.select(t.c.status))]


@pytest.mark.parametrize("status", sorted(SHARE_INSTANCE.busy))
def test_a_busy_share_that_nothing_will_end_fails_with_a_message(theatre, share_id, status):
    set_by_hand(theatre, t, status=status)
    assert heal(theatre) == 1
    assert theatre.status(share_id) == SHARE_INSTANCE.after(status, "failed")
    (message,) = theatre.ask("GET", "/messages")["messages"]
    assert message["resource_id"] == share_id
    assert f"The share was {status}" in message["user_message"]
    assert heal(theatre) == 0


def test_what_is_not_busy_is_left_alone(theatre, share_id):
    for status in sorted(SHARE_INSTANCE.states - SHARE_INSTANCE.busy):
        set_by_hand(theatre, t, status=status)
        assert heal(theatre) == 0
        assert states(theatre) == [status]


def test_other_back_ends_are_left_to_their_own_workers(theatre, share_id):
    set_by_hand(theatre, t, status="extending")
    assert heal(theatre, "testhost@alph", "testhost@beta", "testhost") == 0
    assert states(theatre) == ["extending"]


@pytest.mark.parametrize("state", rows.LIVE)
def test_what_an_operation_will_end_is_left_alone(theatre, share_id, state):
    cases.allow(theatre, share_id, "10.0.0.1")
    cases.extend(theatre, share_id)
    set_by_hand(theatre, rows.t, state=state)
    assert heal(theatre) == 0
    assert states(theatre) == ["extending"]


@pytest.mark.parametrize("state", rows.ACTIVE)
def test_a_share_that_is_being_ensured_is_left_alone(theatre, share_id, state):
    theatre.ask("POST", "/services/ensure-shares", {"host": HOST}, who="admin")
    set_by_hand(theatre, rows.t, state=state)
    with theatre.db.read() as tx:
        set_by_hand(theatre, t, status="ensuring")
        assert share_instances.busy_without_operation(tx, HOST) == []
    assert heal(theatre) == 0
    assert states(theatre) == ["ensuring"]


def test_an_ensuring_that_comes_in_between_is_left_alone(theatre, share_id):
    set_by_hand(theatre, t, status="ensuring")
    with theatre.db.read() as tx:
        (found,) = share_instances.busy_without_operation(tx, HOST)
    theatre.ask("POST", "/services/ensure-shares", {"host": HOST}, who="admin")
    assert not StuckStates(theatre.db, [HOST])._mended(found, stuck_states._fail)
    assert states(theatre) == ["ensuring"]


def test_a_back_end_that_only_seems_to_ensure_its_shares_no_longer_does(theatre, share_id):
    set_by_hand(theatre, services, ensuring=True)
    assert heal(theatre, "testhost@beta") == 0
    assert heal(theatre) == 1
    assert heal(theatre) == 0
    theatre.ask("POST", "/services/ensure-shares", {"host": HOST}, who="admin")
    assert heal(theatre) == 0
    assert theatre.ask("GET", "/services", who="admin")["services"][0]["ensuring"] is True


def test_an_operation_that_comes_in_between_is_left_alone(theatre, share_id):
    set_by_hand(theatre, t, status="extending")
    with theatre.db.read() as tx:
        (found,) = share_instances.busy_without_operation(tx, HOST)
    set_by_hand(theatre, t, status="available")
    cases.extend(theatre, share_id)
    assert not StuckStates(theatre.db, [HOST])._mended(found, stuck_states._fail)
    assert states(theatre) == ["extending"]
    theatre.enter()
    theatre.settle()
    assert states(theatre) == ["available"]


@pytest.mark.parametrize("state", ["queued_to_apply", "applying", "queued_to_update", "updating"])
def test_rules_on_their_way_that_nobody_carries_come_into_force(theatre, share_id, state):
    cases.allow(theatre, share_id, "10.0.0.1")
    with theatre.db.write() as tx:
        tx.execute(sa.delete(rows.t))
    set_by_hand(theatre, instance_access_rules, state=state)
    assert heal(theatre) == 1
    assert heal(theatre) == 0
    theatre.enter()
    theatre.settle()
    with theatre.db.read() as tx:
        assert stage.states_of_rules(tx) == [("10.0.0.1", "active")]
        assert theatre.differences(tx) == []
    assert theatre.ask("GET", f"/shares/{share_id}")["share"]["access_rules_status"] == "active"


@pytest.mark.parametrize("state", ["queued_to_deny", "denying"])
def test_rules_on_their_way_out_that_nobody_carries_go(theatre, share_id, state):
    theatre.enter()
    cases.allow(theatre, share_id, "10.0.0.1")
    theatre.settle()
    theatre.leave()
    set_by_hand(theatre, instance_access_rules, state=state)
    set_by_hand(theatre, access_rules, is_denied=True)
    assert heal(theatre) == 1
    theatre.enter()
    theatre.settle()
    with theatre.db.read() as tx:
        assert tx.rows(sa.select(access_rules)) == []
        assert theatre.differences(tx) == []


def test_rules_that_only_seem_to_be_on_their_way_are_looked_at_again(theatre, share_id):
    set_by_hand(theatre, t, access_rules_status="syncing")
    assert heal(theatre) == 1
    theatre.enter()
    theatre.settle()
    assert theatre.ask("GET", f"/shares/{share_id}")["share"]["access_rules_status"] == "active"


def test_any_number_is_healed(theatre, share_id):
    with planting.by_hand(theatre.db) as tx:
        (row,) = tx.rows(sa.select(t))
        more = [{**row._mapping, "id": f"more-{number}", "status": "creating"} for number in range(520)]
        tx.execute(sa.insert(t), more)
    assert heal(theatre) == 520
    assert states(theatre).count("error") == 520


@pytest.mark.parametrize("status", sorted(SNAPSHOT_INSTANCE.busy))
def test_a_busy_snapshot_that_nothing_will_end_fails_with_a_message(theatre, status):
    theatre.enter()
    _, snapshot_id = cases.a_snapshot(theatre)
    theatre.settle()
    theatre.leave()
    set_by_hand(theatre, snapshot_instances, status=status)
    assert heal(theatre, "testhost@alph") == 0
    assert heal(theatre) == 1
    shown = theatre.ask("GET", f"/snapshots/{snapshot_id}")["snapshot"]
    assert shown["status"] == SNAPSHOT_INSTANCE.after(status, "failed")
    (message,) = theatre.ask("GET", "/messages")["messages"]
    assert (message["resource_id"], message["resource_type"]) == (snapshot_id, "SHARE_SNAPSHOT")
    assert heal(theatre) == 0


def test_a_snapshot_that_an_operation_will_end_is_left_alone(theatre):
    theatre.enter()
    share_id = cases.a_share_for_snapshots(theatre)
    theatre.settle()
    theatre.leave()
    snapshot_id = cases.take_snapshot(theatre, share_id)
    assert heal(theatre) == 0
    assert theatre.ask("GET", f"/snapshots/{snapshot_id}")["snapshot"]["status"] == "creating"


def test_a_share_network_in_change_without_a_server_that_is_becomes_active(theatre):
    shown = theatre.ask("POST", "/share-networks", {"share_network": {}})["share_network"]
    network, subnet = shown["id"], shown["share_network_subnets"][0]["id"]
    with theatre.db.write() as tx:
        row = {"project_id": PROJECT, "share_network_id": network, "host": HOST, **dict.fromkeys(CAPABILITIES, False)}
        share_servers.add(tx, row, [subnet])
    set_by_hand(theatre, networks.share_networks, status="network_change")
    set_by_hand(theatre, networks.share_servers, status="network_change")
    assert heal(theatre, "testhost@other") == 0
    assert heal(theatre) == 1
    assert own_status(theatre, network) == "active"
    set_by_hand(theatre, networks.share_networks, status="network_change")
    assert heal(theatre, "testhost@other") == 1
    assert own_status(theatre, network) == "active"


def own_status(theatre, network):
    return theatre.ask("GET", f"/share-networks/{network}")["share_network"]["status"]
