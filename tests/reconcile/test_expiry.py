# SPDX-License-Identifier: Apache-2.0
"""What has had its time goes, when the settings say so."""

import datetime
import time

import pytest

from abaca.db.administration import messages
from abaca.db.catalog import quotas
from abaca.db.engine.database import Database
from abaca.reconcile import expiry
from tests.api.world import world

KEPT_S = 3600


@pytest.fixture
def told(tmp_path):
    """A world in which a member has been told that no pool could take their share."""
    with world(tmp_path, worker=False, more=f"message_ttl = {KEPT_S}") as made:
        kind = {"name": "default", "extra_specs": {"driver_handles_share_servers": "False"}}
        assert made.ask("admin", "POST", "/types", {"share_type": kind}).status == 200
        assert made.ask("member", "POST", "/shares", {"share": {"share_proto": "NFS", "size": 1}}).status == 200
        yield made


def shown(world):
    newest = {"x-openstack-manila-api-version": "2.99"}
    return world.ask("member", "GET", "/messages", **newest).body["messages"]


def test_a_message_says_until_when_it_is_kept(told):
    (message,) = shown(told)
    created, expires = (datetime.datetime.fromisoformat(message[name]) for name in ("created_at", "expires_at"))
    assert expires - created == datetime.timedelta(seconds=KEPT_S)


@pytest.mark.parametrize(("after_s", "left"), [(KEPT_S - 60, 1), (KEPT_S + 60, 0)], ids=["before", "after"])
def test_a_message_goes_when_its_time_is_over(told, after_s, left):
    later = Database(told.settings.database_url, clock=lambda: time.time() + after_s)
    expiry.Expiry(later, (), keep_messages_s=told.settings.message_ttl, keep_operations_s=1, keep_events_s=1).messages()
    later.close()
    assert len(shown(told)) == left


def test_more_messages_go_than_fit_into_one_transaction(told):
    with told.db.write() as tx:
        for _ in range(expiry.BATCH + 1):
            about = messages.About("p", None, "SHARE", None)
            messages.record(tx, about, messages.Action.CREATE, messages.Detail.UNKNOWN_ERROR)
    later = Database(told.settings.database_url, clock=lambda: time.time() + KEPT_S + 60)
    expiry.Expiry(later, (), keep_messages_s=KEPT_S, keep_operations_s=1, keep_events_s=1).messages()
    later.close()
    assert told.number("SELECT count(*) FROM messages") == 0


def test_counts_of_nothing_are_looked_for_among_so_many_at_a_time_until_all_have_been(told):
    at_rest = told.number("SELECT count(*) FROM quota_usages")
    with told.db.write() as tx:
        for number in range(expiry.COUNTS):  # two counts each: the project's, and its user's
            quotas.take(tx, f"p{number}", "u", None, {"shares": 1}, {"shares": -1})
            quotas.give_back(tx, f"p{number}", "u", None, {"shares": 1})
    of_this = expiry.Expiry(told.db, (), keep_messages_s=1, keep_operations_s=1, keep_events_s=1)
    left = []
    for _ in range(3):
        of_this.counts()
        left.append(told.number("SELECT count(*) FROM quota_usages"))
    assert left == [pytest.approx(at_rest + expiry.COUNTS, abs=at_rest), pytest.approx(at_rest, abs=at_rest), at_rest]
    with told.db.write() as tx:
        quotas.take(tx, "a", "u", None, {"shares": 1}, {"shares": -1})
        quotas.give_back(tx, "a", "u", None, {"shares": 1})
    for _ in range(2):  # they begin anew
        of_this.counts()
    assert told.number("SELECT count(*) FROM quota_usages") == at_rest
