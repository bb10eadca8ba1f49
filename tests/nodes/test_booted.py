# SPDX-License-Identifier: Apache-2.0
"""A machine that systemd has booted, with a real NFS client: what is left there is systemd's to keep and to forget."""

import msgspec
import pytest

from abaca.domain.attachments import mount_instructions
from abaca.nodes import contract, mounts, persistence
from abaca.nodes.contract import Mount
from abaca.nodes.nfs import Nfs
from abaca.nodes.shell import Limits
from lab.booted import BootedGuest
from tests.conftest import wait_until
from tests.drivers.harness import rules
from tests.nodes.machines import login_of, standing_still

pytestmark = pytest.mark.system

# What an attachment could leave: units, loaded or as files, lines, mounts, directories.
TRACES = """
systemctl list-units --all --plain --no-legend 'mnt-*'
systemctl list-unit-files --no-legend 'mnt-*'
find /etc/systemd /run/systemd/generator* /mnt -name 'mnt-*' -o -path '/mnt/*'
grep /mnt /proc/mounts
cat /etc/fstab
systemctl --failed --plain --no-legend
"""
LONG = "/mnt/" + "-" * 80


@pytest.fixture(scope="module")
def machine(server):
    with BootedGuest(server.network, "booted") as started:
        yield started


@pytest.fixture(scope="module")
def login(machine):
    return login_of(machine)


@pytest.fixture(scope="module")
def nodes(server):
    made = mounts.Nodes([Nfs(port=server.port)], limits=Limits(connect_s=20, command_s=60))
    yield made
    made.close()


@pytest.fixture(scope="module")
def hasty(server):
    made = mounts.Nodes([Nfs(port=server.port)], limits=Limits(connect_s=20, command_s=10))
    yield made
    made.close()


@pytest.fixture
def share(server, machine):
    """A share that the machine may write, with its `exports`."""
    instance = server.instance()
    exports = server.driver.create(instance).exports
    server.driver.set_access(instance, rules(f"{machine.ipv4} rw", f"{machine.ipv6} rw"))
    yield instance, [one.path for one in exports]
    machine.script("umount -f -l -a -t nfs4; rm -rf /etc/systemd/system/mnt-*; : > /etc/fstab; systemctl daemon-reload")
    server.driver.delete(instance)


@pytest.fixture
def mount(share):
    instance, exports = share
    return Mount(name=instance.id, source=exports[0], mount_point="/mnt/my share")


def told(machine, mount, *properties):
    """What systemd says of the unit of a mount."""
    unit = persistence.unit_name(mount.mount_point)
    lines = machine.check(["systemctl", "show", unit, f"--property={','.join(properties)}"]).splitlines()
    values = dict(line.partition("=")[::2] for line in lines)
    return [values[name] for name in properties]


def booted(machine):
    """How the machine's boot has ended."""
    return machine.run(["systemctl", "is-system-running", "--wait"], 60).stdout.strip()


def test_the_machine_is_as_it_should_be_before_anything_is_attached(machine):
    assert booted(machine) == "running"
    assert machine.check(["cat", "/proc/1/comm"]) == "systemd\n"
    assert machine.script(TRACES).stdout == ""


def test_a_mounted_share_is_a_unit_and_leaves_no_trace(nodes, machine, login, mount, server, share):
    seen = nodes.mount(login, mount)
    assert (seen.source, seen.fstype, seen.is_persistent) == (mount.source, "nfs4", True)
    assert machine.check(["cat", "/etc/fstab"]) == ""
    state = ["ActiveState", "UnitFileState", "What", "NeedDaemonReload", "Result"]
    assert told(machine, mount, *state) == ["active", "enabled", mount.source, "no", "success"]
    machine.script(f"echo text > '{mount.mount_point}/file' && sync -f '{mount.mount_point}/file'")
    assert server.read(share[0]) == "text\n"
    assert nodes.mount(login, mount) == seen
    nodes.unmount(login, mount)
    assert machine.script(TRACES).stdout == ""
    assert booted(machine) == "running"


