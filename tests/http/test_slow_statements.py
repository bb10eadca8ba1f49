# SPDX-License-Identifier: Apache-2.0
"""A request whose statement would take the database for ever is answered in time, says why, and changes nothing."""

import threading
import time

import pytest
import sqlalchemy as sa

from abaca.db.engine.limits import PATIENCE_S
from tests.api.world import world
from tests.conftest import wait_until

LIMITS = "[database]\nlook_limit_s = 0.1\nchange_limit_s = 0.2"
# Rows without end: who looks at messages reads all of them, and whoever adds a share type does.
ENDLESS = (
    "CREATE VIEW endless AS WITH RECURSIVE up(n) AS (SELECT 1 UNION ALL SELECT n + 1 - n FROM up) SELECT n FROM up",
    "ALTER TABLE messages RENAME TO some_messages",
    "CREATE VIEW messages AS SELECT some_messages.* FROM endless LEFT JOIN some_messages ON n = 0",
    "CREATE TRIGGER slow BEFORE INSERT ON share_types BEGIN SELECT count(*) FROM endless; END",
)
NEWEST = {"x-openstack-manila-api-version": "2.51"}
TYPE = {"share_type": {"name": "slow", "extra_specs": {"driver_handles_share_servers": "false"}}}


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    with world(tmp_path_factory.mktemp("slow"), worker=False, more=f"[api]\nthreads = 4\n{LIMITS}") as made:
        with made.db.write() as tx:
            for statement in ENDLESS:
                tx.execute(sa.text(statement))
        yield made


@pytest.mark.parametrize(("method", "path", "body"), [("GET", "/messages", None), ("POST", "/types", TYPE)])
def test_what_would_never_end_is_answered_in_time_with_the_reason(slow, method, path, body):
    for _ in range(2):
        begun_s = time.monotonic()
        answer = slow.ask("admin", method, path, body, **NEWEST)
        assert time.monotonic() - begun_s < 20
        assert answer.status == 503
        (fault,) = answer.body.values()
        assert fault["code"] == 503
        assert "longer than a request may" in fault["message"]
        assert "nothing has changed" in fault["message"]
    assert slow.number("SELECT count(*) FROM share_types WHERE name = 'slow'") == 0
    assert slow.ask("admin", "GET", "/share-networks").status == 200


@pytest.mark.parametrize(
    "much",
    [
        "/shares?with_count=true",
        "/shares/detail?offset=10000",
        *(
            f"/shares/detail?sort_key={name}"
            for name in ("share_type_id", "availability_zone", "snapshot_id", "status")
        ),
        "/snapshots/detail?sort_key=status",
        "/shares?share_proto=NFS&name=any",
        "/shares?name~=ab",
        "/shares?status=available",
        "//abaca/v1/events?with_count=true",
    ],
)
def test_who_asks_for_much_while_another_takes_long_is_told_to_come_again(slow, much):
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(slow.ask("admin", "GET", much, **NEWEST))) for _ in range(3)
    ]
    with slow.db.read() as tx, tx.turn():
        for thread in threads:
            thread.start()
        wait_until(lambda: len(answers) == 2)
        assert slow.ask("member", "GET", "/shares").status == 200
    for thread in threads:
        thread.join(60)
    assert [answer.status for answer in answers] == [503, 503, 200]
    (fault,) = answers[0].body.values()
    assert "served first" in fault["message"]


def test_of_two_threads_one_stays_for_those_who_ask_for_little(tmp_path):
    with world(tmp_path, worker=False, more="[api]\nthreads = 2") as made, made.db.read() as tx, tx.turn():
        begun_s = time.monotonic()
        answer = made.ask("admin", "GET", "/shares?with_count=true", **NEWEST)
        assert time.monotonic() - begun_s < PATIENCE_S  # for so long it would have a thread
        assert (answer.status, "served first" in answer.body["serviceUnavailable"]["message"]) == (503, True)
        assert made.ask("member", "GET", "/shares").status == 200
