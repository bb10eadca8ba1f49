# SPDX-License-Identifier: Apache-2.0
"""A worker is frozen inside a call of its driver; another does the work, the user goes on, the frozen one is thawed.

Then the back end is what the database says, for every kind of operation that works on one.
"""

import contextlib
import itertools
import os
import random

import msgspec
import pytest
import sqlalchemy as sa

from abaca.db.attachments import attachments as attachment_rows
from abaca.db.journal import operations as rows
from abaca.db.shares import shares
from abaca.db.tables.attachments import attachments, orphaned_mounts
from abaca.journal import kinds
from abaca.operations.attachments import attachment_attach
from abaca.operations.attachments.attachment_parts import QUEUE, AttachmentParts
from abaca.operations.parts import BackEnd, ServerHost
from abaca.operations.registry import OPERATIONS
from abaca.reconcile.orphaned_mounts import OrphanedMounts
from lab import processes
from tests.conftest import wait_until
from tests.databases import fast_directory, place
from tests.operations import beside, cases, frozen
from tests.operations import theatre as stage
from tests.operations.cases import CASES
from tests.operations.moments import DATABASES, IS_THOROUGH, SEED
from tests.operations.nursery import Nursery

ON_BACK_ENDS = sorted(kind for kind, what in OPERATIONS.items() if what.parts in (BackEnd, ServerHost))
ON_SHARE_SERVERS = {kind for kind in ON_BACK_ENDS if OPERATIONS[kind].parts is ServerHost}
# It sees by itself what waits since before its life, or for a time.
SUCCESSOR = msgspec.structs.replace(stage.TIMING, poll_s=0.2, lease_s=0.5)
# How long the back end may differ after the last effect that came too late, in seconds.
MENDED_S = 20.0


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
        yield stage.Theatre(made, directory, nursery, stack, driver, makes_servers=True)


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
        wait_until(lambda: self.has("begins"), every_s=0.003)
        alpha, served = theatre.drivers
        with theatre.db.write(), alpha.state_file.change(), served.state_file.change():
            processes.freeze(self.child.pid)
        wait_until(lambda: lease_is_over(theatre), every_s=0.005)

    def thaw(self):
        """It goes on, its call has returned, and it has ended: whatever comes of that is there, or queued."""
        processes.thaw(self.child.pid)
        self.gate.write_text("go")
        assert self.child.ends_within(), self.child.explain()
        assert self.has("returned")


def lease_is_over(theatre):
    with theatre.db.read() as tx:
        found = rows.find(tx, state="running")
    return [row.lease_until < theatre.db.time() for row in found] == [True]


@pytest.fixture
def freeze(theatre, nursery, tmp_path):
    """`freeze(kind, way)`: a victim."""
    with contextlib.ExitStack() as stack:

        def freeze(kind, way, at="back ends", number=None):
            gate, notes = tmp_path / "gate", tmp_path / "notes"
            notes.touch()
            os.mkfifo(gate)
            what = OPERATIONS[kind]
            last = what.steps[what.pivot - 1].name
            if number is None:
                number = 1 if way == "forward" else frozen.FIRST_BACK.get(kind, 2)
            child = nursery.start(
                "tests.operations.frozen:play",
                config=str(theatre.config),
                name="victim",
                freezes={"number": number, "gate": str(gate), "notes": str(notes)},
                arms={} if way == "forward" else {f"{kind}:{last}:inside": "final"},
                timing=msgspec.to_builtins(stage.HASTY),
                at=at,
            )
            stack.callback(child.kill)
            victim = Victim(child, gate, notes)
            victim.stop(theatre)
            return victim

        yield freeze


FENCES = {"dummy": "", "dummy_each": "-unfenced"}


