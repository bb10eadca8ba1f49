# SPDX-License-Identifier: Apache-2.0
"""Every operation is hurt at every moment, in every way: it ends, and what is left is what the database says.

Kinds are discovered, and so are their steps and the moments of these. At each step of each case an error is raised,
and at every other one something dies: at which moment, which error, what dies, and on which of the two databases
FAULTS_SEED draws. In `make thorough` everything happens at every moment on both.
"""

import contextlib
import random
import threading

import pytest

from abaca.operations.registry import OPERATIONS
from tests.conftest import PATIENCE_S
from tests.databases import fast_directory, on_postgres, place
from tests.operations import beside
from tests.operations import theatre as stage
from tests.operations.cases import CASES
from tests.operations.hurting import Hurting, armed, arms
from tests.operations.moments import CHOSEN, DATABASES, IS_THOROUGH, SEED, Moments, failing, kind_of
from tests.operations.nursery import Nursery

ERRORS = ("final", "passing")
DEATHS = ("comes back", "takes over", "database")
ALL = Moments(CASES, ERRORS, DEATHS)


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
def hurting(theatre, record_property):
    return Hurting(theatre, CASES, record_property, CHOSEN)


def test_every_operation_has_a_case():
    assert {kind_of(case) for case in CASES} == set(OPERATIONS)


@on_databases(ALL.raised_at("final"), "final", system=["postgresql"])
def test_a_final_error_is_raised(hurting, hurt):
    _, case, way, point = hurt
    ended = hurting.raised(case, way, point, "final")
    assert way == "forward" or ended.state == "failed"


@on_databases(ALL.raised_at("passing"), "passing", system=DATABASES)
def test_a_passing_error_is_raised(hurting, hurt):
    _, case, way, point = hurt
    assert hurting.raised(case, way, point, "passing").state == ("failed" if way == "back" else "done")


@on_databases(ALL.dies_at("comes back"), "comes back", system=DATABASES)
def test_its_worker_is_killed_and_comes_back(theatre, hurting, hurt):
    _, case, way, point = hurt
    subject = hurting.kill(case, way, point, stage.TIMING)
    theatre.enter()
    hurting.conclude(case, subject, "kill and restart", point)


@on_databases(ALL.dies_at("takes over"), "takes over", system=DATABASES)
def test_its_worker_is_killed_and_another_takes_over(theatre, hurting, hurt):
    _, case, way, point = hurt
    subject = hurting.kill(case, way, point, stage.HASTY)
    theatre.enter("another", timing=stage.HASTY)
    hurting.conclude(case, subject, "kill and take over", point)


@pytest.mark.parametrize("theatre", [on_postgres], indirect=True)
@pytest.mark.parametrize(("case", "way", "point"), ALL.dies_at("database"))
def test_the_database_crashes_and_comes_back(theatre, hurting, case, way, point):
    subject = hurting.begin(case)
    faults = armed(arms(case, way, point, "passing"))
    is_back = threading.Event()

    def crash():
        theatre.place.server.restart("immediate")
        is_back.set()

    faults.actions[point] = crash
    theatre.enter(arms=faults)
    assert is_back.wait(PATIENCE_S), "this moment never came"
    hurting.conclude(case, subject, "database restart", point)


@pytest.mark.parametrize("theatre", ["sqlite"], indirect=True)
@pytest.mark.parametrize("case", sorted(CASES))
def test_a_few_are_killed_in_the_quick_tests_too(theatre, hurting, case):
    point = failing(OPERATIONS[kind_of(case)])
    subject = hurting.kill(case, "forward", point, stage.TIMING)
    theatre.enter()
    assert hurting.conclude(case, subject, "kill and restart", point).state == "done"


@in_process
def test_after_all_of_that_every_share_is_as_the_database_says(theatre):
    theatre.ensure_actor()
    theatre.settle()
    with theatre.db.read() as tx:
        wrong = [*beside.share_servers_wrong(tx, theatre.drivers), *beside.snapshots_wrong(tx, theatre.drivers)]
        assert [*stage.stuck(tx), *stage.counted_wrong(tx), *theatre.differences(tx), *wrong] == []
