# SPDX-License-Identifier: Apache-2.0
"""Shares handed to real QEMU guests by a hypervisor that one logs in to: plugged, used, unplugged, without a trace."""

import contextlib
import json
import socket
import subprocess
import sys
import threading
import uuid

import msgspec
import pytest

from abaca.nodes import contract, mounts
from abaca.nodes.contract import Guest, Job, Mount
from abaca.nodes.shell import Limits
from lab import fabric, qemu, runs
from lab.ssh_node import SshNode
from tests.nodes.machines import Memory, login_of

pytestmark = pytest.mark.system

WORKER = """
import sys, msgspec
from abaca.nodes import mounts, shell
from abaca.nodes.contract import Mount
from tests.nodes.machines import Login, Memory
nodes = mounts.Nodes([Memory()])
said = msgspec.json.decode(sys.argv[2])
login, mount = msgspec.convert(said["login"], Login), msgspec.convert(said["mount"], Mount)
import asyncssh
print("now", flush=True)
getattr(nodes, sys.argv[1])(login, mount)
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
    made = mounts.Nodes([Memory()], limits=Limits(connect_s=30, command_s=30))
    yield made
    made.close()


@pytest.fixture(scope="module")
def guest(hypervisor):
    made = qemu.QemuGuest(hypervisor, "guest").start()
    yield made
    made.kill()


@pytest.fixture
def login(hypervisor):
    return login_of(hypervisor)


def wanted(guest, **more):
    name = str(uuid.uuid4())
    to = Guest(tag=name, qmp_socket=guest.qmp_socket)
    return Mount(name=name, protocol="MEMORY", source=f"10.0.0.1:/{name}", mount_point="/mnt/x", guest=to, **more)


def in_guest(guest, mount):
    tag = mount.guest.tag
    made = guest.script(f"mkdir -p /mnt/{tag} && mount -t virtiofs {tag} /mnt/{tag}")
    assert made.code == 0, made
    return f"/mnt/{tag}"


@contextlib.contextmanager
def working(action, login, mount):
    """A process of its own that does it, as far as it lives."""
    values = msgspec.json.encode({"login": login, "mount": mount}).decode()
    with subprocess.Popen([sys.executable, "-c", WORKER, action, values], stdout=subprocess.PIPE) as worker:
        assert worker.stdout.readline() == b"now\n"
        yield worker
        worker.kill()


def kill_while(action, login, mount, after_s):
    """Kill a process so long after it began the action, if it is not done before."""
    with working(action, login, mount) as worker, contextlib.suppress(subprocess.TimeoutExpired):
        worker.wait(after_s)


class Between:
    """Stands between Abaca and a guest's QEMU. When an order comes, before or after QEMU has seen it, `do` is done.

    What that returns is Abaca's answer; None breaks the connection off.
    """

    def __init__(self, hypervisor, guest, order, moment, do):
        self.qmp_socket = f"/run/{uuid.uuid4().hex}.qmp"
        self.order, self.moment, self.do = order, moment, do
        self.there = str(hypervisor.root / guest.qmp_socket[1:])
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(hypervisor.root / self.qmp_socket[1:]))
        self.listener.listen()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join(60)
        self.listener.close()

    def seen(self, mount):
        """The mount, for whoever shall come this way."""
        return msgspec.structs.replace(mount, guest=msgspec.structs.replace(mount.guest, qmp_socket=self.qmp_socket))

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                here, _ = self.listener.accept()
                with here, socket.socket(socket.AF_UNIX) as there, contextlib.suppress(OSError, ValueError):
                    there.connect(self.there)
                    self.talk(here, there)

    def talk(self, here, there):
        with here.makefile("rb") as orders, there.makefile("rb") as answers:
            here.sendall(answers.readline())
            for line in orders:
                is_it = json.loads(line)["execute"] == self.order
                said = self.do() if is_it and self.moment == "before" else ask(there, answers, line)
                said = self.do() if is_it and self.moment == "after" else said
                if said is None:
                    return
                here.sendall(said)


def ask(there, answers, line):
    there.sendall(line)
    return next(said for said in answers if b'"event"' not in said)


def tell(hypervisor, guest, order, **arguments):
    """What QEMU returns for an order of somebody else's."""
    with socket.socket(socket.AF_UNIX) as there, there.makefile("rb") as answers:
        there.settimeout(10)
        there.connect(str(hypervisor.root / guest.qmp_socket[1:]))
        answers.readline()
        ask(there, answers, b'{"execute": "qmp_capabilities"}\n')
        said = ask(there, answers, json.dumps({"execute": order, "arguments": arguments}).encode() + b"\n")
    return json.loads(said)["return"]


