# SPDX-License-Identifier: Apache-2.0
"""A worker that is killed inside any call about share servers leaves nothing that repeating the call does not mend."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import wait_until
from tests.drivers.crashing_servers import ServerLife, build
from tests.drivers.harness import LocalServersHarness, fresh_id

pytestmark = pytest.mark.system

# More points, up to all of them, are tried with ABACA_CRASH_POINTS.
POINTS = int(os.environ.get("ABACA_CRASH_POINTS", "10"))


@pytest.fixture(scope="module")
def local():
    made = LocalServersHarness()
    made.start()
    made.driver.tear_down_server(made.server)
    made.driver.stop()
    yield made
    made.close()


def live(harness, point, ids):
    """The numbers that a life told before it ended or was killed at the point."""
    argv = [sys.executable, "-m", "tests.drivers.crashing_servers", str(harness.directory), json.dumps(harness.section)]
    ended = subprocess.run([*argv, str(point), *ids], capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode in (0, -9), ended.stderr
    return [int(line) for line in ended.stdout.split()], ended.returncode


def left(harness):
    """All that is of share servers on this host: directories, links, namespaces, daemons."""
    links = [link.name for link in Path("/sys/class/net").iterdir() if is_of(harness, link)]
    mounts = [line for line in read(Path("/proc/mounts")).splitlines() if f"{harness.directory}/servers" in line]
    daemons = [line for line in harness.run.leftovers() if line.startswith("process") and "/servers/" in line]
    return [*(harness.directory / "servers").iterdir(), *links, *mounts, *daemons]


def is_of(harness, link):
    """Whether a link is of the back end, or by its name of any, and nobody has marked it."""
    alias = read(link / "ifalias").strip()
    return str(harness.directory) in alias or (not alias and link.name.startswith(("abb", "abv", "abn")))


def read(path):
    try:
        return path.read_text()
    except OSError:  # it has just gone
        return ""


def names():
    return tuple(fresh_id() for _ in range(4))


def finish(harness, ids, step):
    """Start anew, repeat the step that was begun, and go on to the end; then nothing is left."""
    life = ServerLife(build(harness.directory, harness.section), harness.directory, ids)
    life.driver.start()
    try:
        for later in life.steps[max(step, 1) :]:
            later()
    finally:
        life.driver.stop()
    wait_until(lambda: left(harness) == [])


def test_every_call_can_be_repeated_after_a_kill_at_any_point(local):
    told, code = live(local, 0, names())
    assert code == 0
    wait_until(lambda: left(local) == [])
    total = told[-1]
    for number in range(POINTS):
        ids = names()
        told, code = live(local, 1 + number * total // POINTS, ids)
        assert code == -9
        finish(local, ids, told[-1])


@pytest.mark.parametrize("share", [0.15, 0.3])
def test_what_a_killed_set_up_left_goes_with_the_server(local, share):
    ids = names()
    told, _ = live(local, 0, names())
    live(local, int(told[-1] * share), ids)
    life = ServerLife(build(local.directory, local.section), local.directory, ids)
    life.driver.start()
    life.driver.delete(life.share)
    life.driver.tear_down_server(life.served)
    life.driver.stop()
    wait_until(lambda: left(local) == [])
