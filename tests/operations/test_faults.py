# SPDX-License-Identifier: Apache-2.0
"""Every operation is hurt at every moment, in every way: it ends, and what is left is what the database says.

Kinds are discovered, and so are their steps; a moment is before a step, inside it (its effect is there, nothing is
recorded yet) or after it, on the way forward, on the way back, and at the end of either. At each step of each case both
errors are raised at one moment, and at one of them something dies: which moments, what dies, and on which of the two
databases FAULTS_SEED draws. In `make thorough` everything happens at every moment on both.
"""

import contextlib
import itertools
import os
import random
import threading

import pytest

from abaca.journal.kinds import Operation
from abaca.operations.registry import OPERATIONS
from tests.closing import Concluded
from tests.conftest import PATIENCE_S, wait_until
from tests.databases import fast_directory, on_postgres, place
from tests.operations import beside
from tests.operations import theatre as stage
from tests.operations.cases import CASES
from tests.operations.nursery import Nursery

MOMENTS = ("before", "inside", "after")
DATABASES = ("sqlite", "postgresql")
DEATHS = ("comes back", "takes over", "database")
SEED = os.environ.get("FAULTS_SEED", "0")
IS_THOROUGH = bool(os.environ.get("FAULTS_THOROUGH"))
# what the closing line says of the cases
CHOSEN = "all" if IS_THOROUGH else f"moments, deaths and databases drawn by FAULTS_SEED={SEED}"


def forward(what: Operation):
    """The moments on the way that succeeds."""
    return [f"{what.kind}:{name}:{moment}" for name in (*names(what), "end") for moment in MOMENTS]


def backward(what: Operation):
    """The moments on the way back from a failure of the last step that has one."""
    way_back = [f"{name}:undo" for name in reversed(names(what)[: what.pivot])]
    return [f"{what.kind}:{name}:{moment}" for name in (*way_back, "end") for moment in MOMENTS]


def names(what):
    return [step.name for step in what.steps]


def failing(what):
    """Where a final error leads to the way back: the last step before the pivot has had its effect."""
    return f"{what.kind}:{names(what)[what.pivot - 1]}:inside"


def kind_of(case):
    return case.partition(" ")[0]


def ways():
    """Each case of each kind, whether it goes forward or back, and a moment on that way."""
    for case in sorted(CASES):
        what, more = OPERATIONS[kind_of(case)], case.partition(" ")[2]
        steps = CASES[case].steps
        on_way = {"forward": forward(what), "back": backward(what) if what.pivot > 0 else []}
        for way, points in on_way.items():
            for point in points:
                if not steps or point.split(":")[1] in steps:
                    words = [point, more, "on-the-way-back" if way == "back" else ""]
                    yield pytest.param(case, way, point, id="-".join(filter(None, words)))


def of_steps():
    """The moments of each step of each case, forward and back."""
    same_step = itertools.groupby(ways(), key=lambda one: (one.values[:2], one.values[2].rpartition(":")[0]))
    return [list(moments) for _, moments in same_step]


def raised_at(of):
    """One moment of each step, drawn by the seed, or all if all are wanted."""
    drawn = random.Random(f"{SEED} {of}")
    return list(ways()) if IS_THOROUGH else [drawn.choice(moments) for moments in of_steps()]


def dies_at(of):
    """Where it is this that dies: at one moment of each step something does, by turns, or all at all if that is wanted.

    With whom the turns of a case begin is drawn by the seed.
    """
    if IS_THOROUGH:
        return list(ways())
    drawn, found = random.Random(f"{SEED} deaths"), []
    for _, steps in itertools.groupby(of_steps(), key=lambda moments: moments[0].values[0]):
        first = drawn.randrange(len(DEATHS))
        chosen = [drawn.choice(moments) for moments in steps]
        found += chosen[(DEATHS.index(of) - first) % len(DEATHS) :: len(DEATHS)]
    return found


def on_databases(found, of, *, system=()):
    """Each on one of the databases, drawn by the seed, or on both if all are wanted; one database after the other.

    `system` says on which `make quick` leaves them out. What is hurt is one argument, another for each test: pytest
    puts those together that share one, and shall do so by the database alone.
    """
    drawn = random.Random(f"{SEED} {of} databases")
    places = [DATABASES if IS_THOROUGH else (drawn.choice(DATABASES),) for _ in found]
    return pytest.mark.parametrize(
        ("theatre", "hurt"),
        [
            pytest.param(
                name, (of, *one.values), id=f"{one.id}-{name}", marks=[pytest.mark.system] if name in system else []
            )
            for name in DATABASES
            for one, its in zip(found, places, strict=True)
            if name in its
        ],
        indirect=["theatre"],
        scope="module",  # without a word the theatre would be made anew for each, as the other argument is
    )


in_process = pytest.mark.parametrize("theatre", ["sqlite", on_postgres], indirect=True)


@pytest.fixture(scope="module")
def nursery(tmp_path_factory):
    made = Nursery(tmp_path_factory.mktemp("nursery"), "tests.operations.theatre", "abaca.drivers.dummy")
    yield made
    made.close()


