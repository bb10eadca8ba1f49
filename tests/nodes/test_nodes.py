# SPDX-License-Identifier: Apache-2.0
"""Mounting through SSH on namespaces that one can log in to: OpenSSH and dropbear, root and a user with sudo."""

import msgspec
import pytest

from abaca.nodes import contract, mounts
from abaca.nodes.contract import Job
from lab import processes
from tests.nodes.machines import Memory, entry_of, wanted

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("clean")]

WAYS = {
    "openssh as root": ("openssh", "root"),
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
    entry = msgspec.structs.replace(entry_of(machine), user=user)
    before = machine.check(["cat", "/etc/fstab"])
    seen = nodes.mount(entry, mount)
    assert (seen.source, seen.made_directory, seen.is_persistent) == (mount.source, True, True)
    assert nodes.mount(entry, mount) == nodes.look(entry, mount) == seen
    nodes.unmount(entry, mount)
    nodes.unmount(entry, mount)
    assert nodes.look(entry, mount) is None
    assert machine.check(["cat", "/etc/fstab"]) == before
    assert machine.run(["test", "-e", mount.mount_point]).code == 1


def test_what_is_kept_is_what_a_boot_mounts(nodes, machine, entry, mount):
    nodes.mount(entry, mount)
    machine.check(["umount", mount.mount_point])
    machine.check(["mount", "-a"])
    assert nodes.look(entry, mount).source == mount.source
    nodes.unmount(entry, mount)


def test_only_what_bears_our_mark_is_cleared(nodes, machine, entry, mount):
    machine.check(["mkdir", "-p", mount.mount_point])
    nodes.mount(entry, mount)
    other = msgspec.structs.replace(mount, name="another")
    nodes.clear(entry, other)
    assert nodes.look(entry, mount).is_persistent, "it belongs to another attachment of the same share"
    nodes.clear(entry, mount)
    nodes.clear(entry, mount)
    assert nodes.look(entry, mount) is None
    source = mount.source
    machine.check(["mount", "-t", Memory.fstype, source, mount.mount_point])
    nodes.clear(entry, mount)
    assert nodes.look(entry, mount) is not None, "a user has mounted it by himself"
    machine.check(["umount", mount.mount_point])
    machine.check(["rmdir", mount.mount_point])


@pytest.mark.parametrize("path", HOSTILE)
def test_a_hostile_mount_point_is_a_directory_with_a_strange_name(nodes, machine, entry, path):
    mount = wanted(mount_point=path)
    assert nodes.mount(entry, mount).mount_point == path
    assert path in machine.check(["find", "/mnt", "-mindepth", "1"]).splitlines()
    machine.check(["umount", path])
    machine.check(["mount", "-a"])
    assert nodes.look(entry, mount).is_persistent
    nodes.unmount(entry, mount)
    assert machine.check(["ls", "/mnt"]) == ""


@pytest.mark.parametrize("path", ["/mnt/a\nb", "/mnt/a\0b", "/mnt/../etc/x", "mnt", "/mnt/a\\"])
def test_a_path_that_is_none_goes_nowhere(nodes, entry, path):
    with pytest.raises(contract.MountRefused, match="is no mount point"):
        nodes.mount(entry, wanted(mount_point=path))


@pytest.mark.parametrize("name", ["a b", "x\nmore", ""])
def test_a_name_that_is_none_goes_nowhere(nodes, entry, name):
    with pytest.raises(contract.MountRefused, match="is no name"):
        nodes.mount(entry, wanted(name=name))


def test_a_mount_point_that_is_taken_is_refused_with_what_is_there(nodes, machine, entry, mount):
    machine.script(f"mkdir {mount.mount_point}; mount -t tmpfs someone-elses {mount.mount_point}")
    with pytest.raises(contract.MountRefused, match=r"is taken by someone-elses .tmpfs."):
        nodes.mount(entry, mount)
    nodes.unmount(entry, mount)
    assert nodes.look(entry, mount) is None
    machine.check(["umount", mount.mount_point])
    machine.check(["rmdir", mount.mount_point])


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        ("mkdir {0}; touch {0}/file", "is not empty"),
        ("touch {0}", "is a file"),
        ("ln -s /etc {0}", "is a link to /etc"),
        ("mkdir {0}; echo 'tmpfs {0} tmpfs rw 0 0' >> /etc/fstab", "has a line for .* not Abaca's"),
        ("printf '%s\\n' '# abaca other made=' 'x {0} tmpfs rw 0 0' >> /etc/fstab", "belongs to the attachment other"),
        ("touch '/etc/systemd/system/{1}'; echo x > '/etc/systemd/system/{1}'", "systemd unit .* not Abaca's"),
    ],
)
def test_what_was_there_before_is_left_alone(nodes, machine, entry, make, reason):
    mount = wanted(mount_point="/mnt/x")
    machine.script(make.format("/mnt/x", "mnt-x.mount"))
    before = machine.check(["sh", "-c", "ls -lR --full-time /mnt; cat /etc/fstab"])
    with pytest.raises(contract.MountRefused, match=reason):
        nodes.mount(entry, mount)
    nodes.unmount(entry, mount)
    assert machine.check(["sh", "-c", "ls -lR --full-time /mnt; cat /etc/fstab"]) == before