def everywhere():
    """Each way on one of both drivers, `dummy` that refuses what comes too late and `dummy_each` that does it.

    With the database they are drawn by FAULTS_SEED; if all are wanted, each way is on both and on both databases.
    """
    stands = [*itertools.product(DATABASES, FENCES)]
    drawn, found = random.Random(f"{SEED} frozen"), []
    its = [(way, stands if IS_THOROUGH else [drawn.choice(stands)]) for way in ways()]
    for one in stands:  # those on one stage together
        name, driver = one
        marks = [pytest.mark.system] if name == "postgresql" else []
        found += [
            pytest.param(one, (one, *way.values), id=f"{way.id}-{name}{FENCES[driver]}", marks=marks)
            for way, on in its
            if one in on
        ]
    return found


@pytest.mark.parametrize(("theatre", "frozen_in"), everywhere(), indirect=["theatre"], scope="module")
def test_what_a_thawed_worker_does_too_late_does_not_stay(theatre, freeze, frozen_in):
    _, kind, way = frozen_in
    theatre.ensure_actor()
    prepared = frozen.PREPARE.get(kind, CASES[kind].prepare)(theatre)
    theatre.leave()
    subject = frozen.REQUEST.get(kind, CASES[kind].request)(theatre, prepared)
    begun = theatre.operation(kind, subject)
    victim = freeze(kind, way)
    theatre.enter("another", timing=SUCCESSOR)
    assert ended(theatre, begun).state == ("done" if way == "forward" else "failed")
    share_id = None if kind in ON_SHARE_SERVERS else frozen.share_of(kind, prepared, subject)
    frozen.NEXT[kind][way == "back"](theatre, share_id)
    theatre.settle()
    victim.thaw()
    assert_settled(theatre, share_id)


def ended(theatre, begun):
    """That operation, when it has: others of its kind may have come after it."""

    def is_over():
        with contextlib.suppress(sa.exc.OperationalError), theatre.db.read() as tx:
            found = rows.show(tx, begun.id)
            return found if found.state in rows.ENDED else None

    return wait_until(is_over, every_s=0.003)


def assert_settled(theatre, share_id):
    """Soon nothing is under way, and the back end is what the database says."""

    def differences():
        with theatre.db.read() as tx:
            wrong = [*stage.stuck(tx), *stage.counted_wrong(tx), *beside.snapshots_wrong(tx, [theatre.driver])]
            wrong += beside.share_servers_wrong(tx, theatre.drivers)
            # looks after late calls, too: the next test's victim would take them up
            wrong += [f"under way: {row.kind}" for row in rows.find(tx, live=True)]
            return [*wrong, *theatre.differences(tx, share_id)]

    with contextlib.suppress(pytest.fail.Exception):
        wait_until(lambda: differences() == [], MENDED_S, every_s=0.05)
    assert differences() == []


def create_late(theatre, instance):
    theatre.driver.create(instance)


def grow_late(theatre, instance):
    theatre.driver.extend(instance, 9)


@pytest.mark.parametrize(("kind", "late"), [("share-create", create_late), ("share-extend", grow_late)])
@pytest.mark.parametrize("theatre", [pytest.param(("sqlite", "dummy_each"), id="sqlite-unfenced")], indirect=True)
def test_a_frozen_worker_that_dies_right_after_its_late_effect_is_looked_after(theatre, freeze, kind, late):
    theatre.ensure_actor()
    prepared = CASES[kind].prepare(theatre)
    theatre.leave()
    subject = CASES[kind].request(theatre, prepared)
    victim = freeze(kind, "forward")
    theatre.enter("another", timing=SUCCESSOR)
    theatre.until_ended(kind, subject)
    share_id = frozen.share_of(kind, prepared, subject)
    instance = cases.instance_of(theatre, share_id)
    if kind == "share-create":
        cases.delete(theatre, share_id)
        theatre.until_ended("share-delete", share_id)
    victim.child.kill()
    late(theatre, instance)
    assert_settled(theatre, share_id)


def test_every_kind_on_machines_says_what_its_user_does_next():
    of_queue = {kind for kind, what in OPERATIONS.items() if what.parts is AttachmentParts}
    assert {case.split()[0] for case in frozen.ON_MACHINES} == of_queue - frozen.IN_THE_DATABASE


