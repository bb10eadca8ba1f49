# SPDX-License-Identifier: Apache-2.0
"""Mounting through SSH on namespaces that one can log in to: OpenSSH and dropbear, root and a user with sudo."""

import msgspec
import pytest

from abaca.nodes import contract
from lab import processes
from tests.nodes.machines import login_of, wanted

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("clean")]

WAYS = {
    "openssh by sudo": ("openssh", "operator"),
    "dropbear": ("dropbear", "root"),
}
MAPPER = """#!/usr/bin/python3
import mmap, os, sys, time
descriptor = os.open(sys.argv[1], os.O_RDWR)
mapping = mmap.mmap(descriptor, 1)
os.close(descriptor)
open("/run/mapped", "w")
time.sleep(1000)
"""
HOSTILE = [
    '/mnt/it\'s "quoted"',
    "/mnt/$(touch /mnt/pwned)",
    "/mnt/`id`;reboot|x&y",
    "/mnt/a b  c",
    "/mnt/*?[x]",
    "/mnt/-rf",
]


def test_a_machine_of_the_lab_cannot_change_this_host(machine):
    for place in ("/usr/x", "/var/x", "/root/x", "/x"):
        assert "Read-only" in machine.run(["touch", place]).stderr


@pytest.mark.parametrize(("server", "user"), WAYS.values(), ids=WAYS)
def test_the_whole_way_there_and_back(nodes, machines, mount, server, user):
    machine = machines[server]
    login = msgspec.structs.replace(login_of(machine), user=user)
    before = machine.check(["cat", "/etc/fstab"])
    seen = nodes.mount(login, mount)
    assert (seen.source, seen.made_directory, seen.is_persistent) == (mount.source, True, True)
    assert nodes.mount(login, mount) == nodes.look(login, mount) == seen
    nodes.unmount(login, mount)
    nodes.unmount(login, mount)
    assert nodes.look(login, mount) is None
    assert machine.check(["cat", "/etc/fstab"]) == before
    assert machine.run(["test", "-e", mount.mount_point]).code == 1


@pytest.mark.parametrize("path", HOSTILE)
def test_a_hostile_mount_point_is_a_directory_with_a_strange_name(nodes, machine, login, path):
    mount = wanted(mount_point=path)
    assert nodes.mount(login, mount).mount_point == path
    assert path in machine.check(["find", "/mnt", "-mindepth", "1"]).splitlines()
    machine.check(["umount", path])
    machine.check(["mount", "-a"])
    assert nodes.look(login, mount).is_persistent
    nodes.unmount(login, mount)
    assert machine.check(["ls", "/mnt"]) == ""


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        ("mkdir {0}; echo 'tmpfs {0} tmpfs rw 0 0' >> /etc/fstab", "has a line for .* not Abaca's"),
        ("touch '/etc/systemd/system/{1}'; echo x > '/etc/systemd/system/{1}'", "systemd unit .* not Abaca's"),
    ],
)
def test_what_was_there_before_is_left_alone(nodes, machine, login, make, reason):
    mount = wanted(mount_point="/mnt/x")
    machine.script(make.format("/mnt/x", "mnt-x.mount"))
    before = machine.check(["sh", "-c", "ls -lR --full-time /mnt; cat /etc/fstab"])
    with pytest.raises(contract.MountRefused, match=reason):
        nodes.mount(login, mount)
    nodes.unmount(login, mount)
    assert machine.check(["sh", "-c", "ls -lR --full-time /mnt; cat /etc/fstab"]) == before


@pytest.mark.parametrize(
    "hold",
    [
        "cd {0} && sleep 1000",
        "exec 9> {0}/open && sleep 1000",
        "cp /bin/sleep {0}/prog && {0}/prog 1000",
        "echo x > {0}/map && exec {1} {0}/map",
    ],
    ids=["directory", "file", "program", "mapping"],
)
def test_every_way_of_holding_is_found(nodes, machine, login, mount, tmp_path, hold):
    mapper = tmp_path / "mapper"
    mapper.write_text(MAPPER)
    mapper.chmod(0o755)
    nodes.mount(login, mount)
    text = hold.format(mount.mount_point, mapper)
    pid = machine.script(f"(exec sh -c '{text}') > /dev/null 2>&1 & echo $!").stdout.strip()
    held = "ls -l /proc/[0-9]*/exe /proc/[0-9]*/cwd /proc/[0-9]*/fd/* 2>&1"
    shown = f"{held} | grep -q {mount.mount_point} || test -e /run/mapped"
    processes.wait_until(lambda: machine.script(shown).code == 0, 10, "the holder")
    with pytest.raises(contract.InUse) as busy:
        nodes.unmount(login, mount)
    assert busy.value.holders
    machine.script(f"kill {pid} {' '.join(str(one.pid) for one in busy.value.holders)}; rm -f /run/mapped")
    processes.wait_until(lambda: released(nodes, login, mount), 10, "the end of the holder")


def released(nodes, login, mount):
    """Whether it could be unmounted now."""
    try:
        nodes.unmount(login, mount)
    except contract.InUse:
        return False
    return True


def test_the_rest_of_the_fstab_keeps_every_byte(nodes, machine, login, mount):
    strange = "# caf\\351\\t  \\n\\n/dev/x  /y\\040z\\text4 a,b 0 2\\n#end \\\\ without a newline"
    machine.script(f"printf '{strange}' > /etc/fstab; chmod 640 /etc/fstab; cp -p /etc/fstab /etc/fstab.before")
    other = wanted()
    nodes.mount(login, mount)
    nodes.mount(login, other)
    nodes.unmount(login, mount)
    nodes.unmount(login, other)
    machine.check(["sh", "-c", "echo >> /etc/fstab.before; cmp /etc/fstab /etc/fstab.before"])
    assert machine.check(["stat", "-c", "%a", "/etc/fstab"]) == "640\n"
    assert machine.check(["sh", "-c", "ls /etc/fstab*"]).split() == ["/etc/fstab", "/etc/fstab.before"]
    machine.check(["rm", "/etc/fstab.before"])


def test_what_cannot_be_kept_is_not_mounted(nodes, machine, login, mount):
    machine.check(["mount", "-o", "remount,ro", "/etc"])
    with pytest.raises(contract.MountRefused, match=r"after a reboot cannot be written: .*Read-only"):
        nodes.mount(login, mount)
    assert nodes.look(login, mount) is None
    assert machine.run(["test", "-e", mount.mount_point]).code == 1
    machine.check(["mount", "-o", "remount,rw", "/etc"])
