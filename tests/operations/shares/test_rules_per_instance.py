# SPDX-License-Identifier: Apache-2.0
"""A share with two instances: its rules are told to both, and are what the worse of both says."""

import contextlib

import pytest
import sqlalchemy as sa

from abaca.db.attachments import attachments
from abaca.db.tables.shares import access_rules, instance_access_rules
from abaca.operations.attachments import attachment_attach
from tests import planting
from tests.conftest import wait_until
from tests.databases import database, on_sqlite, postgres  # noqa: F401 (fixtures)
from tests.operations import cases
from tests.operations.shares.pair import AT, Pair

ONE, TWO = "10.0.0.1", "10.0.0.2"
AWAIT_ACCESS = [step.name for step in attachment_attach.OPERATION.steps].index("await_access")


@pytest.fixture
def pairs(database, tmp_path):  # noqa: F811
    """`pairs(orders)`: two back ends, of which the second does as it is ordered to."""
    with contextlib.ExitStack() as stack:
        yield lambda orders="": Pair(database, tmp_path, stack, orders)


@pytest.fixture
def pair(pairs):
    return pairs()


def deny(pair, share_id, rule_id):
    cases.act(pair, share_id, deny_access={"access_id": rule_id})


def update(pair, rule_id, level):
    pair.ask("PUT", f"/share-access-rules/{rule_id}", {"update_access": {"access_level": level}})


def allowed(pair, share_id, to=ONE):
    """The id of a rule that is in force everywhere."""
    pair.enter()
    rule_id = cases.allow(pair, share_id, to)
    pair.settle()
    assert pair.rules(share_id)[to] == "active"
    return rule_id


def test_a_rule_is_in_force_when_it_is_on_every_instance(pair):
    share_id = pair.share()
    cases.allow(pair, share_id, ONE)
    assert pair.rules_status(share_id) == ("syncing", "syncing", "syncing")
    pair.enter("alpha")
    wait_until(lambda: pair.let_in(share_id) == [{ONE: "rw"}, {}])
    wait_until(lambda: pair.rules_status(share_id) == ("syncing", "active", "syncing"))
    assert pair.rules(share_id) == {ONE: "queued_to_apply"}
    pair.enter("beta")
    pair.settle()
    assert pair.let_in(share_id) == [{ONE: "rw"}, {ONE: "rw"}]
    assert (pair.rules(share_id), pair.rules_status(share_id)) == ({ONE: "active"}, ("active",) * 3)


def test_the_failing_sync_of_the_second_instance_is_seen_and_hurts_only_that(pairs):
    pair = pairs("failures = set_access:Refused:1")
    share_id = pair.share()
    pair.enter()
    rule_id = cases.allow(pair, share_id, ONE)
    pair.settle()
    assert pair.rules(share_id) == {ONE: "error"}
    assert pair.rules_status(share_id) == ("error", "active", "error")
    assert pair.let_in(share_id) == [{ONE: "rw"}, {}]
    (message,) = pair.ask("GET", f"/messages?resource_id={share_id}")["messages"]
    assert message["action_id"] == "010"
    assert pair.ask("GET", f"/share-access-rules/{rule_id}")["access"]["state"] == "error"
    cases.allow(pair, share_id, TWO)  # the next sync tries them all again
    pair.settle()
    assert pair.rules(share_id) == {ONE: "active", TWO: "active"}
    assert pair.rules_status(share_id) == ("active",) * 3
    assert pair.let_in(share_id) == [{ONE: "rw", TWO: "rw"}] * 2


def test_a_denied_rule_is_there_until_the_last_instance_has_dropped_it(pair):
    share_id = pair.share()
    rule_id = allowed(pair, share_id)
    pair.leave()
    deny(pair, share_id, rule_id)
    pair.enter("alpha")
    wait_until(lambda: pair.let_in(share_id) == [{}, {ONE: "rw"}])
    wait_until(lambda: pair.rules_status(share_id) == ("syncing", "active", "syncing"))
    assert pair.rules(share_id) == {ONE: "queued_to_deny"}
    pair.enter("beta")
    pair.settle()
    assert (pair.rules(share_id), pair.let_in(share_id)) == ({}, [{}, {}])
    assert pair.tries("member", "GET", f"/share-access-rules/{rule_id}")[0] == 404


def test_a_denied_rule_that_the_second_instance_keeps_is_not_forgotten_nor_given_back(pairs):
    pair = pairs("failures = set_access:Refused:2")
    share_id = pair.share()
    pair.enter()
    rule_id = cases.allow(pair, share_id, ONE)  # refused
    pair.settle()
    planting.put(pair.db, instance_access_rules, state="active")  # as if it were in force there
    with pair.beta.state_file.change() as records:
        held = next(iter(records.all("instance").items()))
        records.put("instance", held[0], held[1] | {"rules": [["ip", ONE, "rw"]]})
    deny(pair, share_id, rule_id)  # refused again
    pair.settle()
    assert pair.rules(share_id) == {ONE: "error"}
    assert pair.let_in(share_id) == [{}, {ONE: "rw"}]
    assert (
        pair.tries("member", "PUT", f"/share-access-rules/{rule_id}", {"update_access": {"access_level": "ro"}})[0]
        == 400
    )
    cases.allow(pair, share_id, TWO)
    pair.settle()
    assert pair.rules(share_id) == {TWO: "active"}
    assert pair.let_in(share_id) == [{TWO: "rw"}] * 2


