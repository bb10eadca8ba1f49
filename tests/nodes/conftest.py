# SPDX-License-Identifier: Apache-2.0
"""Machines of all kinds; namespaces that one logs in to by SSH, each clean at the end of a test that uses `clean`."""

import pytest

from abaca.nodes import mounts
from abaca.nodes.shell import Limits
from lab import fabric, runs
from lab.ssh_node import SshNode
from tests.drivers.harness import LocalHarness
from tests.nodes.harness import HARNESSES
from tests.nodes.machines import Absent, Memory, login_of, wanted

CLEAN = """
grep -o ' /mnt/[^ ]*' /proc/mounts | while read -r point; do umount -l "$(printf '%b' "$point")"; done
rm -rf --one-file-system /mnt/*
rm -f /etc/systemd/system/mnt-*
: > /etc/fstab
"""


@pytest.fixture(
    scope="module", params=[pytest.param(kind, marks=kind.marks, id=kind.name) for kind in HARNESSES.values()]
)
def kind(request):
    """A machine of each kind, for those who test what is promised of all."""
    made = request.param()
    yield made
    made.close()


@pytest.fixture
def harness(kind):
    """Every test finds the machine as it was."""
    yield kind
    kind.clean()


@pytest.fixture(scope="module")
def network():
    with runs.Run() as run:
        yield fabric.Fabric(run)


@pytest.fixture(scope="session")
def server():
    """A real NFS server on a network of its own, as the local driver with a `network` for guests."""
    made = LocalHarness()
    try:
        made.network = fabric.Fabric(made.run)
        made.start(export_ips=f"{made.network.host_ipv4},{made.network.host_ipv6}", nfs_minor_versions="1,2")
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def machines(network):
    """One machine for each SSH server."""
    started = {server: SshNode(network, server, server).start() for server in ("openssh", "dropbear")}
    yield started
    for one in started.values():
        one.stop()


@pytest.fixture(scope="module")
def nodes():
    made = mounts.Nodes([Memory(), Absent()], limits=Limits(connect_s=5, command_s=20))
    yield made
    made.close()


@pytest.fixture
def machine(machines):
    return machines["openssh"]


@pytest.fixture
def clean(machines):
    """Every test finds the machines as they were."""
    yield
    for one in machines.values():
        one.script(CLEAN)


@pytest.fixture
def login(machine):
    return login_of(machine)


@pytest.fixture
def mount():
    return wanted()
