# SPDX-License-Identifier: Apache-2.0
"""A missing client is installed by the real package manager of each family, over SSH, from a repository in the lab."""

import concurrent.futures
import contextlib

import pytest

from abaca.nodes import contract, mounts
from abaca.nodes.shell import Limits
from lab import families, processes
from lab.families import FAMILIES, FamilyNode
from tests.nodes.machines import Memory, login_of, wanted

pytestmark = pytest.mark.system

HERE = {"apt": "apt-get install", "dnf": "dnf install", "yum": "dnf install", "zypper": "zypper --non-interactive"}
AWAY = {
    "apt": r"Failed to fetch http://127\.0\.0\.1:8079/.* Could not connect",
    "dnf": r"Cannot download repomd\.xml|Failed to download metadata",
    "yum": r"Cannot download repomd\.xml|Failed to download metadata",
    "zypper": r"Failed to connect to 127\.0\.0\.1 port 8079",
}
# What the manager is told to change, all below these.
BOOKS = "find /var/lib/dpkg /var/lib/rpm /usr/sbin -newer /run/marker 2> /dev/null"
# The pattern does not match itself.
COMES = "until pgrep -f 'install .*abaca-[c]lient'; do :; done"
RPM = "rpm -i --force-debian noarch/abaca-slow-*.rpm"
# Who installs something there already, and what is said of it.
OTHERS = {
    "apt and apt-get": ("apt", "apt-get update; apt-get install -y abaca-slow", r"held by process \d+ .apt-get."),
    "dnf and dnf": ("dnf", "dnf install -y abaca-slow", r"Waiting for process with pid \d+ to finish"),
    "dnf and rpm": ("dnf", RPM, "can't create transaction lock"),
    "zypper and zypper": (
        "zypper",
        "zypper --non-interactive install abaca-slow",
        r"locked by the application with pid \d+ .zypper.",
    ),
    "zypper and rpm": ("zypper", RPM, "can't create transaction lock"),
}
others = pytest.mark.parametrize(("node", "other", "said"), OTHERS.values(), indirect=["node"], ids=OTHERS)


class Packaged(Memory):
    """A protocol whose client is in the families' repositories."""

    protocols = ("PACKAGED",)
    program = families.CLIENT

    def packages(self, distribution):
        return (families.CLIENT,)


@pytest.fixture(scope="module")
def started(network):
    """A machine of each family that a test has asked for."""
    families.need()
    with contextlib.ExitStack() as stack:
        machines = {}

        def start(family):
            if family not in machines:
                machines[family] = stack.enter_context(FamilyNode(network, family))
                machines[family].serve()
            return machines[family]

        yield start


@pytest.fixture(params=FAMILIES)
def node(request, started):
    return started(request.param)


@pytest.fixture
def machine(node):
    """It has no client, and its repository answers."""
    yield node
    node.script("touch /run/go; n=0; while [ $n -lt 100 ] && pgrep -f 'abaca-[s]low'; do n=$((n+1)); sleep 0.1; done")
    node.script(f"umount /mnt/*; {node.family.remove}; rm -f /run/go /run/slow")


@pytest.fixture(scope="module")
def nodes():
    made = mounts.Nodes([Packaged()], limits=Limits(connect_s=10, command_s=30, install_s=60, lock_s=30))
    yield made
    made.close()


@pytest.fixture(scope="module")
def hasty():
    made = mounts.Nodes([Packaged()], limits=Limits(connect_s=10, command_s=30, install_s=4, lock_s=2))
    yield made
    made.close()


@pytest.fixture
def mount():
    return wanted(protocol="PACKAGED")


@pytest.fixture
def busy(machine, other):
    """Somebody on the machine installs something that takes as long as one likes."""
    machine.script(f"cd {machine.repository}; {other} > /run/slow.log 2>&1 &")
    processes.wait_until(lambda: machine.run(["test", "-e", "/run/slow"]).code == 0, 30, "the other installation")
    return machine


def test_it_is_installed_once(machine, nodes, mount):
    login = login_of(machine)
    assert nodes.mount(login, mount).source == mount.source
    machine.check(["sh", "-c", machine.family.is_installed])
    assert machine.check([families.CLIENT]) == "the client\n"
    machine.script("touch /run/marker")
    nodes.unmount(login, mount)
    assert nodes.mount(login, mount).source == mount.source
    assert machine.script(BOOKS).stdout == ""


def test_a_repository_that_is_away_is_the_reason(machine, nodes, mount):
    with machine.without_repository(), pytest.raises(contract.Unsupported, match=AWAY[machine.name]) as away:
        nodes.mount(login_of(machine), mount)
    assert f"run there as root: {HERE[machine.name]}" in str(away.value)
    assert machine.run(["ls", mount.mount_point]).code != 0


@others
def test_another_installation_is_waited_for(busy, nodes, mount, said):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        mounting = pool.submit(nodes.mount, login_of(busy), mount)
        busy.check(["sh", "-c", COMES])
        busy.check(["touch", "/run/go"])
        assert mounting.result(30).source == mount.source


@others
def test_one_that_does_not_end_is_said_and_may_pass(busy, hasty, mount, said):
    with pytest.raises(contract.TimedOut, match=f"installing one takes too long: .*{said}") as late:
        hasty.mount(login_of(busy), mount)
    assert late.value.may_pass
