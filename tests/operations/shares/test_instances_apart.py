# SPDX-License-Identifier: Apache-2.0
"""A share with two instances: what is done to one of them waits for nothing that is done to the other alone."""

import contextlib
import threading

import pytest

from abaca.db.administration import pools
from abaca.db.journal import keys
from abaca.db.journal import operations as rows
from abaca.db.shares import share_instances
from abaca.operations.shares import access_rules_sync
from abaca.reconcile.stuck_states import StuckStates
from tests import planting
from tests.conftest import wait_until
from tests.databases import database, postgres  # noqa: F401 (fixtures)
from tests.events import told as events_told
from tests.operations import cases
from tests.operations import theatre as stage
from tests.operations.shares.pair import AT, Pair

ONE, TWO = "10.0.0.1", "10.0.0.2"
BACK_ENDS = tuple(host.partition("#")[0] for host in AT.values())
SYNC = access_rules_sync.OPERATION.kind


@pytest.fixture
def pairs(database, tmp_path):  # noqa: F811
    """`pairs(orders)`: two back ends, of which the second does as it is ordered to."""
    with contextlib.ExitStack() as stack:
        yield lambda orders="": Pair(database, tmp_path, stack, orders)


@pytest.fixture
def pair(pairs):
    return pairs()


@pytest.fixture
def share_id(pair):
    """A share whose instances are no replicas of each other."""
    made = pair.share(states=(None, None))
    with pair.db.write() as tx:
        pools.recount(tx)
    return made


class Held:
    """A moment at which each worker of a test stays until `open`; says how many are there."""

    def __init__(self):
        self._there = 0
        self._changed = threading.Condition()
        self._is_open = False

    def __call__(self):
        with self._changed:
            self._there += 1
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._is_open, 20)

    def until(self, number):
        with self._changed:
            assert self._changed.wait_for(lambda: self._there >= number, 20), self._there

    def open(self):
        with self._changed:
            self._is_open = True
            self._changed.notify_all()


def hold_syncs(pair):
    """Both back ends are served; whatever sync has begun stays inside its step."""
    held = Held()
    pair.enter().faults = lambda point: held() if point == f"{SYNC}:apply_rules:before" else None
    return held


def live(pair, kind):
    with pair.db.read() as tx:
        return {row.queue: row for row in rows.find(tx, kind=kind, live=True)}


def checked(pair, share_id):
    with pair.db.read() as tx:
        return [*stage.stuck(tx), *stage.counted_wrong(tx), *left(pair, share_id)]


def left(pair, share_id):
    """What the back ends have of a share."""
    for driver in (pair.driver, pair.beta):
        held = driver.contents().get("instance", {})
        yield from (f"leaked: {id}" for id, one in held.items() if one["share_id"] == share_id)


def force_delete_instance(pair, instance_id):
    pair.ask("POST", f"/share_instances/{instance_id}/action", {"force_delete": None}, who="admin")


def told(pair, share_id, name):
    with pair.db.read() as tx:
        return [
            row.event_type
            for row in events_told.newest_first(tx, resource_id=share_id)
            if row.event_type.startswith(name)
        ]


# ---------------------------------------------------------------- syncs


def test_the_syncs_of_two_instances_run_at_the_same_time(pair, share_id):
    held = hold_syncs(pair)
    cases.allow(pair, share_id, ONE)
    held.until(2)
    assert {row.state for row in live(pair, SYNC).values()} == {"running"}
    held.open()
    pair.settle()
    assert pair.let_in(share_id) == [{ONE: "rw"}] * 2


def test_a_sync_that_nobody_carries_out_does_not_hold_up_the_other_instance(pair, share_id):
    """For the second back end there is no worker, and its first operation is the older one."""
    pair.enter("alpha")
    for number, to in enumerate((ONE, TWO), 1):
        cases.allow(pair, share_id, to)
        wait_until(lambda number=number: len(pair.let_in(share_id)[0]) == number)
    wait_until(lambda: set(live(pair, SYNC)) == {BACK_ENDS[1]})
    assert pair.let_in(share_id)[1] == {}


def test_a_sync_that_is_tried_again_does_not_hold_up_the_other_instance(pairs):
    pair = pairs("failures = set_access:Unreachable")
    share_id = pair.share(states=(None, None))
    pair.enter()
    for number, to in enumerate((ONE, TWO), 1):
        cases.allow(pair, share_id, to)
        wait_until(lambda number=number: len(pair.let_in(share_id)[0]) == number)
    pair.settle()
    assert pair.rules(share_id) == {ONE: "error", TWO: "error"}


def test_two_syncs_of_one_instance_still_run_one_after_the_other(pair, share_id):
    held = hold_syncs(pair)
    cases.allow(pair, share_id, ONE)
    held.until(2)
    cases.allow(pair, share_id, TWO)
    with pair.db.read() as tx:
        states = sorted(row.state for row in rows.find(tx, kind=SYNC, live=True))
    assert states == ["queued", "queued", "running", "running"]
    held.open()
    pair.settle()
    assert pair.let_in(share_id) == [{ONE: "rw", TWO: "rw"}] * 2


# ---------------------------------------------------------------- deleting


def test_the_deletion_of_a_share_waits_for_the_syncs_of_all_its_instances(pair, share_id):
    held = hold_syncs(pair)
    cases.allow(pair, share_id, ONE)
    held.until(2)
    pair.ask("POST", f"/shares/{share_id}/action", {"force_delete": None}, who="admin")
    deletion = pair.operation("share-delete", share_id)
    with pair.db.read() as tx:
        assert {row.kind for row in keys.ahead_of(tx, deletion.id)} == {SYNC}
        assert len(keys.ahead_of(tx, deletion.id)) == 2
    assert deletion.state == "queued"
    held.open()
    pair.settle()
    assert checked(pair, share_id) == []