def plugged(hypervisor, guest):
    """What QEMU has of ours: devices and character devices."""
    devices = [one["name"] for one in tell(hypervisor, guest, "qom-list", path="/machine/peripheral")]
    chardevs = [one["label"] for one in tell(hypervisor, guest, "query-chardev")]
    return sorted(one for one in (*devices, *chardevs) if one.startswith("abaca-"))


def left(hypervisor):
    return hypervisor.script(LEFT).stdout.split()


def test_a_share_is_plugged_written_in_the_guest_and_unplugged_without_a_trace(nodes, login, hypervisor, guest):
    mount = wanted(guest)
    assert nodes.look(login, mount) is None
    seen = nodes.mount(login, mount)
    assert (seen.source, seen.is_read_only) == (mount.source, False)
    assert nodes.look(login, mount) == seen
    assert nodes.mount(login, mount) == seen
    place = in_guest(guest, mount)
    assert guest.script(f"echo from the guest > {place}/a && sync").code == 0
    on_host = f"/run/abaca-guests/{mount.name}.share"
    assert hypervisor.check(["cat", f"{on_host}/a"]) == "from the guest\n"
    hypervisor.script(f"echo from the host > {on_host}/b")
    assert guest.script(f"cat {place}/b").stdout == "from the host\n"
    assert guest.script(f"umount {place}").code == 0
    nodes.unmount(login, mount)
    assert nodes.look(login, mount) is None
    assert left(hypervisor) == []
    assert guest.script(f"mount -t virtiofs {mount.guest.tag} /mnt").code != 0
    nodes.unmount(login, mount)


def test_a_share_to_read_cannot_be_written_in_the_guest(nodes, login, hypervisor, guest):
    mount = wanted(guest, is_read_only=True)
    assert nodes.mount(login, mount).is_read_only
    place = in_guest(guest, mount)
    assert "Read-only" in guest.script(f"touch {place}/a").stderr
    guest.script(f"umount {place}")
    nodes.unmount(login, mount)
    assert left(hypervisor) == []


def test_a_guest_without_a_free_port_refuses_the_next_share_and_leaves_nothing_of_it(nodes, login, hypervisor, guest):
    held = [wanted(guest) for _ in range(2)]
    outcomes = nodes.many([Job(action="mount", login=login, mount=one) for one in held])
    assert [one.error for one in outcomes] == [None, None]
    more = wanted(guest)
    before = left(hypervisor)
    with pytest.raises(contract.MountRefused, match="no free pcie-root-port"):
        nodes.mount(login, more)
    assert left(hypervisor) == before
    nodes.unmount(login, held[0])
    nodes.mount(login, more)
    outcomes = nodes.many([Job(action="unmount", login=login, mount=one) for one in (held[1], more)])
    assert [one.error for one in outcomes] == [None, None]
    assert left(hypervisor) == []


def test_a_tag_that_the_guest_has_already_is_refused(nodes, login, hypervisor, guest):
    one = wanted(guest)
    nodes.mount(login, one)
    with pytest.raises(contract.MountRefused, match="already"):
        nodes.mount(login, msgspec.structs.replace(one, name="another"))
    nodes.unmount(login, one)
    assert left(hypervisor) == []


def test_a_guest_whose_memory_is_not_shared_is_refused_with_what_to_do(nodes, login, hypervisor):
    made = qemu.QemuGuest(hypervisor, "private", has_shared_memory=False).start()
    try:
        with pytest.raises(contract.Unsupported, match="share=on"):
            nodes.mount(login, wanted(made))
        assert left(hypervisor) == []
    finally:
        made.kill()


KILL_VIRTIOFSD = "kill -9 $(grep -ls 'socket-path[=]' /proc/[0-9]*/cmdline | cut -d/ -f3)"