def test_directories_above_are_made_and_go_with_it_as_long_as_they_are_empty(nodes, machine, entry):
    first, second = wanted(mount_point="/mnt/a/b/one"), wanted(mount_point="/mnt/a/b/two")
    nodes.mount(entry, first)
    nodes.mount(entry, second)
    nodes.unmount(entry, first)
    assert machine.check(["ls", "/mnt/a/b"]) == "two\n"
    nodes.unmount(entry, second)
    assert machine.check(["ls", "/mnt/a/b"]) == ""
    machine.check(["rmdir", "/mnt/a/b", "/mnt/a"])


def test_a_directory_that_was_there_stays(nodes, machine, entry, mount):
    machine.check(["mkdir", mount.mount_point])
    assert not nodes.mount(entry, mount).made_directory
    nodes.unmount(entry, mount)
    machine.check(["rmdir", mount.mount_point])


def test_a_read_only_share_becomes_writable_and_back(nodes, machine, entry, mount):
    read_only = msgspec.structs.replace(mount, is_read_only=True)
    assert nodes.mount(entry, read_only).is_read_only
    assert nodes.look(entry, mount) is None
    assert not nodes.mount(entry, mount).is_read_only
    assert nodes.mount(entry, read_only).is_read_only
    assert " ro," in machine.check(["cat", "/etc/fstab"])
    nodes.unmount(entry, read_only)


def test_it_moves_to_a_new_address_once_nobody_holds_it(nodes, machine, entry, mount):
    new = msgspec.structs.replace(mount, source=mount.source.replace("10.0.0.1", "10.0.0.2"))
    nodes.mount(entry, mount)
    held = machine.script(f"cd {mount.mount_point}; sleep 1000 > /dev/null 2>&1 & echo $!").stdout.strip()
    with pytest.raises(contract.InUse, match=rf"process {held} .sleep 1000."):
        nodes.remount(entry, new, mount)
    assert nodes.look(entry, mount).source == mount.source
    assert new.source in machine.check(["cat", "/etc/fstab"])
    machine.check(["kill", held])
    assert nodes.remount(entry, new, mount).source == new.source
    assert nodes.remount(entry, new, mount).made_directory
    nodes.unmount(entry, new)
    assert machine.check(["cat", "/etc/fstab"]) == ""


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
def test_every_way_of_holding_is_found(nodes, machine, entry, mount, tmp_path, hold):
    mapper = tmp_path / "mapper"
    mapper.write_text(MAPPER)
    mapper.chmod(0o755)
    nodes.mount(entry, mount)
    text = hold.format(mount.mount_point, mapper)
    pid = machine.script(f"(exec sh -c '{text}') > /dev/null 2>&1 & echo $!").stdout.strip()
    held = "ls -l /proc/[0-9]*/exe /proc/[0-9]*/cwd /proc/[0-9]*/fd/* 2>&1"
    shown = f"{held} | grep -q {mount.mount_point} || test -e /run/mapped"
    processes.wait_until(lambda: machine.script(shown).code == 0, 10, "the holder")
    with pytest.raises(contract.InUse) as busy:
        nodes.unmount(entry, mount)
    assert busy.value.holders
    machine.script(f"kill {pid} {' '.join(str(one.pid) for one in busy.value.holders)}; rm -f /run/mapped")
    processes.wait_until(lambda: released(nodes, entry, mount), 10, "the end of the holder")