@pytest.fixture(scope="module")
def theatre(request, nursery):
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(fast_directory())
        database = place(request.param, directory, request)
        stack.callback(database.close)
        yield stage.Theatre(database, directory, nursery, stack, makes_servers=True)


@pytest.fixture
def conclude(theatre, record_property):
    """`conclude(case, subject, fault, point)`: waits for the end, and compares; the run's closing line counts it."""

    def conclude(case, subject, fault, point):
        told = Concluded(point.rpartition(":")[0], fault, stuck=True, leaked=False, of=CHOSEN)
        try:
            ended = theatre.until_ended(kind_of(case), subject)
            theatre.settle()
            found = theatre.check(ended)
            stuck, leaked = (any(("stuck" in line) is one for line in found) for one in (True, False))
            told = told._replace(stuck=stuck, leaked=leaked)
        finally:
            record_property("concluded", [*told])
        assert found == []
        return ended

    return conclude


def begin(theatre, case):
    """What the operation needs, made by a healthy worker, which then leaves; then the request. Who it is about."""
    theatre.ensure_actor()
    prepared = CASES[case].prepare(theatre)
    theatre.leave()
    return CASES[case].request(theatre, prepared)


def arms(case, way, point, action):
    first = {failing(OPERATIONS[kind_of(case)]): "final"} if way == "back" else {}
    return {**first, point: action}


def armed(names):
    return stage.Arms({point: stage.ACTIONS[name] for point, name in names.items()})


def test_every_operation_has_a_case():
    assert {kind_of(case) for case in CASES} == set(OPERATIONS)


@on_databases(raised_at("final"), "final", system=["postgresql"])
def test_a_final_error_is_raised(theatre, conclude, hurt):
    _, case, way, point = hurt
    ended = raised(theatre, conclude, case, way, point, "final")
    assert way == "forward" or ended.state == "failed"


@on_databases(raised_at("passing"), "passing", system=DATABASES)
def test_a_passing_error_is_raised(theatre, conclude, hurt):
    _, case, way, point = hurt
    assert raised(theatre, conclude, case, way, point, "passing").state == ("failed" if way == "back" else "done")


def raised(theatre, conclude, case, way, point, error):
    subject = begin(theatre, case)
    faults = armed(arms(case, way, point, error))
    theatre.enter(arms=faults)
    ended = conclude(case, subject, error, point)
    # the last moment comes after the end that others see
    wait_until(lambda: faults.actions == {}, every_s=0.003)
    return ended


def kill(theatre, case, way, point, timing):
    subject = begin(theatre, case)
    child = theatre.kill_at(arms(case, way, point, "die"), timing)
    assert child.ends_within(), f"this moment never came: {child.explain()}"
    return subject


@on_databases(dies_at("comes back"), "comes back", system=DATABASES)
def test_its_worker_is_killed_and_comes_back(theatre, conclude, hurt):
    _, case, way, point = hurt
    subject = kill(theatre, case, way, point, stage.TIMING)
    theatre.enter()
    conclude(case, subject, "kill and restart", point)


@on_databases(dies_at("takes over"), "takes over", system=DATABASES)
def test_its_worker_is_killed_and_another_takes_over(theatre, conclude, hurt):
    _, case, way, point = hurt
    subject = kill(theatre, case, way, point, stage.HASTY)
    theatre.enter("another", timing=stage.HASTY)
    conclude(case, subject, "kill and take over", point)


@pytest.mark.parametrize("theatre", [on_postgres], indirect=True)
@pytest.mark.parametrize(("case", "way", "point"), dies_at("database"))
def test_the_database_crashes_and_comes_back(theatre, conclude, case, way, point):
    subject = begin(theatre, case)
    faults = armed(arms(case, way, point, "passing"))
    is_back = threading.Event()

    def crash():
        theatre.place.server.restart("immediate")
        is_back.set()

    faults.actions[point] = crash
    theatre.enter(arms=faults)
    assert is_back.wait(PATIENCE_S), "this moment never came"
    conclude(case, subject, "database restart", point)


@pytest.mark.parametrize("theatre", ["sqlite"], indirect=True)
@pytest.mark.parametrize("case", sorted(CASES))
def test_a_few_are_killed_in_the_quick_tests_too(theatre, conclude, case):
    point = failing(OPERATIONS[kind_of(case)])
    subject = kill(theatre, case, "forward", point, stage.TIMING)
    theatre.enter()
    assert conclude(case, subject, "kill and restart", point).state == "done"


@in_process
def test_after_all_of_that_every_share_is_as_the_database_says(theatre):
    theatre.ensure_actor()
    theatre.settle()
    with theatre.db.read() as tx:
        wrong = [*beside.share_servers_wrong(tx, theatre.drivers), *beside.snapshots_wrong(tx, theatre.drivers)]
        assert [*stage.stuck(tx), *stage.counted_wrong(tx), *theatre.differences(tx), *wrong] == []
