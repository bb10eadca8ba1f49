# SPDX-License-Identifier: Apache-2.0
"""Machines with a real NFS client and SSH, and a real server for them."""

import pytest

from abaca.nodes import mounts
from abaca.nodes.contract import Mount
from abaca.nodes.nfs import Nfs
from abaca.nodes.shell import Limits
from lab import fabric, guest
from tests.drivers.harness import LocalHarness, rules
from tests.nodes.machines import entry_of


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
def machine(server):
    """A guest whose `entry` leads into it."""
    with guest.Guest(server.network, "node") as started:
        started.entry = entry_of(started)
        yield started


@pytest.fixture(scope="session")
def nodes(server):
    made = mounts.Nodes([Nfs(port=server.port)], limits=Limits(connect_s=10, command_s=30))
    yield made
    made.close()


@pytest.fixture
def share(server, machine):
    """A share that the machine may write, with its `exports`; forced away from the machine at the end."""
    instance = server.instance()
    exports = server.driver.create(instance)
    server.driver.set_access(instance, rules(f"{machine.ipv4} rw", f"{machine.ipv6} rw"))
    yield instance, [one.path for one in exports]
    machine.script("for p in $(awk '$3 ~ /^nfs/ {print $2}' /proc/mounts); do umount -f -l $p; done; : > /etc/fstab")
    server.driver.delete(instance)


@pytest.fixture
def mount(share):
    """What is wanted of the share, at a mount point of its own."""
    instance, exports = share
    return Mount(name=instance.id, source=exports[0], mount_point=f"/mnt/{instance.id}")
