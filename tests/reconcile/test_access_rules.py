# SPDX-License-Identifier: Apache-2.0
"""Rules that a back end failed to take away are tried again until they are gone, with pauses that grow."""

import datetime

import pytest
import sqlalchemy as sa

from abaca.db.tables.shares import access_rules, instance_access_rules
from abaca.domain.shares.access_rules import next_try_at
from abaca.reconcile.access_rules import AccessRules
from tests.operations import cases
from tests.operations import theatre as stage

AT = "access-rules-sync:apply_rules:before"
NOW = datetime.datetime(2026, 1, 1)  # noqa: DTZ001 (naive UTC)


def refuse_once(theatre):
    """The back end refuses the next change of rules."""
    theatre.ensure_actor().faults.actions[AT] = stage.final


def pass_time(theatre, seconds):
    """All that is known of rules happened so much earlier."""
    with theatre.db.write() as tx:
        for table in (access_rules, instance_access_rules):
            for row in tx.rows(sa.select(table.c.created_at, table.c.updated_at).distinct()):
                before = [None if time is None else time - datetime.timedelta(seconds=seconds) for time in row]
                at = (table.c.created_at == row[0], table.c.updated_at.is_not_distinct_from(row[1]))
                tx.execute(sa.update(table).where(*at).values(created_at=before[0], updated_at=before[1]))


def rules(theatre):
    with theatre.db.read() as tx:
        return stage.states_of_rules(tx)


@pytest.fixture
def stuck(theatre, attachment):
    """A rule whose attachment is gone, and which the back end refused to take away."""
    refuse_once(theatre)
    cases.detach(theatre, attachment["id"])
    theatre.settle()
    assert theatre.ask("GET", "//abaca/v1/attachments")["attachments"] == []
    ((to, state),) = rules(theatre)
    assert state == "error"
    assert let_in(theatre) == [to]
    return attachment["share_id"]


def let_in(theatre):
    return [to for entry in theatre.driver.contents()["instance"].values() for _, to, _ in entry["rules"]]


def test_what_nobody_needs_is_tried_again_until_it_is_gone(theatre, stuck):
    heal = AccessRules(theatre.db, batch=1).heal
    assert heal() == 0, "its time has not come"
    pass_time(theatre, 40)
    refuse_once(theatre)
    assert heal() == 1
    theatre.settle()
    assert [state for _, state in rules(theatre)] == ["error"]
    pass_time(theatre, 31)
    assert heal() == 0, "the second pause is as long as it has waited"
    pass_time(theatre, 31)
    assert heal() == 1
    theatre.settle()
    assert rules(theatre) == []
    assert let_in(theatre) == []


def test_what_a_user_denied_is_tried_again_too(theatre):
    share_id = cases.a_share(theatre)
    rule = cases.allow(theatre, share_id, "10.9.8.1")
    theatre.settle()
    refuse_once(theatre)
    cases.act(theatre, share_id, deny_access={"access_id": rule})
    theatre.settle()
    assert let_in(theatre) == ["10.9.8.1"]
    pass_time(theatre, 40)
    assert AccessRules(theatre.db).heal() == 1
    theatre.settle()
    assert rules(theatre) == []
    assert let_in(theatre) == []


def test_a_level_that_was_not_changed_for_an_attachment_is_tried_again(theatre, attachment):
    address = attachment["addresses"][0]
    other = cases.a_server(theatre, address, name="the same address")
    wish = {"share_id": attachment["share_id"], "server_id": other, "access_level": "ro"}
    theatre.ask("POST", "//abaca/v1/attachments", {"attachment": wish})
    theatre.settle()
    refuse_once(theatre)
    cases.detach(theatre, attachment["id"])
    theatre.settle()
    pass_time(theatre, 40)
    assert AccessRules(theatre.db).heal() == 1
    theatre.settle()
    (entry,) = theatre.driver.contents()["instance"].values()
    assert [level for _, _, level in entry["rules"]] == ["ro"]


def test_what_a_back_end_never_gave_a_user_is_left_to_them(theatre):
    share_id = cases.a_share(theatre)
    refuse_once(theatre)
    cases.allow(theatre, share_id, "10.9.8.2")
    theatre.settle()
    pass_time(theatre, 9999)
    assert AccessRules(theatre.db).heal() == 0
    assert rules(theatre) == [("10.9.8.2", "error")]


def test_an_administrator_has_it_taken_away_at_once(theatre, stuck):
    listed = theatre.ask("GET", f"/share-access-rules?share_id={stuck}")["access_list"]
    deny = {"deny_access": {"access_id": listed[0]["id"]}}
    path = f"/shares/{stuck}/action"
    headers = {"x-openstack-manila-api-version": stage.NEWEST}
    refused = theatre.world.ask("member", "POST", path, deny, **headers)
    assert refused.status == 403
    assert "attachments that are gone" in refused.body["forbidden"]["message"]
    theatre.ask("POST", path, deny, who="admin")
    theatre.settle()
    assert rules(theatre) == []
    assert let_in(theatre) == []


def test_what_an_administrator_denies_though_attachments_need_it_goes_with_them(theatre, attachment):
    listed = theatre.ask("GET", f"/share-access-rules?share_id={attachment['share_id']}")["access_list"]
    path = f"/shares/{attachment['share_id']}/action"
    theatre.ask("POST", path, {"deny_access": {"access_id": listed[0]["id"]}}, who="admin")
    theatre.settle()
    assert theatre.ask("GET", "//abaca/v1/attachments")["attachments"] == []
    assert rules(theatre) == []
    assert theatre.nodes.tables() == {}


@pytest.mark.parametrize(("waited_s", "pause_s"), [(0, 30), (31, 31), (500, 500), (99999, 3600)])
def test_the_pauses_grow_up_to_an_hour(waited_s, pause_s):
    failed_at = NOW + datetime.timedelta(seconds=waited_s)
    assert next_try_at(NOW, failed_at) == failed_at + datetime.timedelta(seconds=pause_s)
