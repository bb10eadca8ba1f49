# SPDX-License-Identifier: Apache-2.0
"""A worker is frozen inside a call of the local driver; another takes its place, users go on, and it is thawed.

The lock of the pool keeps the other from starting, until an operator takes it away: that is what they do.
"""

import contextlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import wait_until
from tests.drivers import late
from tests.drivers.harness import LocalHarness, fresh_id, rules

pytestmark = pytest.mark.system
AFTER, NEXT = late.DURING + 1, late.DURING + 2


@pytest.fixture
def local():
    made = LocalHarness()
    yield made
    made.close()


@pytest.fixture
def frozen(local):
    """`frozen(id, call)`: the worker that stands still in that call."""
    with contextlib.ExitStack() as stack:

        def frozen(id, call):
            argv = [sys.executable, "-m", "tests.drivers.late", str(local.directory), json.dumps(local.section)]
            worker = stack.enter_context(subprocess.Popen([*argv, id, call], stdout=subprocess.PIPE, text=True))
            stack.callback(worker.kill)
            stat = Path(f"/proc/{worker.pid}/stat")
            wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
            return worker

        yield frozen


def thaw(worker):
    """How its call ended."""
    worker.send_signal(signal.SIGCONT)
    return worker.stdout.readline().strip()


def deny(driver, share):
    driver.set_access(share, [])


def delete(driver, share):
    driver.delete(share)


def shrink(driver, share):
    driver.shrink(share, 1)


@pytest.mark.parametrize(("call", "goes_on"), [("set_access", deny), ("create", delete), ("extend", shrink)])
def test_what_it_does_too_late_is_refused(local, frozen, call, goes_on):
    id = fresh_id()
    worker = frozen(id, call)
    (local.directory / "pool.lock").unlink()
    driver = local.start()
    late.CALLS[call](driver, late.share(id, AFTER))
    goes_on(driver, late.share(id, NEXT))
    assert thaw(worker) in ("Superseded", "Unreachable")
    if call == "create":
        assert id not in local.held()
        return
    share = late.share(id, NEXT)
    assert (local.clients(share), local.size_gib(share)) == (set(), 1)
    driver.set_access(share, rules("10.0.0.1 rw"))
    assert local.clients(share) == {("10.0.0.1", "rw")}
    driver.delete(share)
