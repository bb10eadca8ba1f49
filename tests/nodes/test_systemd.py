# SPDX-License-Identifier: Apache-2.0
"""What a mount leaves on a machine that systemd has booted."""

import pytest

from tests.nodes.machines import wanted

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("clean")]


@pytest.fixture
def systemd(machine):
    """The machine seems to have been booted by systemd; its systemctl works on the files alone."""
    machine.script(
        "mkdir -p /run/systemd/system; cp /usr/bin/systemctl /run/systemctl;"
        ' printf \'#!/bin/sh\\necho "$@" >> /run/calls\\nSYSTEMD_OFFLINE=1 exec /run/systemctl "$@"\\n\' > /run/stub;'
        " chmod 755 /run/stub; mount --bind /run/stub /usr/bin/systemctl"
    )
    yield machine
    machine.script("umount /usr/bin/systemctl; rm -rf --one-file-system /run/systemd /run/calls")


def test_where_there_is_systemd_a_unit_brings_it_back(nodes, systemd, entry):
    mount = wanted(mount_point="/mnt/my share-1")
    name = "mnt-my\\x20share\\x2d1.mount"
    unit, link = f"/etc/systemd/system/{name}", f"/etc/systemd/system/remote-fs.target.wants/{name}"
    seen = nodes.mount(entry, mount)
    assert seen.is_persistent
    text = systemd.check(["cat", unit])
    assert text.startswith(f"# abaca {mount.name} made=/mnt/my\\040share-1\n")
    assert f"\nWhat={mount.source}\nWhere=/mnt/my share-1\nType=tmpfs\nOptions=rw,size=1m,_netdev\n" in text
    assert systemd.check(["readlink", link]).strip() == unit
    assert systemd.check(["cat", "/etc/fstab"]) == ""
    assert nodes.mount(entry, mount) == seen
    assert systemd.check(["cat", "/run/calls"]).splitlines() == ["daemon-reload", f"enable {name}"]
    nodes.unmount(entry, mount)
    assert systemd.run(["ls", unit]).code != 0
    assert systemd.run(["readlink", link]).code != 0
    calls = systemd.check(["cat", "/run/calls"]).splitlines()
    assert calls[2:] == [f"disable {name}", "daemon-reload", f"reset-failed {name}"]


def test_a_unit_that_was_not_enabled_is_enabled_by_the_next_call(nodes, systemd, entry, mount):
    nodes.mount(entry, mount)
    systemd.script("rm /etc/systemd/system/remote-fs.target.wants/mnt-*")
    assert not nodes.look(entry, mount).is_persistent
    assert nodes.mount(entry, mount).is_persistent
    nodes.unmount(entry, mount)


def test_a_mount_point_too_long_for_a_unit_stands_in_the_fstab(nodes, systemd, entry):
    mount = wanted(mount_point="/mnt/" + "-" * 80)
    assert nodes.mount(entry, mount).is_persistent
    assert "-" * 80 in systemd.check(["cat", "/etc/fstab"])
    nodes.unmount(entry, mount)
    assert systemd.check(["cat", "/etc/fstab"]) == ""


def test_what_was_kept_by_the_fstab_stays_there_when_systemd_comes(nodes, machine, entry, mount, request):
    nodes.mount(entry, mount)
    systemd = request.getfixturevalue("systemd")
    assert nodes.mount(entry, mount).is_persistent
    assert systemd.run(["ls", "/run/calls"]).code != 0
    nodes.unmount(entry, mount)
    assert systemd.check(["cat", "/etc/fstab"]) == ""
