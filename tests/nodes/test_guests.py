# SPDX-License-Identifier: Apache-2.0
"""Mounting on real machines with a real NFS client, from a real server."""

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from abaca.nodes import contract, mounts
from abaca.nodes.contract import Mount
from abaca.nodes.nfs import Nfs
from abaca.nodes.shell import Limits
from lab import guest
from tests.conftest import wait_until
from tests.drivers.harness import rules
from tests.nodes.machines import login_of, standing_still

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def machine(server):
    """A guest whose `login` leads into it."""
    with guest.Guest(server.network, "node") as started:
        started.login = login_of(started)
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
    exports = server.driver.create(instance).exports
    server.driver.set_access(instance, rules(f"{machine.ipv4} rw", f"{machine.ipv6} rw"))
    yield instance, [one.path for one in exports]
    machine.script("for p in $(awk '$3 ~ /^nfs/ {print $2}' /proc/mounts); do umount -f -l $p; done; : > /etc/fstab")
    server.driver.delete(instance)


@pytest.fixture
def mount(share):
    """What is wanted of the share, at a mount point of its own."""
    instance, exports = share
    return Mount(name=instance.id, source=exports[0], mount_point=f"/mnt/{instance.id}")


def test_a_mounted_share_can_be_written_and_is_kept_and_seen(nodes, machine, mount, server, share):
    assert nodes.look(machine.login, mount) is None
    seen = nodes.mount(machine.login, mount)
    assert seen.source == mount.source
    assert (seen.mount_point, seen.fstype) == (mount.mount_point, "nfs4")
    assert {"rw", "vers=4.2", "hard", "timeo=600", "retrans=2", "nosuid", "nodev"} <= set(seen.options)
    assert (seen.is_read_only, seen.made_directory, seen.is_persistent) == (False, True, True)
    machine.check(["sh", "-c", f"echo text > {mount.mount_point}/file && sync -f {mount.mount_point}/file"])
    assert server.read(share[0]) == "text\n"
    assert nodes.look(machine.login, mount) == seen


def test_mounting_again_changes_nothing(nodes, machine, mount):
    first = nodes.mount(machine.login, mount)
    kept = machine.check(["cat", "/etc/fstab"])
    assert nodes.mount(machine.login, mount) == first
    assert machine.check(["cat", "/etc/fstab"]) == kept
    assert machine.check(["grep", "-c", mount.mount_point, "/proc/mounts"]) == "1\n"


def test_unmounting_leaves_no_trace_and_may_be_repeated(nodes, machine, mount):
    before = "# of the administrator\n/dev/sda1  /data\text4 defaults 0 2"
    machine.script(f"printf '{before}' > /run/host/fstab")
    nodes.mount(machine.login, mount)
    assert machine.check(["cat", "/etc/fstab"]).startswith(f"{before}\n# abaca {mount.name} ")
    nodes.unmount(machine.login, mount)
    assert nodes.look(machine.login, mount) is None
    assert machine.check(["cat", "/etc/fstab"]) == f"{before}\n"
    assert machine.run(["test", "-e", mount.mount_point]).code == 1
    nodes.unmount(machine.login, mount)


def test_a_rebooted_machine_comes_back_mounted(nodes, machine, mount):
    first = nodes.mount(machine.login, mount)
    machine.kill()
    machine.start()
    wait_until(lambda: machine.run(["grep", "-q", mount.mount_point, "/proc/mounts"]).code == 0)
    again = nodes.look(machine.login, mount)
    assert again.source == mount.source
    assert again.boot_id != first.boot_id


def test_a_busy_share_is_not_detached_and_its_holder_is_named(nodes, machine, mount):
    nodes.mount(machine.login, mount)
    machine.script(f"cd {mount.mount_point} && exec 9> open && (sleep 1000 & echo $! > /tmp/sleeper) > /dev/null 2>&1")
    pid = int(machine.check(["cat", "/tmp/sleeper"]))
    with pytest.raises(contract.InUse) as busy:
        nodes.unmount(machine.login, mount)
    assert contract.Holder(pid, "sleep 1000") in busy.value.holders
    assert f"process {pid} (sleep 1000)" in str(busy.value)
    assert nodes.look(machine.login, mount).is_persistent
    nodes.unmount(machine.login, mount, force=True)
    assert nodes.look(machine.login, mount) is None
    machine.check(["kill", str(pid)])


def test_a_read_only_share_cannot_be_written(nodes, machine, mount):
    seen = nodes.mount(machine.login, msgspec.structs.replace(mount, is_read_only=True))
    assert seen.is_read_only
    assert "Read-only" in machine.run(["touch", f"{mount.mount_point}/file"]).stderr


def test_what_the_server_refuses_leaves_nothing(nodes, machine, mount):
    unknown = msgspec.structs.replace(mount, source=f"{mount.source}-unknown")
    with pytest.raises(contract.MountRefused, match="No such file or directory"):
        nodes.mount(machine.login, unknown)
    assert machine.check(["cat", "/etc/fstab"]) == ""
    assert machine.run(["test", "-e", mount.mount_point]).code == 1


def test_it_moves_to_another_address_at_the_next_close(nodes, machine, share, mount):
    ipv6 = msgspec.structs.replace(mount, source=share[1][1])
    nodes.mount(machine.login, mount)
    pid = machine.check(["sh", "-c", f"cd {mount.mount_point}; sleep 1000 > /dev/null 2>&1 & echo $!"]).strip()
    with pytest.raises(contract.InUse, match="sleep 1000"):
        nodes.remount(machine.login, ipv6, mount)
    machine.check(["kill", pid])
    assert nodes.remount(machine.login, ipv6, mount).source == ipv6.source
    machine.check(["touch", f"{mount.mount_point}/file"])