def test_deleting_a_share_takes_every_instance_and_tells_it_once(pair, share_id):
    pair.enter()
    cases.delete(pair, share_id)
    pair.settle()
    assert pair.tries("member", "GET", f"/shares/{share_id}")[0] == 404
    assert checked(pair, share_id) == []
    assert sorted(told(pair, share_id, "share.delete")) == ["share.delete.end", "share.delete.start"]


def test_an_instance_that_cannot_be_deleted_keeps_its_share_until_it_can(pairs):
    pair = pairs("failures = delete:Refused:1")
    share_id = pair.share(states=(None, None))
    with pair.db.write() as tx:
        pools.recount(tx)
    pair.enter()
    cases.delete(pair, share_id)
    pair.settle()
    assert pair.status(share_id) == "error_deleting"
    (message,) = pair.ask("GET", f"/messages?resource_id={share_id}")["messages"]
    assert "delete was ordered to fail" in message["user_message"]
    assert len(list(left(pair, share_id))) == 2
    cases.delete(pair, share_id)
    pair.settle()
    assert checked(pair, share_id) == []


def test_a_share_with_replicas_is_deleted_after_them(pair):
    share_id = pair.share()
    for ask in (("DELETE", f"/shares/{share_id}"), ("POST", f"/shares/{share_id}/action", {"soft_delete": None})):
        status, body = pair.tries("member", *ask)
        assert status == 409
        assert "replicas" in body["conflictingRequest"]["message"]
    force = {"force_delete": None}
    assert pair.tries("admin", "POST", f"/shares/{share_id}/action", force)[0] == 409
    pair.enter()
    force_delete_instance(pair, pair.instance(share_id, "beta"))
    pair.settle()
    assert told(pair, share_id, "share.delete") == []
    assert pair.status(share_id) == "available"
    cases.delete(pair, share_id)
    pair.settle()
    assert checked(pair, share_id) == []


def test_deleting_both_instances_one_by_one_takes_the_share_and_tells_it_once(pair, share_id):
    both = [pair.instance(share_id, name) for name in AT]
    for instance_id in both:
        force_delete_instance(pair, instance_id)
    pair.enter()
    pair.settle()
    assert pair.tries("member", "GET", f"/shares/{share_id}")[0] == 404
    assert checked(pair, share_id) == []
    assert sorted(told(pair, share_id, "share.delete")) == ["share.delete.end", "share.delete.start"]


def test_an_instance_in_a_status_of_its_own_keeps_the_whole_share(pair):
    share_id = pair.share(states=(None, None), statuses=("available", "migrating_to"))
    status, body = pair.tries("member", "DELETE", f"/shares/{share_id}")
    assert (status, "migrating_to" in str(body)) == (403, True)
    assert pair.status(share_id) == "available"


# ---------------------------------------------------------------- resizing


@pytest.mark.parametrize("action", [{"extend": {"new_size": 5}}, {"shrink": {"new_size": 1}}], ids=["extend", "shrink"])
def test_a_share_with_several_instances_is_not_resized(pair, share_id, action):
    """The size is the share's, the room of every instance: one alone must not change."""
    status, body = pair.tries("member", "POST", f"/shares/{share_id}/action", action)
    assert status == 400
    assert "2 instances" in body["badRequest"]["message"]
    assert pair.status(share_id) == "available"
    with pair.db.read() as tx:
        assert [*stage.stuck(tx), *stage.counted_wrong(tx)] == []


@pytest.mark.parametrize("resize", [cases.extend, cases.shrink])
def test_resizing_waits_for_the_sync_of_the_instance(pair, resize):
    pair.enter("alpha")
    share_id = cases.a_share(pair)
    pair.settle()
    held = hold_syncs(pair)
    cases.allow(pair, share_id, ONE)
    held.until(1)
    resize(pair, share_id)
    with pair.db.read() as tx:
        (resizing,) = (row for row in rows.find(tx, live=True) if row.kind != SYNC)
        assert [row.kind for row in keys.ahead_of(tx, resizing.id)] == [SYNC]
    held.open()
    pair.settle()
    assert pair.status(share_id) == "available"


# ---------------------------------------------------------------- what explains what


def heal(pair):
    return StuckStates(pair.db, BACK_ENDS).heal()


def test_the_sync_of_one_instance_explains_nothing_of_the_other(pair, share_id):
    cases.allow(pair, share_id, ONE)
    with pair.db.write() as tx:
        lost = live(pair, SYNC)[BACK_ENDS[1]]
        tx.execute(rows.t.delete().where(rows.t.c.id == lost.id))
    with pair.db.read() as tx:
        assert share_instances.rules_without_operation(tx, BACK_ENDS[0]) == []
        (found,) = share_instances.rules_without_operation(tx, BACK_ENDS[1])
    assert found.host == AT["beta"]
    assert (heal(pair), heal(pair)) == (1, 0)
    pair.enter()
    pair.settle()
    assert pair.let_in(share_id) == [{ONE: "rw"}] * 2


def test_a_sync_does_not_explain_a_busy_status(pair, share_id):
    cases.allow(pair, share_id, ONE)
    t = stage.share_instances
    planting.put(pair.db, t, t.c.share_id == share_id, status="extending")
    assert (heal(pair), heal(pair)) == (2, 0)
    assert pair.status(share_id) == "extending_error"


def test_the_deletion_of_a_share_explains_all_its_instances(pair, share_id):
    cases.delete(pair, share_id)
    assert heal(pair) == 0
    with pair.db.read() as tx:
        assert [share_instances.busy_without_operation(tx, one) for one in BACK_ENDS] == [[], []]
