# SPDX-License-Identifier: Apache-2.0
"""A worker that is stopped while it works on a machine leaves the rest to the next, whatever it was doing."""

import msgspec
import pytest

from abaca import app
from abaca.compute.inventory import Inventory
from abaca.db.attachments import attachments
from abaca.operations.attachments.attachment_attach import OPERATION
from abaca.operations.attachments.attachment_parts import AttachmentParts
from abaca.reconcile.attachments import Attachments
from tests.conftest import wait_until
from tests.operations import cases
from tests.operations import theatre as stage
from tests.reconcile.test_attachments import shown

MOUNTS = [step.name for step in OPERATION.steps].index("mount_on_server")


@pytest.mark.parametrize(("method", "ask"), [("mount", cases.attach), ("unmount", cases.detach)])
def test_a_worker_that_is_stopped_in_the_middle_leaves_the_rest_to_the_next(theatre, method, ask):
    prepared = (cases.a_share_and_a_server if method == "mount" else cases.an_attachment)(theatre)
    at_ease = theatre.stage.settings
    slow = msgspec.structs.replace(at_ease.nodes, rehearsal_delays={method: 1.0})
    theatre.stage.settings = at_ease.changed(nodes=slow)
    theatre.enter(timing=msgspec.structs.replace(stage.TIMING, grace_s=0.0))
    attachment_id = ask(theatre, prepared)
    kind, step = {"mount": ("attach", MOUNTS), "unmount": ("detach", 0)}[method]

    def is_under_way():
        row = theatre.operation(f"attachment-{kind}", attachment_id)
        return (row.state, row.step) == ("running", step)

    wait_until(is_under_way, every_s=0.002)
    theatre.leave()
    left = wait_until(lambda: released(theatre, f"attachment-{kind}", attachment_id))
    assert (left.state, left.direction, left.step, left.error_code) == ("queued", "do", step, None)
    assert shown(theatre, attachment_id)["error"] is None
    theatre.stage.settings = at_ease
    theatre.enter()
    theatre.settle()


def test_a_worker_that_is_stopped_while_it_takes_back_leaves_that_to_the_next(theatre):
    prepared = cases.a_share_and_a_server(theatre)
    at_ease = theatre.stage.settings
    failing = {"rehearsal_failures": ("mount:MountRefused",), "rehearsal_delays": {"unmount": 1.0}}
    theatre.stage.settings = at_ease.changed(nodes=msgspec.structs.replace(at_ease.nodes, **failing))
    theatre.enter(timing=msgspec.structs.replace(stage.TIMING, grace_s=0.0))
    attachment_id = cases.attach(theatre, prepared)

    def takes_back():
        row = theatre.operation("attachment-attach", attachment_id)
        return (row.state, row.direction) == ("running", "undo")

    wait_until(takes_back, every_s=0.002)
    theatre.leave()
    left = wait_until(lambda: released(theatre, "attachment-attach", attachment_id))
    assert (left.state, left.direction, left.step, left.attempt) == ("queued", "undo", MOUNTS, 0)
    assert left.error_code == "MountRefused"
    theatre.stage.settings = at_ease
    theatre.enter()
    theatre.settle()


def test_a_worker_that_is_stopped_while_it_looks_says_nothing_of_what_it_looked_at(theatre):
    attachment_id = cases.an_attachment(theatre)
    since = theatre.db.now()
    stopping = app.nodes(theatre.stage.settings)
    stopping.close()
    assert look(theatre, stopping) == 1
    seen = shown(theatre, attachment_id)
    assert (seen["state"], seen["error"], unseen(theatre, since)) == ("active", None, [attachment_id])
    assert look(theatre, theatre.nodes) == 1
    assert unseen(theatre, since) == []


def look(theatre, nodes):
    """How many attachments a worker has looked at with such means."""
    return Attachments(theatre.db, AttachmentParts(Inventory(theatre.db), nodes), verify_interval_s=0).verify()


def unseen(theatre, since):
    with theatre.db.read() as tx:
        return [row.id for row in attachments.unverified(tx, since, 10)]


def released(theatre, kind, attachment_id):
    """The operation when nobody holds it."""
    row = theatre.operation(kind, attachment_id)
    return row if row.owner is None else None
