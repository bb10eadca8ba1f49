# SPDX-License-Identifier: Apache-2.0
"""A worker that is killed inside any call leaves nothing that repeating the call does not make good."""

import json
import os
import subprocess
import sys
import uuid

import pytest

from tests.drivers.crashing import Life, build
from tests.drivers.harness import LocalHarness

pytestmark = pytest.mark.system

# More points, up to all of them, are tried with ABACA_CRASH_POINTS.
POINTS = int(os.environ.get("ABACA_CRASH_POINTS", "24"))


@pytest.fixture(scope="module")
def local():
    made = LocalHarness()
    made.start()
    made.driver.stop()
    yield made
    made.close()


@pytest.fixture
def fresh():
    made = LocalHarness()
    yield made
    made.driver = build(made.directory, made.section)
    made.close()


def live(harness, point, ids):
    """The numbers that a life told before it ended or was killed at the point."""
    argv = [sys.executable, "-m", "tests.drivers.crashing", str(harness.directory), json.dumps(harness.section)]
    ended = subprocess.run([*argv, str(point), *ids], capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode in (0, -9), ended.stderr
    return [int(line) for line in ended.stdout.split()], ended.returncode


def names():
    return tuple(str(uuid.uuid4()) for _ in range(3))


def finish(harness, ids, step):
    """Start anew, repeat the step that was begun, and go on to the end; then nothing is left."""
    life = Life(build(harness.directory, harness.section), harness.directory, ids)
    life.driver.start()
    try:
        for later in life.steps[max(step, 1) :]:
            later()
        left = [
            path for kind in ("shares", "snapshots", "work") for path in (harness.directory / "pool" / kind).iterdir()
        ]
        left += [path for kind in ("shares", "snapshots") for path in (harness.directory / kind).iterdir()]
        left += list((harness.directory / "ganesha" / "exports").iterdir())
        assert (left, set(harness.shown())) == ([], {"/"})
    finally:
        life.driver.stop()


def test_every_call_can_be_repeated_after_a_kill_at_any_point(local):
    told, code = live(local, 0, names())
    assert code == 0
    total = told[-1]
    for number in range(POINTS):
        ids = names()
        told, code = live(local, 1 + number * total // POINTS, ids)
        assert code == -9
        finish(local, ids, told[-1])


@pytest.mark.parametrize("point", [1, 20, 40, 60, 80, 100, 120, 140])
def test_the_first_start_can_be_repeated_after_a_kill_at_any_point(fresh, point):
    ids = names()
    told, _ = live(fresh, point, ids)
    finish(fresh, ids, told[-1] if told[-1] < 20 else 0)
