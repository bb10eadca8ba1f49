# SPDX-License-Identifier: Apache-2.0
"""A worker is frozen inside a call of its driver; another does the work, the user goes on, the frozen one is thawed.

Then the back end is what the database says, for every kind of operation that works on one.
"""

import contextlib
import os
import signal
from pathlib import Path

import msgspec
import pytest

from abaca.journal import kinds
from abaca.operations.parts import BackEnd
from abaca.operations.registry import OPERATIONS
from tests.conftest import wait_until
from tests.databases import fast_directory, place
from tests.operations import frozen
from tests.operations import theatre as stage
from tests.operations.cases import CASES
from tests.operations.nursery import Nursery

ON_BACK_ENDS = sorted(kind for kind, what in OPERATIONS.items() if what.parts is BackEnd)
# How long the back end may differ after the last effect that came too late, in seconds.
MENDED_S = 10.0


@pytest.fixture(scope="module")
def nursery(tmp_path_factory):
    made = Nursery(tmp_path_factory.mktemp("nursery"), "tests.operations.frozen", "abaca.drivers.dummy")
    yield made
    made.close()


@pytest.fixture(scope="module")
def theatre(request, nursery):
    database, driver = request.param
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(fast_directory())
        made = place(database, directory, request)
        stack.callback(made.close)
        yield stage.Theatre(made, directory, nursery, stack, driver)


def undoes(what):
    """Whether its way back leads to the back end."""
    return any(step.undo not in (None, kinds.nothing) for step in what.steps if isinstance(step, kinds.Step))


def ways():
    for kind in ON_BACK_ENDS:
        yield pytest.param(kind, "forward", id=kind)
        if undoes(OPERATIONS[kind]):
            yield pytest.param(kind, "back", id=f"{kind}-on-the-way-back")


def test_every_kind_on_a_back_end_says_what_its_user_does_next():
    assert set(frozen.NEXT) == set(ON_BACK_ENDS)
    assert {kind for kind, (_, failed) in frozen.NEXT.items() if failed} == {
        kind for kind in ON_BACK_ENDS if undoes(OPERATIONS[kind])
    }


class Victim:
    """A worker that has begun an operation and stands still inside its call."""

    def __init__(self, child, gate, notes):
        self.child = child
        self.gate = gate
        self.notes = notes

    def has(self, word):
        return word in self.notes.read_text()

    def stop(self, theatre):
        """Not while it holds a lock of SQLite's, which would be held as long."""
        wait_until(lambda: self.has("begins"), 20, every_s=0.003)
        with theatre.db.write(), theatre.driver.state_file.change():
            self.child.send(signal.SIGSTOP)
            wait_until(lambda: self.state() == "T", every_s=0.001)

    def state(self):
        return Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()[0]

    def thaw(self):
        """It goes on, and its call has returned."""
        self.child.send(signal.SIGCONT)
        self.gate.write_text("go")
        wait_until(lambda: self.has("returned"), 20, every_s=0.003)


@pytest.fixture
def freeze(theatre, nursery, tmp_path):
    """`freeze(kind, way)`: a victim."""
    with contextlib.ExitStack() as stack:

        def freeze(kind, way):
            gate, notes = tmp_path / "gate", tmp_path / "notes"
            notes.touch()
            os.mkfifo(gate)
            what = OPERATIONS[kind]
            last = what.steps[what.pivot - 1].name
            child = nursery.start(
                "tests.operations.frozen:play",
                config=str(theatre.config),
                name="victim",
                freezes={"number": 1 if way == "forward" else 2, "gate": str(gate), "notes": str(notes)},
                arms={} if way == "forward" else {f"{kind}:{last}:inside": "final"},
                timing=msgspec.to_builtins(stage.HASTY),
            )
            stack.callback(child.kill)
            victim = Victim(child, gate, notes)
            victim.stop(theatre)
            return victim

        yield freeze


both = [
    pytest.param(("sqlite", "dummy"), id="sqlite"),
    pytest.param(("postgresql", "dummy"), id="postgresql", marks=pytest.mark.system),
]


@pytest.mark.parametrize("theatre", both, indirect=True)
@pytest.mark.parametrize(("kind", "way"), list(ways()))
def test_what_a_thawed_worker_does_too_late_does_not_stay(theatre, freeze, kind, way):
    theatre.ensure_actor()
    prepared = CASES[kind].prepare(theatre)
    theatre.leave()
    subject = CASES[kind].request(theatre, prepared)
    victim = freeze(kind, way)
    theatre.enter("another", timing=stage.HASTY)
    ended = theatre.until_ended(kind, subject)
    assert ended.state == ("done" if way == "forward" else "failed")
    share_id = frozen.share_of(prepared, subject)
    frozen.NEXT[kind][way == "back"](theatre, share_id)
    theatre.settle()
    victim.thaw()

    def differences():
        with theatre.db.read() as tx:
            return [*stage.stuck(tx), *stage.counted_wrong(tx), *theatre.differences(tx, share_id)]

    with contextlib.suppress(pytest.fail.Exception):
        wait_until(lambda: differences() == [], MENDED_S, every_s=0.01)
    assert differences() == []
