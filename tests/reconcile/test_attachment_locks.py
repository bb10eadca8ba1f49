# SPDX-License-Identifier: Apache-2.0
"""Requests and workers that end at the same moment wait for each other in one order, and none is aborted for it."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from abaca.db.attachments import attachments as rows
from abaca.db.tables.attachments import attachments
from abaca.db.tables.journal import operations
from abaca.nodes.contract import Holder
from tests.conftest import wait_until
from tests.databases import place
from tests.operations import cases
from tests.operations import theatre as stage
from tests.operations.bench import Gate

pytestmark = pytest.mark.system

DOOR = "//abaca/v1/attachments"


@pytest.fixture
def theatre(request, tmp_path):
    database = place("postgresql", tmp_path, request)
    with contextlib.ExitStack() as stack:
        stack.callback(database.close)
        made = stage.Theatre(database, tmp_path, None, stack)
        made.enter()
        yield made
        made.settle()
        with made.db.read() as tx:
            assert [*stage.stuck(tx), *stage.left_on_servers(tx, made.nodes)] == []


def end_beside(theatre, kind, begin, row, request):
    """The answer to `request`, made while the end of the operation that `begin` brings about waits for `row`.

    The operation's outcomes are there too.
    """
    gate, outcomes = Gate(), []
    worker = theatre.enter(arms=stage.Arms({f"{kind}:end:before": gate.wait}))
    worker.on_ended = lambda op, outcome, _seconds: outcomes.append((op.what.kind, outcome))
    begin()
    assert gate.arrived.wait(60)
    with ThreadPoolExecutor(1) as pool:
        with theatre.db.write() as tx:
            tx.rows(row.with_for_update())
            gate.opened.set()
            wait_until(lambda: theatre.waiting() == 1, every_s=0.005)
            answer = pool.submit(request)
            wait_until(lambda: theatre.waiting() == 2, every_s=0.005)
        found = answer.result(20)
    theatre.settle()
    return found, [outcome for of, outcome in outcomes if of == kind]


def test_force_and_the_end_of_a_detach_wait_for_each_other_in_order(theatre):
    attachment_id = cases.an_attachment(theatre)
    answer, outcomes = end_beside(
        theatre,
        "attachment-detach",
        lambda: cases.detach(theatre, attachment_id),
        sa.select(attachments.c.id).where(attachments.c.id == attachment_id),
        lambda: theatre.world.ask("member", "DELETE", f"{DOOR}/{attachment_id}?force=true"),
    )
    assert (answer.status, outcomes) == (404, ["done"])


def test_a_detach_and_the_end_of_an_attach_wait_for_each_other_in_order(theatre):
    share_id, server_id = cases.a_share_and_a_server(theatre)
    made = []
    answer, outcomes = end_beside(
        theatre,
        "attachment-attach",
        lambda: made.append(cases.attach(theatre, (share_id, server_id))),
        sa.select(operations.c.id).where(operations.c.kind == "attachment-attach"),
        lambda: theatre.world.ask("member", "DELETE", f"{DOOR}/{made[0]}"),
    )
    assert (answer.status, outcomes) == (202, ["done"])
    assert theatre.ask("GET", DOOR)["attachments"] == []


def test_force_that_comes_while_a_detach_fails_is_heard(theatre):
    attachment = theatre.ask("GET", f"{DOOR}/{cases.an_attachment(theatre)}")["attachment"]
    theatre.nodes.hold(attachment["addresses"][0], attachment["mount_point"], Holder(7, "sleep 9"))
    answer, outcomes = end_beside(
        theatre,
        "attachment-detach",
        lambda: cases.detach(theatre, attachment["id"]),
        sa.select(attachments.c.id).where(attachments.c.id == attachment["id"]),
        lambda: theatre.world.ask("member", "DELETE", f"{DOOR}/{attachment['id']}?force=true"),
    )
    assert (answer.status, outcomes) == (202, ["failed", "done"])
    assert theatre.ask("GET", DOOR)["attachments"] == []


def test_two_shares_for_the_same_place_on_many_servers_do_not_lock_each_other_out(theatre):
    """Each waits for a place that the other has, if both take theirs in the order in which they were asked."""
    machines = sorted(cases.a_server(theatre, f"10.9.7.{number}") for number in range(1, 9))
    wishes = [
        {"share_id": cases.a_share(theatre), "server_ids": order, "mount_point": "/srv/data"}
        for order in (machines, machines[::-1])
    ]

    def ask(wish):
        return theatre.world.ask("member", "POST", DOOR, {"attachment": wish})

    planted = {"share_id": cases.a_share(theatre), "mount_point": "/srv/data", "mode": "network", "access_level": "rw"}
    with ThreadPoolExecutor(2) as pool:
        with undone(theatre.db) as tx:
            for machine in (machines[0], machines[-1]):
                there = {"server_id": machine, "project_id": "p", "user_id": None, "addresses": [], "tag": machine}
                rows.add(tx, {**planted, **there})
            answers = [pool.submit(ask, wish) for wish in wishes]
            wait_until(lambda: theatre.waiting() == 2, every_s=0.005)
        found = [answer.result(20) for answer in answers]
    theatre.settle()
    assert sorted(answer.status for answer in found) == [202, 409], found
    assert len(theatre.ask("GET", DOOR)["attachments"]) == len(machines)


def test_of_two_shares_for_places_within_one_another_one_is_refused_however_they_race(theatre):
    machine = cases.a_server(theatre, "10.9.7.99")
    one, two = cases.a_share(theatre), cases.a_share(theatre)

    def ask(share_id, place):
        wish = {"share_id": share_id, "server_id": machine, "mount_point": place}
        return theatre.world.ask("member", "POST", DOOR, {"attachment": wish})

    holds = {"share_id": cases.a_share(theatre), "mount_point": "/srv/z", "mode": "network", "access_level": "rw"}
    there = {"server_id": machine, "project_id": "p", "user_id": None, "addresses": [], "tag": one}
    with ThreadPoolExecutor(2) as pool:
        with undone(theatre.db) as tx:
            rows.add(tx, {**holds, **there})
            first = pool.submit(ask, one, "/srv/a")  # waits for the tag
            wait_until(lambda: theatre.waiting() == 1, every_s=0.005)
            second = pool.submit(ask, two, "/srv/a/b")
            wait_until(lambda: theatre.waiting() == 2, every_s=0.005)
        found = [answer.result(20) for answer in (first, second)]
    theatre.settle()
    assert sorted(answer.status for answer in found) == [202, 409], found
    assert len(theatre.ask("GET", DOOR)["attachments"]) == 1


class Undone(Exception):
    """Nothing of it shall stay."""


@contextlib.contextmanager
def undone(db):
    """A transaction that leaves nothing."""
    with contextlib.suppress(Undone), db.write() as tx:
        yield tx
        raise Undone