def test_denying_again_tries_again(pairs):
    pair = pairs("failures = set_access:Refused:1")
    share_id = pair.share()
    pair.enter()
    rule_id = cases.allow(pair, share_id, ONE)
    pair.settle()
    deny(pair, share_id, rule_id)
    pair.settle()
    assert (pair.rules(share_id), pair.let_in(share_id)) == ({}, [{}, {}])


def test_a_rule_is_changed_on_every_instance(pair):
    share_id = pair.share()
    rule_id = allowed(pair, share_id)
    update(pair, rule_id, "ro")
    pair.settle()
    assert (pair.rules(share_id), pair.let_in(share_id)) == ({ONE: "active"}, [{ONE: "ro"}] * 2)


def test_a_rule_that_is_on_its_way_to_one_instance_cannot_be_changed(pair):
    share_id = pair.share()
    rule_id = cases.allow(pair, share_id, ONE)
    pair.enter("alpha")
    wait_until(lambda: pair.rules_status(share_id)[1] == "active")
    change = {"update_access": {"access_level": "ro"}}
    assert pair.tries("member", "PUT", f"/share-access-rules/{rule_id}", change)[0] == 400
    pair.enter()
    pair.settle()
    assert pair.let_in(share_id) == [{ONE: "rw"}] * 2


def test_an_instance_that_comes_later_takes_up_the_rules_there_are(pair):
    pair.enter("alpha")
    share_id = cases.a_share(pair)
    cases.allow(pair, share_id, ONE)
    pair.settle()
    pair.leave()
    pair.join(share_id, None, "available")
    pair.enter()
    cases.allow(pair, share_id, TWO)
    pair.settle()
    assert pair.rules(share_id) == {ONE: "active", TWO: "active"}
    assert pair.let_in(share_id) == [{ONE: "rw", TWO: "rw"}] * 2


def test_ensuring_a_back_end_mends_the_rules_of_its_instances(pairs):
    pair = pairs("failures = set_access:Refused:1")
    share_id = pair.share()
    pair.enter()
    cases.allow(pair, share_id, ONE)
    pair.settle()
    assert pair.rules_status(share_id) == ("error", "active", "error")
    pair.ask("POST", "/services/ensure-shares", {"host": "testhost@beta"}, who="admin")
    pair.settle()
    assert pair.rules_status(share_id) == ("active",) * 3
    assert pair.let_in(share_id) == [{ONE: "rw"}] * 2


def test_the_denied_rules_of_an_instance_go_with_it(pairs):
    pair = pairs("failures = set_access:Refused")
    share_id = pair.share()
    pair.enter()
    rule_id = cases.allow(pair, share_id, ONE)
    pair.settle()
    deny(pair, share_id, rule_id)
    pair.settle()
    assert pair.rules(share_id) == {ONE: "error"}
    second = pair.instance(share_id, "beta")
    pair.ask("POST", f"/share_instances/{second}/action", {"force_delete": None}, who="admin")
    pair.settle()
    assert pair.rules(share_id) == {}
    with pair.db.read() as tx:
        assert tx.rows(sa.select(instance_access_rules)) == tx.rows(sa.select(access_rules)) == []


def test_back_ends_are_told_a_client_in_one_form(pair):
    share_id = pair.share()
    pair.enter()
    cases.allow(pair, share_id, "192.0.2.0/255.255.255.0")
    cases.allow(pair, share_id, "::FFFF:10.44.0.7")
    pair.settle()
    assert pair.rules(share_id) == {"192.0.2.0/255.255.255.0": "active", "::FFFF:10.44.0.7": "active"}
    assert pair.let_in(share_id) == [{"192.0.2.0/24": "rw", "10.44.0.7": "rw"}] * 2


# ---------------------------------------------------------------- when rules may change


@pytest.mark.parametrize("status", ["extending", "migrating_to", "creating"])
def test_rules_wait_until_every_instance_has_settled(pair, status):
    share_id = pair.share(statuses=("available", status))
    wish = {"allow_access": {"access_type": "ip", "access_to": ONE}}
    answer, body = pair.tries("member", "POST", f"/shares/{share_id}/action", wish)
    assert answer == 400
    assert status in str(body)


def test_a_broken_instance_keeps_rules_from_changing_only_for_old_clients(pair):
    share_id = pair.share(statuses=("available", "error"))
    wish = {"allow_access": {"access_type": "ip", "access_to": ONE}}
    assert pair.tries("member", "POST", f"/shares/{share_id}/action", wish, version="2.73")[0] == 400
    assert pair.tries("member", "POST", f"/shares/{share_id}/action", wish, version="2.74")[0] == 200