def test_a_guest_that_hangs_or_is_off_is_said_to_be_and_gives_back_what_it_had(nodes, login, hypervisor):
    made = qemu.QemuGuest(hypervisor, "brief").start()
    mount = wanted(made)
    nodes.mount(login, mount)
    place = in_guest(made, mount)
    hypervisor.script(KILL_VIRTIOFSD)
    made.script(f"touch {place}/a > /dev/null 2>&1 &")
    hasty = mounts.Nodes([Memory()], limits=Limits(connect_s=30, command_s=8))
    with pytest.raises(contract.TimedOut, match="switch it off and on"):
        hasty.mount(login, mount)
    hasty.close()
    made.kill()
    assert nodes.look(login, mount) is None
    with pytest.raises(contract.MachineUnreachable, match="the guest is off"):
        nodes.mount(login, mount)
    assert left(hypervisor) == []
    made.start()
    assert nodes.mount(login, mount) == nodes.look(login, mount)
    made.kill()
    nodes.unmount(login, mount)
    assert left(hypervisor) == []


@pytest.mark.parametrize(
    "harm",
    [
        KILL_VIRTIOFSD,
        "umount -l /run/abaca-guests/*.share",
    ],
    ids=["virtiofsd killed", "unmounted by hand"],
)
def test_what_breaks_on_the_hypervisor_is_seen_and_made_good(nodes, login, hypervisor, guest, harm):
    mount = wanted(guest)
    nodes.mount(login, mount)
    hypervisor.script(harm)
    assert nodes.look(login, mount) is None
    nodes.mount(login, mount)
    place = in_guest(guest, mount)
    assert guest.script(f"echo again > {place}/a; umount {place}").code == 0
    nodes.unmount(login, mount)
    assert left(hypervisor) == []


@pytest.mark.parametrize("after_s", [0.2, 0.3, 0.4, 0.5])
def test_a_worker_that_is_killed_leaves_nothing_after_the_next_try(nodes, login, hypervisor, guest, after_s):
    mount = wanted(guest)
    kill_while("mount", login, mount, after_s)
    nodes.mount(login, mount)
    place = in_guest(guest, mount)
    assert guest.script(f"echo alive > {place}/a; umount {place}").code == 0
    kill_while("unmount", login, mount, after_s)
    nodes.unmount(login, mount)
    assert left(hypervisor) == []
    kill_while("mount", login, mount, after_s)
    nodes.unmount(login, mount)
    assert left(hypervisor) == []


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("order", ["chardev-add", "device_add", "device_del", "chardev-remove"])
def test_a_worker_that_is_killed_at_an_order_leaves_nothing(nodes, login, hypervisor, guest, order, moment):
    mount = wanted(guest)
    action = "mount" if order in ("chardev-add", "device_add") else "unmount"
    nodes.mount(login, mount) if action == "unmount" else None
    is_there, is_dead = threading.Event(), threading.Event()

    def hold():
        is_there.set()
        assert is_dead.wait(60)

    with Between(hypervisor, guest, order, moment, hold) as between:
        with working(action, login, between.seen(mount)) as worker:
            assert is_there.wait(60)
            worker.kill()
        is_dead.set()
    nodes.mount(login, mount)
    assert plugged(hypervisor, guest) == [f"abaca-{mount.name}"] * 2
    place = in_guest(guest, mount)
    assert guest.script(f"echo alive > {place}/a; umount {place}").code == 0
    nodes.unmount(login, mount)
    assert (left(hypervisor), plugged(hypervisor, guest)) == ([], [])


@pytest.mark.parametrize("order", ["chardev-add", "device_add"])
def test_an_order_that_qemu_declines_is_said_and_leaves_nothing(nodes, login, hypervisor, guest, order):
    mount = wanted(guest)
    no = b'{"error": {"class": "GenericError", "desc": "not today"}}\n'
    refused = pytest.raises(contract.MountRefused, match="does not take it: not today")
    with Between(hypervisor, guest, order, "before", lambda: no) as between, refused:
        nodes.mount(login, between.seen(mount))
    assert (left(hypervisor), plugged(hypervisor, guest)) == ([], [])


@pytest.mark.parametrize("order", ["chardev-add", "device_add"])
def test_a_qemu_that_breaks_off_is_said_and_leaves_nothing_but_what_it_kept(nodes, login, hypervisor, guest, order):
    mount = wanted(guest)
    broken = pytest.raises(contract.MachineUnreachable, match="breaks off")
    with Between(hypervisor, guest, order, "after", lambda: None) as between, broken:
        nodes.mount(login, between.seen(mount))
    assert left(hypervisor) == []
    nodes.unmount(login, mount)
    assert plugged(hypervisor, guest) == []


