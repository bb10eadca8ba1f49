# SPDX-License-Identifier: Apache-2.0
"""Toys that use every ability of the journal, straight and with an error at every moment: they leave nothing."""

import pytest

from tests.conftest import wait_until
from tests.databases import on_postgres
from tests.journal import scenes
from tests.operations.theatre import ACTIONS, Arms

on_both = pytest.mark.parametrize("ground", ["sqlite", on_postgres], indirect=True)


@on_both
@pytest.mark.parametrize("name", list(scenes.SCENES))
def test_straight(ground, play, conclude, name):
    """Each scene and each of its ways comes by all the moments at which it is hurt."""
    for way in scenes.SCENES[name].ways:
        seen = set()
        played = play(name)
        arms = Arms(dict.fromkeys(way.armed, ACTIONS["final"]))

        def pass_by(point, seen=seen, arms=arms):
            seen.add(point)
            arms(point)

        ground.enter(arms=pass_by)
        conclude(played, scenes.Case(name, way, f"{scenes.SCENES[name].main}:end:after"), "none")
        wait_until(lambda seen=seen, way=way: seen >= set(way.points), every_s=0.003)


@on_both
@pytest.mark.parametrize("case", scenes.cases(10, "errors", without=["aside"]))
@pytest.mark.parametrize("fault", ["final", "passing"])
def test_an_error_is_raised(ground, play, conclude, case, fault):
    played = play(case.scene)
    arms = Arms({**dict.fromkeys(case.way.armed, ACTIONS["final"]), case.point: ACTIONS[fault]})
    ground.enter(arms=arms)
    conclude(played, case, fault)
    # the last moment comes after the end that others see
    wait_until(lambda: case.point not in arms.actions, every_s=0.003)