def on_machines():
    drawn = random.Random(f"{SEED} frozen on machines")
    for case, (_, back) in frozen.ON_MACHINES.items():
        for way in ("forward", "back")[: 1 if back is None else 2]:
            for name in DATABASES if IS_THOROUGH else (drawn.choice(DATABASES),):
                marks = [pytest.mark.system] if name == "postgresql" else []
                yield pytest.param((name, "dummy"), (case, way), id=f"{case}-{way}-{name}", marks=marks)


@pytest.mark.parametrize(("theatre", "frozen_in"), [*on_machines()], indirect=["theatre"], scope="module")
def test_what_a_thawed_worker_does_too_late_on_a_machine_does_not_stay(theatre, freeze, frozen_in):
    case, way = frozen_in
    kind = case.split()[0]
    number, go_on = frozen.ON_MACHINES[case][way == "back"]
    theatre.ensure_actor()
    prepared = CASES[case].prepare(theatre)
    if isinstance(prepared, str):
        known = theatre.ask("GET", f"//abaca/v1/attachments/{prepared}")["attachment"]
        theatre.attached = {name: known[name] for name in ("share_id", "server_id", "mode", "mount_point")}
    theatre.leave()
    subject = CASES[case].request(theatre, prepared)
    begun = theatre.operation(kind, subject)
    victim = freeze(kind, way, "machines", number)
    theatre.enter("another", timing=SUCCESSOR)
    assert ended(theatre, begun).state == ("done" if way == "forward" else "failed")
    go_on(theatre, prepared if kind == "attachment-explain" else subject)
    theatre.settle()
    victim.thaw()
    assert_as_attached(theatre)


@pytest.mark.parametrize("theatre", [pytest.param(("sqlite", "dummy"), id="sqlite")], indirect=True)
def test_a_frozen_worker_that_dies_right_after_its_late_mount_is_looked_after(theatre, freeze):
    case = CASES["attachment-attach by address"]
    theatre.ensure_actor()
    prepared = case.prepare(theatre)
    theatre.leave()
    attachment_id = case.request(theatre, prepared)
    victim = freeze("attachment-attach", "forward", "machines")
    theatre.enter("another", timing=SUCCESSOR)
    theatre.until_ended("attachment-attach", attachment_id)
    with theatre.db.read() as tx:
        row = attachment_rows.show(tx, attachment_id)
        plan = attachment_attach.plan_of(tx, row, shares.find(tx, row.share_id))
    login, guest = theatre.acting.queues[QUEUE].parts.way(plan.server_id, plan.mode, plan.tag)
    cases.detach(theatre, attachment_id)
    theatre.until_ended("attachment-detach", attachment_id)
    victim.child.kill()
    theatre.nodes.mount(login, attachment_attach.mount_of(plan, plan.wanted_source, guest))
    assert_as_attached(theatre)


def assert_as_attached(theatre):
    """Soon the machines have what the attachments say, and nothing else is left to be taken away there."""
    sweeping = OrphanedMounts(theatre.db, theatre.acting.queues[QUEUE].parts)

    def differences():
        sweeping.sweep()  # as a worker does every few seconds
        with theatre.db.read() as tx:
            left = [f"left: {row.id}" for row in tx.rows(sa.select(orphaned_mounts))]
            off = [f"{row.id} is {row.state}" for row in tx.rows(sa.select(attachments)) if row.state != "active"]
            # looks after late calls, too: the next test counts calls to machines
            live = [f"under way: {row.kind}" for row in rows.find(tx, live=True)]
            return [*stage.stuck(tx), *stage.left_on_servers(tx, theatre.nodes), *left, *off, *live]

    with contextlib.suppress(pytest.fail.Exception):
        wait_until(lambda: differences() == [], MENDED_S, every_s=0.05)
    assert differences() == []