def test_a_guest_that_does_not_let_go_is_named_and_what_force_left_goes_with_the_next(login, hypervisor, guest):
    hasty = mounts.Nodes([Memory()], limits=Limits(connect_s=30, command_s=8))
    mount, following = wanted(guest), wanted(guest)
    hasty.mount(login, mount)
    tell(hypervisor, guest, "stop")
    try:
        with pytest.raises(contract.TimedOut, match="does not let go"):
            hasty.unmount(login, mount)
        assert hasty.look(login, mount) is not None
        hasty.unmount(login, mount, force=True)
        assert left(hypervisor) == []
        assert f"abaca-{mount.name}" in plugged(hypervisor, guest)
    finally:
        tell(hypervisor, guest, "cont")
    hasty.mount(login, following)
    assert plugged(hypervisor, guest) == [f"abaca-{following.name}"] * 2
    hasty.unmount(login, following)
    hasty.close()
    assert (left(hypervisor), plugged(hypervisor, guest)) == ([], [])


def test_a_qemu_that_hangs_is_said_and_served_when_it_goes_on(nodes, login, hypervisor, guest):
    hasty = mounts.Nodes([Memory()], limits=Limits(connect_s=30, command_s=8))
    mount = wanted(guest)
    hypervisor.script(f"kill -STOP $(cat /run/{guest.name}.pid)")
    try:
        with pytest.raises(contract.TimedOut, match="QEMU hangs, or another program"):
            hasty.mount(login, mount)
    finally:
        hypervisor.script(f"kill -CONT $(cat /run/{guest.name}.pid)")
    hasty.close()
    assert left(hypervisor) == []
    nodes.mount(login, mount)
    nodes.unmount(login, mount)
    assert left(hypervisor) == []


def test_a_share_is_not_pulled_from_a_guest_because_its_address_changes(nodes, login, hypervisor, guest):
    old = wanted(guest)
    nodes.mount(login, old)
    place = in_guest(guest, old)
    new = msgspec.structs.replace(old, source="10.0.0.2:/elsewhere")
    with pytest.raises(contract.InUse, match=f"the guest, which has it as {old.guest.tag}"):
        nodes.remount(login, new, old)
    assert guest.script(f"echo still here > {place}/a; umount {place}").code == 0
    nodes.unmount(login, old)
    nodes.mount(login, new)
    nodes.unmount(login, new)
    assert left(hypervisor) == []


def test_a_monitor_that_somebody_holds_is_waited_for_and_then_named(login, hypervisor, guest):
    hasty = mounts.Nodes([Memory()], limits=Limits(connect_s=30, command_s=8))
    with socket.socket(socket.AF_UNIX) as other:
        other.connect(str(hypervisor.root / guest.qmp_socket[1:]))
        with pytest.raises(contract.TimedOut, match="another program"):
            hasty.mount(login, wanted(guest))
    hasty.close()
    assert left(hypervisor) == []


def test_a_hypervisor_that_forwards_no_sockets_is_told_so(nodes, hypervisor, guest):
    with SshNode(hypervisor.network, "closed", "dropbear") as closed:
        assert nodes.look(login_of(closed), wanted(guest)) is None
        with pytest.raises(contract.NotAllowed, match="forwards no Unix sockets"):
            nodes.mount(login_of(closed), wanted(guest))
        assert left(closed) == []


def test_without_virtiofsd_it_says_so(nodes, login, hypervisor, guest):
    hide = "for one in /usr/lib/qemu/virtiofsd /usr/libexec/virtiofsd; do [ ! -e $one ] || {} $one; done"
    hypervisor.script(hide.replace("{}", "mount --bind /dev/null"))
    try:
        with pytest.raises(contract.Unsupported, match="no virtiofsd"):
            nodes.mount(login, wanted(guest))
    finally:
        hypervisor.script(hide.replace("{}", "umount"))
    assert left(hypervisor) == []


def test_by_force_it_goes_though_the_guest_holds_the_monitor(nodes, login, hypervisor, guest):
    mount = wanted(guest)
    nodes.mount(login, mount)
    place = in_guest(guest, mount)
    nodes.unmount(login, mount, force=True)
    assert left(hypervisor) == []
    assert guest.script(f"ls {place}").code != 0
    guest.script(f"umount {place}")