def released(nodes, entry, mount):
    """Whether it could be unmounted now."""
    try:
        nodes.unmount(entry, mount)
    except contract.InUse:
        return False
    return True


def test_a_mount_below_holds_it_and_is_named(nodes, machine, entry, mount):
    nodes.mount(entry, mount)
    machine.script(f"mkdir {mount.mount_point}/sub; mount -t tmpfs below {mount.mount_point}/sub")
    with pytest.raises(contract.InUse, match=f"a mount at {mount.mount_point}/sub"):
        nodes.unmount(entry, mount)
    machine.check(["umount", f"{mount.mount_point}/sub"])
    nodes.unmount(entry, mount)


def test_the_rest_of_the_fstab_keeps_every_byte(nodes, machine, entry, mount):
    strange = "# caf\\351\\t  \\n\\n/dev/x  /y\\040z\\text4 a,b 0 2\\n#end \\\\ without a newline"
    machine.script(f"printf '{strange}' > /etc/fstab; chmod 640 /etc/fstab; cp -p /etc/fstab /etc/fstab.before")
    other = wanted()
    nodes.mount(entry, mount)
    nodes.mount(entry, other)
    nodes.unmount(entry, mount)
    nodes.unmount(entry, other)
    machine.check(["sh", "-c", "echo >> /etc/fstab.before; cmp /etc/fstab /etc/fstab.before"])
    assert machine.check(["stat", "-c", "%a", "/etc/fstab"]) == "640\n"
    assert machine.check(["sh", "-c", "ls /etc/fstab*"]).split() == ["/etc/fstab", "/etc/fstab.before"]
    machine.check(["rm", "/etc/fstab.before"])


def test_a_half_made_mount_is_finished_by_the_next_call(nodes, machine, entry, mount):
    nodes.mount(entry, mount)
    machine.check(["umount", mount.mount_point])
    assert nodes.look(entry, mount) is None
    assert nodes.mount(entry, mount).made_directory
    machine.script(": > /etc/fstab")
    assert not nodes.look(entry, mount).is_persistent
    assert nodes.mount(entry, mount).is_persistent
    assert machine.check(["grep", "-c", mount.mount_point, "/proc/mounts"]) == "1\n"
    nodes.unmount(entry, mount)


def test_a_mount_that_the_kernel_refuses_leaves_nothing(nodes, machine, entry, mount):
    machine.script("cp /etc/fstab /run/before")
    refused = mounts.Nodes([Refused()])
    with pytest.raises(contract.MountRefused, match=r"nonsense|bad option|wrong fs"):
        refused.mount(entry, mount)
    refused.close()
    machine.check(["cmp", "/etc/fstab", "/run/before"])
    assert machine.run(["test", "-e", mount.mount_point]).code == 1


def test_what_cannot_be_kept_is_not_mounted(nodes, machine, entry, mount):
    machine.check(["mount", "-o", "remount,ro", "/etc"])
    with pytest.raises(contract.MountRefused, match=r"after a reboot cannot be written: .*Read-only"):
        nodes.mount(entry, mount)
    assert nodes.look(entry, mount) is None
    assert machine.run(["test", "-e", mount.mount_point]).code == 1
    machine.check(["mount", "-o", "remount,rw", "/etc"])


class Refused(Memory):
    """Options that no kernel takes."""

    def options(self, mount):
        return ("rw", "nonsense=1")


def test_two_callers_at_once_lose_no_line(nodes, machine, entry):
    jobs = [Job(action="mount", entry=entry, mount=wanted()) for _ in range(6)]
    outcomes = nodes.many(jobs)
    assert [one.error for one in outcomes] == [None] * 6
    assert [one.seen.mount_point for one in outcomes] == [job.mount.mount_point for job in jobs]
    assert machine.check(["grep", "-c", "^# abaca ", "/etc/fstab"]) == "6\n"
    away = nodes.many([Job(action="unmount", entry=entry, mount=job.mount) for job in jobs])
    assert [one.error for one in away] == [None] * 6
    assert machine.check(["cat", "/etc/fstab"]) == ""
