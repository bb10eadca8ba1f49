# SPDX-License-Identifier: Apache-2.0
"""Whatever is killed at whatever moment, the next call finishes it, and unmounting leaves no trace."""

import contextlib

import msgspec
import pytest

from abaca.nodes import contract, mounts
from abaca.nodes.shell import Limits
from tests.nodes.machines import Memory, wanted

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("clean")]
MOMENTS_S = [n / 100 for n in range(1, 24, 2)]
TRACES = "find /mnt -mindepth 1; grep /mnt/a /proc/mounts; cat /etc/fstab; ls -d /etc/fstab* /etc/systemd/system/mnt-*"


@pytest.mark.parametrize("limit_s", MOMENTS_S)
def test_killed_while_mounting_and_unmounting(nodes, machine, entry, limit_s):
    hasty = mounts.Nodes([Memory()], limits=Limits(command_s=limit_s))
    mount = wanted(mount_point="/mnt/a/b")
    with contextlib.suppress(contract.NodeError):
        hasty.mount(entry, mount)
    assert nodes.mount(entry, mount).made_directory
    new = msgspec.structs.replace(mount, source="10.0.0.2:/x")
    with contextlib.suppress(contract.NodeError):
        hasty.remount(entry, new, mount)
    assert nodes.remount(entry, new, mount).is_persistent
    assert machine.check(["grep", "-c", "/mnt/a/b", "/proc/mounts"]) == "1\n"
    with contextlib.suppress(contract.NodeError):
        hasty.unmount(entry, new)
    nodes.unmount(entry, new)
    hasty.close()
    assert machine.script(TRACES).stdout == "/etc/fstab\n"


@pytest.mark.parametrize("limit_s", MOMENTS_S[::3])
def test_killed_while_mounting_for_the_first_time_and_given_up(nodes, machine, entry, limit_s):
    hasty = mounts.Nodes([Memory()], limits=Limits(command_s=limit_s))
    mount = wanted(mount_point="/mnt/a/b")
    with contextlib.suppress(contract.NodeError):
        hasty.mount(entry, mount)
    nodes.unmount(entry, mount)
    hasty.close()
    assert machine.script(TRACES).stdout.replace("/etc/fstab.abaca\n", "") == "/etc/fstab\n"
