# SPDX-License-Identifier: Apache-2.0
"""Mounting on real machines with a real NFS client, from a real server."""

import pytest

from abaca.nodes import contract
from tests.conftest import wait_until

pytestmark = pytest.mark.system


def test_a_mounted_share_can_be_written_and_is_kept_and_seen(nodes, machine, mount, server, share):
    assert nodes.look(machine.entry, mount) is None
    seen = nodes.mount(machine.entry, mount)
    assert seen.source == mount.source
    assert (seen.mount_point, seen.fstype) == (mount.mount_point, "nfs4")
    assert {"rw", "vers=4.2", "hard", "timeo=600", "retrans=2"} <= set(seen.options)
    assert (seen.is_read_only, seen.made_directory, seen.is_persistent) == (False, True, True)
    machine.check(["sh", "-c", f"echo text > {mount.mount_point}/file && sync -f {mount.mount_point}/file"])
    assert server.read(share[0]) == "text\n"
    assert nodes.look(machine.entry, mount) == seen


def test_mounting_again_changes_nothing(nodes, machine, mount):
    first = nodes.mount(machine.entry, mount)
    kept = machine.check(["cat", "/etc/fstab"])
    assert nodes.mount(machine.entry, mount) == first
    assert machine.check(["cat", "/etc/fstab"]) == kept
    assert machine.check(["grep", "-c", mount.mount_point, "/proc/mounts"]) == "1\n"


def test_unmounting_leaves_no_trace_and_may_be_repeated(nodes, machine, mount):
    before = "# of the administrator\n/dev/sda1  /data\text4 defaults 0 2"
    machine.script(f"printf '{before}' > /run/host/fstab")
    nodes.mount(machine.entry, mount)
    assert machine.check(["cat", "/etc/fstab"]).startswith(f"{before}\n# abaca {mount.name} ")
    nodes.unmount(machine.entry, mount)
    assert nodes.look(machine.entry, mount) is None
    assert machine.check(["cat", "/etc/fstab"]) == f"{before}\n"
    assert machine.run(["test", "-e", mount.mount_point]).code == 1
    nodes.unmount(machine.entry, mount)


def test_a_rebooted_machine_comes_back_mounted(nodes, machine, mount):
    first = nodes.mount(machine.entry, mount)
    machine.kill()
    machine.start()
    wait_until(lambda: machine.run(["grep", "-q", mount.mount_point, "/proc/mounts"]).code == 0, 20)
    again = nodes.look(machine.entry, mount)
    assert again.source == mount.source
    assert again.boot_id != first.boot_id


def test_a_busy_share_is_not_detached_and_its_holder_is_named(nodes, machine, mount):
    nodes.mount(machine.entry, mount)
    machine.script(f"cd {mount.mount_point} && exec 9> open && (sleep 1000 & echo $! > /tmp/sleeper) > /dev/null 2>&1")
    pid = int(machine.check(["cat", "/tmp/sleeper"]))
    with pytest.raises(contract.InUse) as busy:
        nodes.unmount(machine.entry, mount)
    assert contract.Holder(pid, "sleep 1000") in busy.value.holders
    assert f"process {pid} (sleep 1000)" in str(busy.value)
    assert nodes.look(machine.entry, mount).is_persistent
    nodes.unmount(machine.entry, mount, force=True)
    assert nodes.look(machine.entry, mount) is None
    machine.check(["kill", str(pid)])
