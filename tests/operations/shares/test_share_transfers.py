# SPDX-License-Identifier: Apache-2.0
"""A share changes hands beside what others ask for: nothing of the former project's comes through afterwards."""

import threading

import pytest
import sqlalchemy as sa

from abaca.db.tables.catalog import quota_usages
from abaca.domain.callers import Caller
from abaca.operations.shares import share_transfer
from tests.api.world import NEWEST, OTHER_PROJECT
from tests.conftest import wait_until
from tests.databases import database, on_postgres, postgres  # noqa: F401 (fixtures)
from tests.operations import cases
from tests.operations import theatre as stage
from tests.operations.transfer_cases import accept_transfer, an_offered_share

VERSION = {"x-openstack-manila-api-version": NEWEST}
OTHER = Caller("someone", OTHER_PROJECT, frozenset({"member", "reader"}), is_admin=False, request_id="req-1")


def ask_beside(theatre, requests):
    """Send all of them, one after the other, to wait for what somebody holds; the threads, and the answers."""
    answers, threads = {}, []
    for number, (who, method, path, body) in enumerate(requests, 1):

        def ask(who=who, method=method, path=path, body=body):
            answers[f"{method} {path}"] = theatre.world.ask(who, method, path, body, **VERSION).status

        threads.append(threading.Thread(target=ask))
        threads[-1].start()
        wait_until(lambda number=number: theatre.waiting() == number)
    return threads, answers


def joined(threads):
    for thread in threads:
        thread.join(60)


@pytest.mark.parametrize("database", [on_postgres], indirect=True)
def test_what_its_former_project_asks_for_meanwhile_comes_too_late(theatre):
    """Each had found the share to be theirs, and then waited for it."""
    theatre.enter()
    share_id, transfer_id, key = an_offered_share(theatre)
    rule_id = cases.allow(theatre, share_id, "10.0.0.1")
    (snapshot,) = theatre.ask("GET", f"/snapshots?share_id={share_id}")["snapshots"]
    theatre.settle()
    more = {"metadata": {"whose": "ours"}}
    requests = [
        ("member", "PUT", f"/shares/{share_id}", {"share": {"display_name": "ours"}}),
        ("member", "POST", f"/shares/{share_id}/metadata", more),
        (
            "member",
            "POST",
            f"/shares/{share_id}/action",
            {"allow_access": {"access_type": "ip", "access_to": "10.2.2.2"}},
        ),
        ("member", "PUT", f"/share-access-rules/{rule_id}/metadata", more),
        ("member", "DELETE", f"/shares/{share_id}", None),
        ("member", "POST", "/snapshots", {"snapshot": {"share_id": share_id, "force": True}}),
        ("member", "POST", f"/snapshots/{snapshot['id']}/metadata", more),
        ("member", "DELETE", f"/snapshots/{snapshot['id']}", None),
    ]
    with theatre.db.write() as tx:
        share_transfer.accept(tx, theatre.stage.settings, OTHER, (transfer_id, key), clear_rules=False)
        threads, answers = ask_beside(theatre, requests)
    joined(threads)
    assert set(answers.values()) == {404}, answers
    theatre.settle()
    assert theatre.check(theatre.operation("share-transfer", share_id)) == []
    found = theatre.ask("GET", f"/shares/{share_id}", who="other")["share"]
    assert (found["project_id"], found["name"], found["status"]) == (OTHER_PROJECT, None, "available")


def test_what_was_accepted_can_be_used_at_once(theatre):
    """Though its back end has not been told yet: what comes next is done after that."""
    theatre.enter()
    offered = an_offered_share(theatre)
    share_id = accept_transfer(theatre, offered)
    assert theatre.ask("GET", f"/shares/{share_id}", who="other")["share"]["status"] == "available"
    made = theatre.ask("POST", "/share-transfers", {"transfer": {"share_id": share_id}}, who="other")["transfer"]
    theatre.settle()
    found = theatre.ask("GET", f"/shares/{share_id}", who="other")["share"]
    assert found["status"] == "awaiting_transfer", "this offer stands, whoever the back end was told of"
    theatre.ask("DELETE", f"/share-transfers/{made['id']}", who="other")
    theatre.ask("POST", f"/shares/{share_id}/action", {"extend": {"new_size": 4}}, who="other")
    theatre.settle()
    assert theatre.ask("GET", f"/shares/{share_id}", who="other")["share"]["size"] == 4


@pytest.mark.parametrize("database", [on_postgres], indirect=True)
def test_projects_that_hand_shares_to_each_other_queue_in_one_order(theatre):
    theatre.enter()
    requests = []
    for owner, taker in (("member", "other"), ("other", "member")):
        body = {"share": {"share_proto": "NFS", "size": 1}}
        share_id = theatre.ask("POST", "/shares", body, who=owner)["share"]["id"]
        theatre.settle()
        made = theatre.ask("POST", "/share-transfers", {"transfer": {"share_id": share_id}}, who=owner)["transfer"]
        requests.append(
            (taker, "POST", f"/share-transfers/{made['id']}/accept", {"accept": {"auth_key": made["auth_key"]}})
        )
    with theatre.db.write() as tx:
        tx.rows(sa.select(quota_usages.c.project_id).order_by(quota_usages.c.project_id).with_for_update())
        threads, answers = ask_beside(theatre, requests)
    joined(threads)
    assert set(answers.values()) == {202}, answers
    theatre.settle()
    with theatre.db.read() as tx:
        assert stage.counted_wrong(tx) == []
