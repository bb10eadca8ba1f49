# SPDX-License-Identifier: Apache-2.0
"""Messages are found by what they are about, and go when their time is over."""

import pytest

from abaca.db.administration import messages
from abaca.db.engine.database import Database
from abaca.db.engine.lists import Page
from abaca.domain.administration.messages import Action, Detail


class Clock:
    now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def db(database, clock):
    opened = Database(database.url, clock=clock)
    yield opened
    opened.close()


def record(db, resource_id, action=Action.CREATE, detail=Detail.UNKNOWN_ERROR, **options):
    with db.write() as tx:
        about = messages.About("p", f"req-{resource_id}", "SHARE", resource_id)
        return messages.record(tx, about, action, detail, **options)


def found(db, **asked):
    with db.read() as tx:
        rows = messages.MESSAGES.rows(tx, ("resource_id",), asked, Page(limit=10, sort_key="created_at"))
    return [row.resource_id for row in rows]


def test_messages_are_found_by_what_they_are_about(db, clock):
    record(db, "s1")
    clock.now += 10
    message = record(db, "s2", Action.ALLOCATE_HOST, Detail.FILTER_CAPACITY, reason="why")
    assert found(db) == ["s2", "s1"]
    assert found(db, resource_id="s1") == found(db, request_id="req-s1") == found(db, action_id="002") == ["s1"]
    assert found(db, detail_id="009") == found(db, id=message) == ["s2"]
    assert found(db, message_level="ERROR", resource_type="SHARE", project_id="p") == ["s2", "s1"]
    with db.read() as tx:
        between = tx.now
    assert found(db, created_since=between) == ["s2"]
    assert found(db, project_id="q") == []


def test_messages_go_when_their_time_is_over(db, clock):
    record(db, "s1")
    clock.now += 60
    record(db, "s2")
    clock.now += 1
    with db.write() as tx:
        assert messages.expire(tx, keep_s=60) == 1
        assert messages.expire(tx, keep_s=60) == 0
    assert found(db) == ["s2"]


def test_many_messages_go_in_portions(db, clock):
    for number in range(5):
        record(db, str(number))
    clock.now += 2
    with db.write() as tx:
        assert [messages.expire(tx, keep_s=1, most=2) for _ in range(4)] == [2, 2, 1, 0]


def test_a_message_is_deleted_once(db):
    message = record(db, "s1")
    with db.write() as tx:
        assert messages.delete(tx, message)
        assert not messages.delete(tx, message)
