# SPDX-License-Identifier: Apache-2.0
"""Shares handed to real QEMU guests by a hypervisor that one logs in to: plugged, used, unplugged, without a trace."""

import contextlib
import socket
import subprocess
import sys
import uuid

import msgspec
import pytest

from abaca.nodes import contract, mounts
from abaca.nodes.contract import Guest, Job, Mount
from abaca.nodes.shell import Limits
from lab import fabric, qemu, runs
from lab.ssh_node import SshNode
from tests.nodes.machines import Memory, entry_of

pytestmark = pytest.mark.system

WORKER = """
import sys, msgspec
from abaca.nodes import mounts, shell
from abaca.nodes.contract import Mount
from tests.nodes.machines import Entry, Memory
nodes = mounts.Nodes([Memory()])
said = msgspec.json.decode(sys.argv[2])
entry, mount = msgspec.convert(said["entry"], Entry), msgspec.convert(said["mount"], Mount)
import asyncssh
print("now", flush=True)
getattr(nodes, sys.argv[1])(entry, mount)
"""
LEFT = """
ls -A /run/abaca-guests /run/virtiofsd /var/run/virtiofsd 2>/dev/null | grep -v : | sort -u
grep -ls 'socket-path[=]' /proc/[0-9]*/cmdline
grep ' /run/abaca-guests' /proc/self/mountinfo
cat /etc/fstab
"""


@pytest.fixture(scope="module")
def hypervisor():
    qemu.need()
    with runs.Run() as run, SshNode(fabric.Fabric(run), "hypervisor") as started:
        yield started


@pytest.fixture(scope="module")
def nodes():
    made = mounts.Nodes([Memory()], limits=Limits(connect_s=5, command_s=20))
    yield made
    made.close()


@pytest.fixture(scope="module")
def guest(hypervisor):
    made = qemu.QemuGuest(hypervisor, "guest").start()
    yield made
    made.kill()


@pytest.fixture
def entry(hypervisor):
    return entry_of(hypervisor)


def wanted(guest, **more):
    name = str(uuid.uuid4())
    to = Guest(tag=name, qmp_socket=guest.qmp_socket)
    return Mount(name=name, protocol="MEMORY", source=f"10.0.0.1:/{name}", mount_point="/mnt/x", guest=to, **more)


def in_guest(guest, mount):
    tag = mount.guest.tag
    made = guest.script(f"mkdir -p /mnt/{tag} && mount -t virtiofs {tag} /mnt/{tag}")
    assert made.code == 0, made
    return f"/mnt/{tag}"


def kill_while(action, entry, mount, after_s):
    """Kill a process so long after it began the action, if it is not done before."""
    values = msgspec.json.encode({"entry": entry, "mount": mount}).decode()
    worker = subprocess.Popen([sys.executable, "-c", WORKER, action, values], stdout=subprocess.PIPE)
    assert worker.stdout.readline() == b"now\n"
    with contextlib.suppress(subprocess.TimeoutExpired):
        worker.wait(after_s)
    worker.kill()
    worker.wait()
    worker.stdout.close()


def left(hypervisor):
    return hypervisor.script(LEFT).stdout.split()


def test_a_share_is_plugged_written_in_the_guest_and_unplugged_without_a_trace(nodes, entry, hypervisor, guest):
    mount = wanted(guest)
    assert nodes.look(entry, mount) is None
    seen = nodes.mount(entry, mount)
    assert (seen.source, seen.is_read_only) == (mount.source, False)
    assert nodes.look(entry, mount) == seen
    assert nodes.mount(entry, mount) == seen
    place = in_guest(guest, mount)
    assert guest.script(f"echo from the guest > {place}/a && sync").code == 0
    on_host = f"/run/abaca-guests/{mount.name}.share"
    assert hypervisor.check(["cat", f"{on_host}/a"]) == "from the guest\n"
    hypervisor.script(f"echo from the host > {on_host}/b")
    assert guest.script(f"cat {place}/b").stdout == "from the host\n"
    assert guest.script(f"umount {place}").code == 0
    nodes.unmount(entry, mount)
    assert nodes.look(entry, mount) is None
    assert left(hypervisor) == []
    assert guest.script(f"mount -t virtiofs {mount.guest.tag} /mnt").code != 0
    nodes.unmount(entry, mount)


def test_a_share_to_read_cannot_be_written_in_the_guest(nodes, entry, hypervisor, guest):
    mount = wanted(guest, is_read_only=True)
    assert nodes.mount(entry, mount).is_read_only
    place = in_guest(guest, mount)
    assert "Read-only" in guest.script(f"touch {place}/a").stderr
    guest.script(f"umount {place}")
    nodes.unmount(entry, mount)
    assert left(hypervisor) == []


def test_a_guest_without_a_free_port_refuses_the_next_share_and_leaves_nothing_of_it(nodes, entry, hypervisor, guest):
    held = [wanted(guest) for _ in range(2)]
    outcomes = nodes.many([Job(action="mount", entry=entry, mount=one) for one in held])
    assert [one.error for one in outcomes] == [None, None]
    more = wanted(guest)
    before = left(hypervisor)
    with pytest.raises(contract.MountRefused, match="no free pcie-root-port"):
        nodes.mount(entry, more)
    assert left(hypervisor) == before
    outcomes = nodes.many([Job(action="unmount", entry=entry, mount=one) for one in held])
    assert [one.error for one in outcomes] == [None, None]
    assert left(hypervisor) == []


