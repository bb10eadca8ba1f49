# SPDX-License-Identifier: Apache-2.0
"""What the tests of the whole share: a run of the lab for each module, and figures that are told at the end."""

import pytest

from lab import fabric, guest, runs

_FIGURES: list[str] = []


def pytest_terminal_summary(terminalreporter):
    if _FIGURES:
        terminalreporter.section("figures of the whole")
        for line in _FIGURES:
            terminalreporter.write_line(line)


@pytest.fixture
def figure(request):
    """`figure("longest gap", 6.52, "s")`: told when all tests have run."""

    def told(what, value, unit):
        _FIGURES.append(f"{value:8.2f} {unit:3} {what} ({request.node.name})")

    return told


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