@pytest.fixture
def frozen_server(server):
    """Called, it lets the server stand still from then on."""
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(standing_still(server))


def test_a_server_that_hangs_holds_nobody_up(quick, machine, share, mount, frozen_server):
    quick.mount(machine.login, mount)
    machine.script(f"sleep 1000 > {mount.mount_point}/held 2>&1 & echo $! > /tmp/sleeper")
    frozen_server()
    begun = time.monotonic()
    assert quick.look(machine.login, mount).source == mount.source
    other = msgspec.structs.replace(mount, name="other", source=share[1][1], mount_point="/mnt/other")
    with pytest.raises(contract.TimedOut, match=r"does not answer|killed"):
        quick.mount(machine.login, other)
    with pytest.raises((contract.InUse, contract.TimedOut)):
        quick.unmount(machine.login, mount)
    quick.unmount(machine.login, mount, force=True)
    assert quick.look(machine.login, mount) is None
    assert time.monotonic() - begun < 60
    machine.script("kill -KILL $(cat /tmp/sleeper)")


def test_an_unmount_comes_after_the_mount_that_is_under_way(quick, server, machine, mount):
    """Its worker may be gone, or may have given it up: it must not mount what has just been unmounted."""
    machine.check(["mkdir", "-p", mount.mount_point])
    with ThreadPoolExecutor(2) as pool:
        with standing_still(server):
            mounting = pool.submit(quick.mount, machine.login, mount)
            wait_until(lambda: running(machine, "mount -t nfs4"), every_s=0.1)
            unmounting = pool.submit(quick.unmount, machine.login, mount)
            wait_until(lambda: running(machine, "flock 8") or unmounting.done(), every_s=0.1)
        unmounting.result()
        assert mounting.exception() is None
    assert mount.mount_point not in machine.check(["cat", "/proc/mounts", "/etc/fstab"])
    assert machine.run(["ls", "/run"]).stdout.count(mount.name) == 0
    machine.check(["rmdir", mount.mount_point])


def test_a_network_that_goes_in_the_middle_of_mounting_is_noticed_at_both_ends(quick, server, machine, mount):
    with ThreadPoolExecutor(1) as pool, standing_still(server):
        mounting = pool.submit(quick.mount, machine.login, mount)
        wait_until(lambda: running(machine, "mount -t nfs4"), every_s=0.1)
        machine.unplug()
        begun = time.monotonic()
        with pytest.raises(contract.MachineUnreachable, match="not responding"):
            mounting.result(30)
        assert time.monotonic() - begun < 10, "no longer than a log-in may take, and not a whole command"
    machine.plug_in()
    wait_until(lambda: not running(machine, "sh -s"), every_s=0.2)
    wait_until(lambda: len(machine.run(["pidof", "dropbear"]).stdout.split()) == 1, every_s=0.2)
    quick.mount(machine.login, mount)
    assert machine.check(["cat", "/proc/mounts"]).count(mount.mount_point) == 1
    quick.unmount(machine.login, mount)


def running(machine, program):
    """Whether a process has that in its command line."""
    return program in machine.check(["ps", "-o", "args"])


@pytest.fixture
def quick(server):
    """With short limits."""
    made = mounts.Nodes([Nfs(port=server.port)], limits=Limits(connect_s=3, command_s=16))
    yield made
    made.close()


def test_a_machine_off_the_network_is_unreachable_until_it_is_back(quick, machine, mount):
    quick.mount(machine.login, mount)
    machine.check(["ip", "link", "set", "vec0", "down"])
    with pytest.raises(contract.MachineUnreachable):
        quick.look(machine.login, mount)
    machine.check(["ip", "link", "set", "vec0", "up"])
    wait_until(lambda: reached(quick, machine, mount))
    quick.unmount(machine.login, mount)


def reached(nodes, machine, mount):
    """Whether the machine answers."""
    try:
        return nodes.look(machine.login, mount) is not None
    except contract.NodeError:
        return False


def test_a_machine_with_nothing_but_busybox_mounts_too(nodes, machine, mount):
    machine.script("mkdir /tmp/away; mv /sbin/mount.nfs* /sbin/mount /tmp/away; ln -s /bin/busybox /sbin/mount")
    seen = nodes.mount(machine.login, mount)
    machine.script("rm /sbin/mount; mv /tmp/away/* /sbin")
    assert seen.source == mount.source
    assert "vers=4.2" in seen.options
    machine.check(["touch", f"{mount.mount_point}/file"])


def test_many_machines_are_mounted_side_by_side(nodes, server):
    instance = server.instance()
    (source, *_) = [one.path for one in server.driver.create(instance).exports]
    guests = guest.start_all(server.network, ["many-a", "many-b", "many-c"])
    server.driver.set_access(instance, rules(*(f"{one.ipv4} rw" for one in guests)))
    mount = contract.Mount(name=instance.id, source=source, mount_point="/mnt/many")
    outcomes = nodes.many([contract.Job(action="mount", login=login_of(one), mount=mount) for one in guests])
    assert [one.error for one in outcomes] == [None] * 3
    guests[0].check(["sh", "-c", "echo text > /mnt/many/file && sync -f /mnt/many/file"])
    assert guests[1].check(["cat", "/mnt/many/file"]) == "text\n"
    guests[2].kill()
    away = nodes.many([contract.Job(action="unmount", login=login_of(one), mount=mount) for one in guests])
    assert [type(one.error) for one in away] == [type(None), type(None), contract.MachineUnreachable]
    for one in guests:
        one.stop()
    server.driver.delete(instance)