def test_a_tag_that_the_guest_has_already_is_refused(nodes, entry, hypervisor, guest):
    one = wanted(guest)
    nodes.mount(entry, one)
    with pytest.raises(contract.MountRefused, match="already"):
        nodes.mount(entry, msgspec.structs.replace(one, name="another"))
    nodes.unmount(entry, one)
    assert left(hypervisor) == []


def test_a_guest_whose_memory_is_not_shared_is_refused_with_what_to_do(nodes, entry, hypervisor):
    made = qemu.QemuGuest(hypervisor, "private", has_shared_memory=False).start()
    try:
        with pytest.raises(contract.Unsupported, match="share=on"):
            nodes.mount(entry, wanted(made))
        assert left(hypervisor) == []
    finally:
        made.kill()


def test_a_guest_that_is_off_is_said_to_be_and_gives_back_what_it_had(nodes, entry, hypervisor):
    made = qemu.QemuGuest(hypervisor, "brief").start()
    mount = wanted(made)
    nodes.mount(entry, mount)
    made.kill()
    assert nodes.look(entry, mount) is None
    with pytest.raises(contract.Unreachable, match="the guest is off"):
        nodes.mount(entry, mount)
    assert left(hypervisor) == []
    made.start()
    assert nodes.mount(entry, mount) == nodes.look(entry, mount)
    made.kill()
    nodes.unmount(entry, mount)
    assert left(hypervisor) == []


@pytest.mark.parametrize(
    "harm",
    [
        "kill -9 $(grep -ls 'socket-path[=]' /proc/[0-9]*/cmdline | cut -d/ -f3)",
        "umount -l /run/abaca-guests/*.share",
    ],
    ids=["virtiofsd killed", "unmounted by hand"],
)
def test_what_breaks_on_the_hypervisor_is_seen_and_made_good(nodes, entry, hypervisor, guest, harm):
    mount = wanted(guest)
    nodes.mount(entry, mount)
    hypervisor.script(harm)
    assert nodes.look(entry, mount) is None
    nodes.mount(entry, mount)
    place = in_guest(guest, mount)
    assert guest.script(f"echo again > {place}/a; umount {place}").code == 0
    nodes.unmount(entry, mount)
    assert left(hypervisor) == []


@pytest.mark.parametrize("after_s", [0.15, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 1.0])
def test_a_worker_that_is_killed_leaves_nothing_after_the_next_try(nodes, entry, hypervisor, guest, after_s):
    mount = wanted(guest)
    kill_while("mount", entry, mount, after_s)
    nodes.mount(entry, mount)
    place = in_guest(guest, mount)
    assert guest.script(f"echo alive > {place}/a; umount {place}").code == 0
    kill_while("unmount", entry, mount, after_s)
    nodes.unmount(entry, mount)
    assert left(hypervisor) == []
    kill_while("mount", entry, mount, after_s)
    nodes.unmount(entry, mount)
    assert left(hypervisor) == []


def test_a_monitor_that_somebody_holds_is_waited_for_and_then_named(entry, hypervisor, guest):
    hasty = mounts.Nodes([Memory()], limits=Limits(connect_s=5, command_s=4))
    with socket.socket(socket.AF_UNIX) as other:
        other.connect(str(hypervisor.root / guest.qmp_socket[1:]))
        with pytest.raises(contract.TimedOut, match="another program holds"):
            hasty.mount(entry, wanted(guest))
    hasty.close()
    assert left(hypervisor) == []


def test_a_hypervisor_that_forwards_no_sockets_is_told_so(nodes, hypervisor, guest):
    with SshNode(hypervisor.network, "closed", "dropbear") as closed:
        assert nodes.look(entry_of(closed), wanted(guest)) is None
        with pytest.raises(contract.NotAllowed, match="forwards no Unix sockets"):
            nodes.mount(entry_of(closed), wanted(guest))
        assert left(closed) == []


def test_without_virtiofsd_it_says_so(nodes, entry, hypervisor, guest):
    hide = "for one in /usr/lib/qemu/virtiofsd /usr/libexec/virtiofsd; do [ ! -e $one ] || {} $one; done"
    hypervisor.script(hide.replace("{}", "mount --bind /dev/null"))
    try:
        with pytest.raises(contract.Unsupported, match="no virtiofsd"):
            nodes.mount(entry, wanted(guest))
    finally:
        hypervisor.script(hide.replace("{}", "umount"))
    assert left(hypervisor) == []


def test_by_force_it_goes_though_the_guest_holds_the_monitor(nodes, entry, hypervisor, guest):
    mount = wanted(guest)
    nodes.mount(entry, mount)
    place = in_guest(guest, mount)
    nodes.unmount(entry, mount, force=True)
    assert left(hypervisor) == []
    assert guest.script(f"ls {place}").code != 0
    guest.script(f"umount {place}")
