# SPDX-License-Identifier: Apache-2.0
"""Operations on GlusterFS are hurt, over doubles of Heketi and of the nodes: no volume, brick, key or copy is left.

In each case an error is raised, and its worker dies, at a moment of a step that FAULTS_SEED draws; in `make thorough`
both errors are and in both ways, at one of every step. Its worker is killed too in the middle of what it says to Heketi
and to nodes, and Heketi while it is at what it was told to do.
"""

import contextlib
import itertools
import random

import pytest

from abaca.db.journal import operations as rows
from tests.conftest import wait_until
from tests.databases import fast_directory, place
from tests.operations import theatre as stage
from tests.operations.gluster_cases import CASES, ON_ALL, GlusterTheatre
from tests.operations.hurting import Hurting
from tests.operations.moments import CHOSEN, IS_THOROUGH, SEED, Moments, kind_of
from tests.operations.nursery import Nursery

pytestmark = pytest.mark.system

# Of what is said for one operation so much is cut short, once before its effect and once after it.
CUTS = 20 if IS_THOROUGH else 1
# What Heketi is told to do for these takes it a while.
LONG = ("share-clone", "share-create", "share-delete", "share-extend")


ERRORS = ("final", "passing")
DEATHS = ("comes back", "takes over")


def at(of, among):
    """Where it is this that happens: at one moment of each step, or of one step of each case that has drawn it."""
    drawn = random.Random(f"{SEED} {of}")
    found = [drawn.choice(moments) for moments in Moments(CASES, ERRORS, DEATHS).of_steps()]
    if not IS_THOROUGH:
        turn = random.Random(f"{SEED} {among}")
        of_cases = [list(its) for _, its in itertools.groupby(found, key=lambda one: one.values[0])]
        found = [drawn.choice(its) for its in of_cases if turn.choice(among) == of]
    return with_stage([pytest.param((of, *one.values), id=one.id) for one in found])


def with_stage(hurt):
    """All of them, by where they are played: what is about all volumes where there is one."""
    found = [("all" if one.values[0][1] in ON_ALL else "each", one) for one in hurt]
    return pytest.mark.parametrize(
        ("theatre", "hurt"),
        [pytest.param(where, *one.values, id=one.id) for where, one in sorted(found, key=lambda pair: pair[0])],
        indirect=["theatre"],
        scope="module",
    )


@pytest.fixture(scope="module")
def nursery(tmp_path_factory):
    made = Nursery(tmp_path_factory.mktemp("nursery"), "tests.operations.theatre", "abaca.drivers.glusterfs.driver")
    yield made
    made.close()


@pytest.fixture(scope="module")
def theatre(request, nursery):
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(fast_directory())
        database = place("sqlite", directory, request)
        stack.callback(database.close)
        yield GlusterTheatre(database, directory, nursery, stack)


@pytest.fixture
def hurting(theatre, record_property):
    return Hurting(theatre, CASES, record_property, CHOSEN)


@at("final", ERRORS)
def test_a_final_error_is_raised(hurting, hurt):
    _, case, way, point = hurt
    ended = hurting.raised(case, way, point, "final")
    assert way == "forward" or ended.state == "failed"


@at("passing", ERRORS)
def test_a_passing_error_is_raised(hurting, hurt):
    _, case, way, point = hurt
    assert hurting.raised(case, way, point, "passing").state == ("failed" if way == "back" else "done")


@at("comes back", DEATHS)
def test_its_worker_is_killed_and_comes_back(theatre, hurting, hurt):
    _, case, way, point = hurt
    subject = hurting.kill(case, way, point, stage.TIMING)
    theatre.enter()
    hurting.conclude(case, subject, "kill and restart", point)


@at("takes over", DEATHS)
def test_its_worker_is_killed_and_another_takes_over(theatre, hurting, hurt):
    _, case, way, point = hurt
    subject = hurting.kill(case, way, point, stage.HASTY)
    theatre.enter("another", timing=stage.HASTY)
    hurting.conclude(case, subject, "kill and take over", point)


class Listening:
    """Counts what is said to Heketi and to nodes, before each effect and after it; at the `number`th it acts."""

    def __init__(self, bed, number=0, act=lambda: None):
        self.bed = bed
        self.number = number
        self.act = act
        self.count = 0

    def __enter__(self):
        self.bed.heketi.on_request = self.bed.nodes.on_command = self._heard
        return self

    def __exit__(self, *_exception):
        self.bed.heketi.on_request = self.bed.nodes.on_command = lambda: None

    def _heard(self):
        self.count += 1
        if self.count == self.number:
            self.act()


@pytest.fixture(scope="module")
def said():
    """How much is said for a case that nothing happens to, once that is known."""
    return {}


def undisturbed(theatre, hurting, said, case):
    if case not in said:
        subject = hurting.begin(case)
        with Listening(theatre.bed) as listening:
            theatre.enter()
            ended = theatre.until_ended(kind_of(case), subject)
            theatre.settle()
        assert (ended.state, theatre.check(ended)) == ("done", [])
        said[case] = listening.count
    return said[case]


def has_ended(theatre, case, subject):
    return theatre.operation(kind_of(case), subject).state in rows.ENDED


@with_stage([pytest.param((turn, case), id=f"{case}-{turn}") for case in sorted(CASES) for turn in range(CUTS)])
def test_its_worker_is_killed_in_the_middle_of_what_it_says(theatre, hurting, said, hurt):
    turn, case = hurt
    most = undisturbed(theatre, hurting, said, case)
    number = random.Random(f"{SEED} {case} {turn}").randint(1, max(1, most - 1))
    subject = hurting.begin(case)
    killed = []
    with Listening(theatre.bed, number, lambda: killed.append(child.send(9))):
        child = theatre.kill_at({}, stage.TIMING)
        try:
            wait_until(lambda: killed or has_ended(theatre, case, subject), every_s=0.003)
        finally:
            child.kill()
    theatre.enter()
    hurting.conclude(case, subject, "killed in a call", f"{kind_of(case)}:call:{number}")


@with_stage([pytest.param(("Heketi", case), id=case) for case in LONG])
def test_heketi_is_killed_while_it_is_at_it(theatre, hurting, hurt):
    _, case = hurt
    heketi = theatre.bed.heketi
    subject = hurting.begin(case)
    heketi.is_held = True
    try:
        theatre.enter()
        wait_until(lambda: any(not one.is_ended for one in heketi.works.values()), every_s=0.003)
    finally:
        heketi.restart()
        heketi.is_held = False
    assert hurting.conclude(case, subject, "Heketi killed", f"{kind_of(case)}:work:").state == "done"


@pytest.mark.parametrize("theatre", ["all", "each"], indirect=True)
def test_after_all_of_that_every_share_is_as_the_database_says(theatre):
    theatre.ensure_actor()
    theatre.settle()
    with theatre.db.read() as tx:
        assert [*stage.stuck(tx), *stage.counted_wrong(tx), *theatre.differences(tx), *theatre.left()] == []
