# SPDX-License-Identifier: Apache-2.0
"""Who can mount a share can mount its snapshots, where its type says so; nobody else, and never to write."""

from abaca.db.shares import snapshots
from tests.databases import database, postgres  # noqa: F401 (fixtures)
from tests.operations.cases import act, allow
from tests.operations.snapshot_cases import an_inheriting_snapshot, take_snapshot


def let_in(theatre, snapshot_id):
    """Whom the back end lets in."""
    with theatre.db.read() as tx:
        instance_id = snapshots.find(tx, snapshot_id).instance_id
    rules = theatre.driver.contents()["snapshot"][instance_id]["rules"]
    assert {level for _, _, level in rules} <= {"ro"}
    return {to for _, to, _ in rules}


def test_snapshots_follow_the_rules_of_their_share(theatre):
    theatre.enter()
    share_id, rules = an_inheriting_snapshot(theatre)
    (old,) = theatre.ask("GET", f"/snapshots?share_id={share_id}")["snapshots"]
    assert let_in(theatre, old["id"]) == {"10.0.0.1", "10.0.0.2", "10.0.0.3"}
    act(theatre, share_id, deny_access={"access_id": rules[0]})
    allow(theatre, share_id, "10.0.0.4")
    new = take_snapshot(theatre, share_id)
    theatre.settle()
    wanted = {"10.0.0.2", "10.0.0.3", "10.0.0.4"}
    assert (let_in(theatre, old["id"]), let_in(theatre, new)) == (wanted, wanted)


def test_so_does_one_that_is_taken_over_and_one_whose_status_was_set_by_hand(theatre):
    theatre.enter()
    share_id, rules = an_inheriting_snapshot(theatre)
    (old,) = theatre.ask("GET", f"/snapshots?share_id={share_id}")["snapshots"]
    place = theatre.ask("GET", f"/snapshots/{old['id']}", who="admin")["snapshot"]["provider_location"]
    theatre.ask("POST", f"/snapshots/{old['id']}/action", {"unmanage": None}, who="admin")
    act(theatre, share_id, deny_access={"access_id": rules[0]})
    theatre.settle()
    wanted = {"share_id": share_id, "provider_location": place}
    new = theatre.ask("POST", "/snapshots/manage", {"snapshot": wanted}, who="admin")["snapshot"]["id"]
    theatre.settle()
    assert let_in(theatre, new) == {"10.0.0.2", "10.0.0.3"}
    theatre.ask("POST", f"/snapshots/{new}/action", {"reset_status": {"status": "error"}}, who="admin")
    act(theatre, share_id, deny_access={"access_id": rules[1]})
    theatre.settle()
    assert let_in(theatre, new) == {"10.0.0.3"}
