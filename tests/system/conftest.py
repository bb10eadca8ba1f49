# SPDX-License-Identifier: Apache-2.0
"""What the tests of the whole share: a run of the lab for each module, and figures that are told at the end."""

import contextlib

import pytest

from lab import fabric, guest, runs
from tests.system.running import STOP_S, Running


@pytest.fixture
def figure(request, record_property):
    """`figure("longest gap", 6.52, "s")`: told when all tests have run."""

    def figure(what, value, unit):
        record_property("figure", f"{value:8.2f} {unit:3} {what} ({request.node.name})")

    return figure


@pytest.fixture(scope="module")
def run():
    """A run of the lab; whatever the tests did, nothing of it is left behind."""
    with runs.Run() as run:
        yield run
    assert run.leftovers() == []


@pytest.fixture(scope="module")
def network(run):
    return fabric.Fabric(run)


@pytest.fixture(scope="module")
def machine(network):
    """A machine with a kernel of its own that mounts shares."""
    with guest.Guest(network, "client") as machine:
        yield machine


@pytest.fixture
def started(tmp_path):
    """`started()`: an `abaca` program with a state directory, a port and a log of its own."""
    with contextlib.ExitStack() as stack:

        def started(*arguments, directory=tmp_path, **options):
            running = Running(directory, *arguments, **options)
            stack.callback(running.process.wait, STOP_S)
            stack.callback(running.process.kill)
            return running

        yield started
