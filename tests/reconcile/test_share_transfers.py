# SPDX-License-Identifier: Apache-2.0
"""An offer of a share that nobody accepts in time is over, and the share is its project's as before."""

import dataclasses
import time

import pytest

from abaca.api import versions
from abaca.db.engine.database import Database
from abaca.db.tables.shares import share_transfers
from abaca.reconcile.expiry import Expiry
from tests import planting
from tests.api.world import world

NEWEST = {"x-openstack-manila-api-version": f"2.{versions.MAXIMUM}"}


def test_an_offer_that_nobody_accepts_in_time_is_over(tmp_path):
    with world(tmp_path, worker=True, more="transfer_retention_time = 86400") as made:

        def ask(method, path, body=None):
            return made.ask("member", method, path, body, **NEWEST)

        specs = {"driver_handles_share_servers": "False"}
        made.ask("admin", "POST", "/types", {"share_type": {"name": "default", "extra_specs": specs}}, **NEWEST)
        wish = {"share": {"share_proto": "NFS", "size": 1}}
        shares = [ask("POST", "/shares", wish).body["share"]["id"] for _ in range(2)]
        made.settle()
        offers = [ask("POST", "/share-transfers", {"transfer": {"share_id": one}}).body["transfer"] for one in shares]
        planting.put(made.db, share_transfers, share_transfers.c.id == offers[0]["id"], expires_at=made.db.now())
        keys = {"accept": {"auth_key": offers[0]["auth_key"]}}
        late = made.ask("other", "POST", f"/share-transfers/{offers[0]['id']}/accept", keys, **NEWEST)
        assert late.status == 400
        Expiry(made.db, (), keep_messages_s=1, keep_operations_s=1, keep_events_s=1).share_transfers()
        assert [ask("GET", f"/share-transfers/{one['id']}").status for one in offers] == [404, 200]
        found = [ask("GET", f"/shares/{one}").body["share"]["status"] for one in shares]
        assert found == ["available", "awaiting_transfer"]


KEPT_S = 86400
SPECS = {"driver_handles_share_servers": "False", "snapshot_support": "True"}


@pytest.fixture
def offered(tmp_path):
    """A world, and in it a share with a snapshot that is offered to whoever has the key."""
    with world(tmp_path, worker=True, more=f"transfer_retention_time = {KEPT_S}") as made:
        say(made, "admin", "POST", "/types", {"share_type": {"name": "default", "extra_specs": SPECS}})
        share = say(made, "member", "POST", "/shares", {"share": {"share_proto": "NFS", "size": 1}})["share"]
        made.settle()
        say(made, "member", "POST", "/snapshots", {"snapshot": {"share_id": share["id"]}})
        made.settle()
        yield made, share["id"], offer(made, share["id"])


def say(of, who, method, path, body=None):
    answer = of.ask(who, method, path, body, **NEWEST)
    assert answer.status < 300, answer
    return answer.body


def offer(of, share_id):
    return say(of, "member", "POST", "/share-transfers", {"transfer": {"share_id": share_id}})["transfer"]


def accept(of, made):
    """The answer's status, and what it says is wrong."""
    body = {"accept": {"auth_key": made["auth_key"]}}
    answer = of.ask("other", "POST", f"/share-transfers/{made['id']}/accept", body, **NEWEST)
    return answer.status, next(iter((answer.body or {"": {}}).values())).get("message")


def view(of, who, share_id, transfer_id):
    """What somebody sees: the share, the offer, how many offers, shares and snapshots, and what counts as theirs."""
    share = of.ask(who, "GET", f"/shares/{share_id}", **NEWEST)
    limits = say(of, who, "GET", "/limits")["limits"]["absolute"]
    return (
        share.body["share"]["status"] if share.status == 200 else share.status,
        of.ask(who, "GET", f"/share-transfers/{transfer_id}", **NEWEST).status,
        *(len(say(of, who, "GET", f"/{path}")[key]) for path, key in LISTS.items()),
        limits["totalSharesUsed"],
        limits["totalShareSnapshotsUsed"],
    )


LISTS = {"share-transfers": "transfers", "shares": "shares", "snapshots": "snapshots"}
NOTHING = (404, 404, 0, 0, 0, 0, 0)
OFFERED, OWNED = ("awaiting_transfer", 200, 1, 1, 1, 1, 1), ("available", 404, 0, 1, 1, 1, 1)


def after(of, seconds):
    """The same world so much later: its API has that clock, and what looks for offers that are over."""
    db = Database(of.settings.database_url, clock=lambda: time.time() + seconds)
    return dataclasses.replace(of, db=db).serving_by(of.settings)


def sweep(of):
    Expiry(of.db, (), keep_messages_s=1, keep_operations_s=1, keep_events_s=1).share_transfers()


@pytest.mark.parametrize(("seconds", "left"), [(KEPT_S - 60, OFFERED), (KEPT_S + 60, OWNED)], ids=["before", "after"])
def test_both_projects_see_an_offer_end_when_its_time_is_over(offered, seconds, left):
    now, share_id, made = offered
    later = after(now, seconds)
    assert view(later, "member", share_id, made["id"]) == OFFERED, "until somebody looks"
    sweep(later)
    assert view(later, "member", share_id, made["id"]) == left
    assert view(later, "other", share_id, made["id"]) == NOTHING
    later.db.close()


def test_who_has_the_key_comes_too_late(offered):
    """As with a wrong key, from the moment on: before anybody has looked for such offers, and when it is gone."""
    now, share_id, made = offered
    later = after(now, KEPT_S + 60)
    wrong = accept(later, {**made, "auth_key": "wrong"})
    assert wrong[0] == 400
    assert accept(later, made) == wrong
    sweep(later)
    assert accept(later, made) == wrong
    assert view(later, "member", share_id, made["id"]) == OWNED
    later.db.close()


def test_what_nobody_accepted_is_free_again(offered):
    now, share_id, made = offered
    later = after(now, KEPT_S + 60)
    sweep(later)
    later.db.close()
    say(now, "member", "POST", f"/shares/{share_id}/action", {"extend": {"new_size": 2}})
    now.settle()
    assert say(now, "member", "GET", f"/shares/{share_id}")["share"]["size"] == 2
    again = offer(now, share_id)
    assert accept(now, made)[0] == 400
    assert accept(now, again)[0] == 202
    now.settle()
    assert view(now, "member", share_id, again["id"]) == NOTHING
    assert view(now, "other", share_id, again["id"]) == OWNED
