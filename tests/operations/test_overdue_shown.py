# SPDX-License-Identifier: Apache-2.0
"""A driver call that hangs is seen by whoever looks: at the operation, at the metrics, in the log."""

import contextlib

import msgspec
import pytest

from abaca.app.figures import Queues
from abaca.operations.registry import OPERATIONS
from tests.conftest import wait_until
from tests.databases import database, postgres  # noqa: F401 (fixtures)
from tests.operations import cases
from tests.operations.bench import Gate
from tests.operations.theatre import Theatre

KIND = "share-create"
HOST = "testhost@alpha"


@pytest.fixture
def theatre(database, tmp_path):  # noqa: F811
    with contextlib.ExitStack() as stack:
        yield Theatre(database, tmp_path, None, stack)


def overdue(theatre):
    """What the metric says, of what there is of it."""
    found = {one.name: one for one in Queues(theatre.db).collect()}
    return [(one.labels, one.value) for one in found["abaca_operations_overdue"].samples if one.value]


def test_a_call_that_hangs_is_shown_counted_and_logged(theatre, caplog):
    gate = Gate()
    worker = theatre.enter()
    (step,) = OPERATIONS[KIND].steps

    def hanging(op):
        gate.wait()
        step.do(op)

    hanging.__name__ = step.name
    slow = msgspec.structs.replace(step, do=hanging, within_s=0.05)
    worker.operations = {**OPERATIONS, KIND: msgspec.structs.replace(OPERATIONS[KIND], steps=(slow,))}
    share_id = cases.new_share(theatre, None)

    def shown():
        (found,) = theatre.ask("GET", f"//abaca/v1/operations?resource_id={share_id}", who="admin")["operations"]
        return found["overdue_since"]

    assert wait_until(shown) is not None
    assert overdue(theatre) == [({"queue": HOST, "kind": KIND}, 1.0)]
    assert f"kind={KIND} {step.name} takes longer than the 0.05 s that it may" in caplog.text
    gate.opened.set()
    theatre.settle()
    assert (theatre.status(share_id), shown(), overdue(theatre)) == ("available", None, [])
