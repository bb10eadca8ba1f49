# SPDX-License-Identifier: Apache-2.0
"""An attachment whose access rules do not come says which work keeps them."""

import threading

import msgspec

from abaca.db.attachments import attachments as rows
from abaca.db.journal import waits
from tests.conftest import wait_until
from tests.operations import cases
from tests.operations import theatre as stage


def test_what_waits_for_a_back_end_that_hangs_says_for_which_work(theatre):
    share_id, server_id = cases.a_share_and_a_server(theatre)
    answers = threading.Event()

    def hang():
        assert answers.wait(60)

    hasty = msgspec.structs.replace(stage.TIMING, poll_s=0.1)
    theatre.enter(timing=hasty, arms=stage.Arms({"access-rules-sync:apply_rules:before": hang}))
    attachment_id = cases.attach(theatre, (share_id, server_id))
    wait_until(lambda: theatre.operation("access-rules-sync", share_id).state == "running")
    with theatre.db.write() as tx:
        waits.signal(tx, rows.rules_condition(share_id))  # it looks again, as it does by itself after a while

    def said():
        return (theatre.operation("attachment-attach", attachment_id).wait or {}).get("what", "")

    wait_until(lambda: "access-rules-sync of testhost@alpha" in said())
    assert f"(operation {theatre.operation('access-rules-sync', share_id).id})" in said()
    answers.set()
    theatre.settle()
    assert theatre.ask("GET", f"//abaca/v1/attachments/{attachment_id}")["attachment"]["state"] == "active"
