# SPDX-License-Identifier: Apache-2.0
"""The same bench and stage as for kinds of operations, and a playground for toys, for as long as a module lasts."""

import contextlib
import threading

import pytest

from tests.databases import database, fast_directory, place, postgres  # noqa: F401 (fixtures)
from tests.journal import scenes
from tests.journal.ground import Ground
from tests.operations.conftest import bench, theatre  # noqa: F401 (fixtures)
from tests.operations.nursery import Nursery


@pytest.fixture(scope="module")
def nursery(tmp_path_factory):
    made = Nursery(tmp_path_factory.mktemp("nursery"), "tests.journal.ground", "sqlalchemy.dialects.postgresql.psycopg")
    yield made
    made.close()


@pytest.fixture(scope="module")
def ground(request, nursery):
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(fast_directory())
        here = place(request.param, directory, request)
        stack.callback(here.close)
        made = Ground(here, directory, nursery)
        stack.callback(made.leave)
        yield made


class Play:
    """One scene under way."""

    def __init__(self, ground, scene):
        self.ground = ground
        self.scene = scene
        self.subject = ground.subject()
        ground.leave()
        self.op_id = scene.request(ground, self.subject)
        self._problem = None
        self._beside = threading.Thread(target=self._meanwhile)
        self._beside.start()

    def _meanwhile(self):
        try:
            (self.scene.meanwhile or scenes.nothing)(self.ground, self.subject, self.op_id)
        except BaseException as problem:  # noqa: BLE001 - told at the end
            self._problem = problem

    def until_ended(self):
        self._beside.join(60)
        self.ground.until_ended(self.subject)
        if self._problem is not None:
            raise self._problem


@pytest.fixture
def play(ground):
    """`play(scene)`: it has been asked for, and no worker is there."""
    return lambda name: Play(ground, scenes.SCENES[name])


@pytest.fixture
def conclude(ground, record_property):
    """`conclude(play, case, fault)`: waits for the end, and compares; the run's closing line counts it."""

    def conclude(played, case, fault):
        step = case.point.rpartition(":")[0]
        told = {"kind": step.partition(":")[0], "step": step, "fault": fault, "of": scenes.CHOSEN}
        told |= {"stuck": True, "leaked": False}
        try:
            played.until_ended()
            found = ground.check(played.subject)
            told["stuck"] = any("stuck" in line for line in found)
            told["leaked"] = any("stuck" not in line for line in found)
        finally:
            record_property("toy", told)
        assert found == []
        wanted = scenes.ending(case, fault)
        ended = ground.show(played.op_id)
        assert wanted in (ended.state, None), (ended.state, ended.error_code, ended.error_text)

    return conclude
