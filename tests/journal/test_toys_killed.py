# SPDX-License-Identifier: Apache-2.0
"""Toys whose worker process is killed at every moment: it comes back, or another goes on."""

import pytest

from tests.databases import on_postgres
from tests.journal import scenes
from tests.journal.ground import HASTY, TIMING

with_processes = pytest.mark.parametrize(
    "ground", [pytest.param("sqlite", marks=pytest.mark.system), on_postgres], indirect=True
)


def kill(ground, play, case, timing):
    played = play(case.scene)
    child = ground.victim({**dict.fromkeys(case.way.armed, "final"), case.point: "die"}, timing)
    assert child.ends_within(), f"this moment never came: {child.explain()}"
    return played


@with_processes
@pytest.mark.parametrize("case", scenes.cases(20, "come back"))
def test_it_comes_back(ground, play, conclude, case):
    played = kill(ground, play, case, TIMING)
    ground.enter()
    conclude(played, case, "kill and restart")


@with_processes
@pytest.mark.parametrize("case", scenes.cases(20, "take over"))
def test_another_takes_over(ground, play, conclude, case):
    played = kill(ground, play, case, HASTY)
    ground.enter("another", timing=HASTY)
    conclude(played, case, "kill and take over")


@pytest.mark.parametrize("ground", ["sqlite"], indirect=True)
@pytest.mark.parametrize("name", list(scenes.SCENES))
def test_a_few_are_killed_in_the_quick_tests_too(ground, play, conclude, name):
    way = scenes.SCENES[name].ways[0]
    case = scenes.Case(name, way, next(point for point in way.points if ":inside" in point))
    played = kill(ground, play, case, TIMING)
    ground.enter()
    conclude(played, case, "kill and restart")