# ---------------------------------------------------------------- who speaks


@pytest.mark.parametrize(
    ("first", "second", "speaks"),
    [
        (("available", None), ("migrating_to", None), "alpha"),
        (("migrating", None), ("available", None), "alpha"),
        (("error", None), ("available", None), "beta"),
        (("error", "active"), ("available", "in_sync"), "alpha"),
        (("available", "in_sync"), ("error", "active"), "beta"),
        (("available", "out_of_sync"), ("available", "in_sync"), "beta"),
        (("available", "active"), ("replication_change", "in_sync"), "beta"),
        (("available", None), ("available", "out_of_sync"), "beta"),
        (("available", "error"), ("creating", None), "beta"),
    ],
)
def test_the_instance_that_speaks_is_chosen_by_status_and_replica_state(pair, first, second, speaks):
    share_id = pair.share(states=(first[1], second[1]), statuses=(first[0], second[0]))
    wanted = {"alpha": first, "beta": second}[speaks][0]
    share = pair.ask("GET", f"/shares/{share_id}", who="admin")["share"]
    assert (share["host"], share["status"]) == (AT[speaks], wanted)
    (listed,) = pair.ask("GET", "/shares/detail", who="admin")["shares"]
    assert (listed["host"], listed["status"]) == (AT[speaks], wanted)


def test_the_rules_of_an_instance_that_is_not_available_do_not_count(pairs):
    pair = pairs("failures = set_access:Refused")
    share_id = pair.share(statuses=("available", "error"))
    pair.enter()
    cases.allow(pair, share_id, ONE)
    pair.settle()
    assert pair.rules_status(share_id) == ("active", "active", "error")
    assert pair.rules(share_id) == {ONE: "error"}


# ---------------------------------------------------------------- what waits for rules


def attachment(pair, share_id):
    server_id = cases.a_server(pair, "10.7.0.9")
    return cases.attach(pair, (share_id, server_id))


def state(pair, attachment_id):
    shown = pair.ask("GET", f"//abaca/v1/attachments/{attachment_id}")["attachment"]
    return shown["state"]


def test_an_attachment_waits_for_all_instances_that_servers_mount_from(pair):
    share_id = pair.share(states=("active", "active"))
    made = attachment(pair, share_id)
    pair.enter("alpha")
    wait_until(lambda: pair.rules_status(share_id)[1] == "active")
    wait_until(lambda: pair.operation("attachment-attach", made).step == AWAIT_ACCESS)
    assert state(pair, made) == "attaching"
    pair.enter()
    pair.settle()
    assert state(pair, made) == "active"


def test_an_attachment_does_not_wait_for_a_replica_that_nobody_mounts(pairs):
    pair = pairs("failures = set_access:Refused")
    share_id = pair.share(states=("active", "in_sync"))
    made = attachment(pair, share_id)
    pair.enter()
    pair.settle()
    assert state(pair, made) == "active"
    assert pair.rules(share_id) == {"10.7.0.9": "error"}
    shown = pair.ask("GET", f"//abaca/v1/attachments/{made}")["attachment"]
    assert shown["export_location"].startswith("10.0.0.")
    pair.put(share_id, "alpha", "in_sync", "available")  # the other one is promoted
    pair.put(share_id, "beta", "active", "available")
    with pair.db.read() as tx:
        assert [row.id for row in attachments.moved(tx, [share_id])] == [made]


def test_an_attachment_is_refused_where_one_that_it_may_mount_refuses(pairs):
    pair = pairs("failures = set_access:Refused")
    share_id = pair.share(states=("active", "active"))
    made = attachment(pair, share_id)
    pair.enter()
    pair.settle()
    assert state(pair, made) == "error"


def test_the_rules_of_an_attachment_go_from_every_instance(pair):
    share_id = pair.share(states=("active", "in_sync"))
    made = attachment(pair, share_id)
    pair.enter()
    pair.settle()
    assert pair.let_in(share_id) == [{"10.7.0.9": "rw"}] * 2
    cases.detach(pair, made)
    pair.settle()
    assert pair.let_in(share_id) == [{}, {}]


# ---------------------------------------------------------------- what a list costs


@pytest.mark.parametrize("database", [on_sqlite], indirect=True)
def test_a_list_of_rules_is_no_statement_for_each(pair):
    share_id = pair.share()

    def statements(number):
        while len(pair.rules(share_id)) < number:
            cases.allow(pair, share_id, f"10.0.9.{len(pair.rules(share_id))}")
        said = []
        with pair.db.read() as tx:  # who looks next gets the same connection
            tx.connection.connection.dbapi_connection.set_trace_callback(said.append)
        assert len(pair.rules(share_id)) == number
        return len(said)

    assert 0 < statements(2) == statements(12)