def test_the_unit_of_the_connect_document_brings_a_share_back_after_a_boot(machine, server, share):
    instance, exports = share
    way = mount_instructions.Way(instance.id, exports[0], "/mnt/by-hand", "rw", 1, server.port)
    name = mount_instructions.unit_name(way.mount_point)
    (machine.disk / "etc/systemd/system" / name).write_text(mount_instructions.unit(way))
    machine.check(["systemctl", "enable", "--now", name])
    machine.check(["sh", "-c", "echo text > /mnt/by-hand/file && sync -f /mnt/by-hand/file"])
    machine.switch_off()
    machine.start()
    assert booted(machine) == "running"
    assert machine.check(["cat", "/mnt/by-hand/file"]) == "text\n"
    machine.check(["systemctl", "disable", "--now", name])
    machine.check(["rmdir", "/mnt/by-hand"])
    machine.check(["rm", f"/etc/systemd/system/{name}"])
    machine.check(["systemctl", "daemon-reload"])
    assert machine.script(TRACES).stdout == ""


def test_the_unit_that_a_forgotten_attachment_has_left_is_taken_over(nodes, machine, login, mount):
    heir = msgspec.structs.replace(mount, name="heir", former=mount.name)
    seen = nodes.mount(login, mount)
    since = told(machine, mount, "ActiveEnterTimestampMonotonic")
    assert nodes.mount(login, heir) == seen
    assert told(machine, mount, "ActiveState", "UnitFileState", "NeedDaemonReload") == ["active", "enabled", "no"]
    assert told(machine, mount, "ActiveEnterTimestampMonotonic") == since, "it was mounted all the time"
    nodes.unmount(login, heir)
    assert machine.script(TRACES).stdout == ""


def test_after_a_boot_everything_is_back_and_then_leaves_no_trace(nodes, machine, login, mount):
    long = msgspec.structs.replace(mount, name="long", mount_point=LONG)
    first = nodes.mount(login, mount)
    assert nodes.mount(login, long).is_persistent
    assert LONG in machine.check(["cat", "/etc/fstab"]), "a unit's name would be too long"
    machine.switch_off()
    machine.start()
    assert booted(machine) == "running"
    again = nodes.look(login, mount)
    assert msgspec.structs.replace(again, boot_id=first.boot_id) == first
    assert again.boot_id != first.boot_id
    assert told(machine, mount, "ActiveState", "What") == ["active", mount.source]
    assert nodes.look(login, long).is_persistent
    nodes.unmount(login, mount)
    nodes.unmount(login, long)
    assert machine.script(TRACES).stdout == ""


def test_what_the_server_refused_at_boot_is_put_right_and_no_unit_stays_failed(
    nodes, machine, login, mount, server, share
):
    nodes.mount(login, mount)
    machine.kill()
    server.driver.set_access(share[0], [])
    machine.start()
    assert booted(machine) == "degraded"
    assert told(machine, mount, "ActiveState") == ["failed"]
    assert nodes.look(login, mount) is None
    server.driver.set_access(share[0], rules(f"{machine.ipv4} rw"))
    assert nodes.mount(login, mount).is_persistent
    assert told(machine, mount, "ActiveState") == ["active"]
    assert booted(machine) == "running"
    nodes.unmount(login, mount)
    assert machine.script(TRACES).stdout == ""


def test_a_boot_goes_on_while_the_server_is_silent_and_the_share_comes_when_it_speaks(
    nodes, hasty, machine, login, mount, server
):
    nodes.mount(login, mount)
    machine.kill()
    with standing_still(server):
        machine.start()
        wait_until(lambda: told(machine, mount, "ActiveState") == ["activating"], every_s=0.2)
        assert hasty.look(login, mount) is None
        with pytest.raises(contract.TimedOut):
            hasty.mount(login, mount)
    assert booted(machine) == "running"
    assert nodes.mount(login, mount).is_persistent
    assert machine.check(["grep", "-c", "nfs4", "/proc/mounts"]) == "1\n"
    nodes.unmount(login, mount)
    assert machine.script(TRACES).stdout == ""


def test_after_a_move_the_unit_is_that_of_the_new_address(nodes, machine, login, mount, share):
    new = msgspec.structs.replace(mount, source=share[1][1])
    nodes.mount(login, mount)
    assert nodes.remount(login, new, mount).source == new.source
    assert told(machine, mount, "ActiveState", "What", "NeedDaemonReload") == ["active", new.source, "no"]
    machine.check(["systemctl", "restart", persistence.unit_name(mount.mount_point)])
    assert told(machine, mount, "ActiveState", "What") == ["active", new.source]
    machine.check(["systemctl", "disable", "--now", persistence.unit_name(mount.mount_point)])
    assert nodes.mount(login, new).is_persistent, "an administrator had stopped and disabled it"
    assert told(machine, mount, "ActiveState", "UnitFileState") == ["active", "enabled"]
    nodes.unmount(login, new)
    assert machine.script(TRACES).stdout == ""
