# SPDX-License-Identifier: Apache-2.0
"""Toys whose PostgreSQL is restarted, without any warning, at every moment."""

import threading

import pytest

from tests.databases import on_postgres
from tests.journal import scenes
from tests.operations.theatre import ACTIONS, Arms


@pytest.mark.parametrize("ground", [on_postgres], indirect=True)
@pytest.mark.parametrize("case", scenes.cases(20, "restart"))
def test_the_database_crashes_and_comes_back(ground, play, conclude, case):
    played = play(case.scene)
    is_back = threading.Event()

    def crash():
        ground.place.server.restart("immediate")
        is_back.set()

    ground.enter(arms=Arms({**dict.fromkeys(case.way.armed, ACTIONS["final"]), case.point: crash}))
    assert is_back.wait(60), "this moment never came"
    conclude(played, case, "database restart")
