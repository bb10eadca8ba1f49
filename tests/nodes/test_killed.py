# SPDX-License-Identifier: Apache-2.0
"""Whatever is killed at whatever moment, the next call finishes it, and unmounting leaves no trace."""

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from abaca.nodes import contract, mounts, shell
from abaca.nodes.machine import Remote
from abaca.nodes.shell import Limits
from tests.conftest import wait_until
from tests.nodes.machines import Memory, wanted

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("clean")]
MOMENTS_S = [n / 100 for n in range(1, 24, 2)]
TRACES = "find /mnt -mindepth 1; grep /mnt/a /proc/mounts; cat /etc/fstab; ls -d /etc/fstab* /etc/systemd/system/mnt-*"


@pytest.mark.parametrize("limit_s", MOMENTS_S)
def test_killed_while_mounting_and_unmounting(nodes, machine, login, limit_s):
    hasty = mounts.Nodes([Memory()], limits=Limits(command_s=limit_s))
    mount = wanted(mount_point="/mnt/a/b")
    with contextlib.suppress(contract.NodeError):
        hasty.mount(login, mount)
    assert nodes.mount(login, mount).made_directory
    new = msgspec.structs.replace(mount, source="10.0.0.2:/x")
    with contextlib.suppress(contract.NodeError):
        hasty.remount(login, new, mount)
    assert nodes.remount(login, new, mount).is_persistent
    assert machine.check(["grep", "-c", "/mnt/a/b", "/proc/mounts"]) == "1\n"
    with contextlib.suppress(contract.NodeError):
        hasty.unmount(login, new)
    nodes.unmount(login, new)
    hasty.close()
    assert machine.script(TRACES).stdout == "/etc/fstab\n"


@pytest.mark.parametrize("limit_s", MOMENTS_S[::3])
def test_killed_while_mounting_for_the_first_time_and_given_up(nodes, machine, login, limit_s):
    hasty = mounts.Nodes([Memory()], limits=Limits(command_s=limit_s))
    mount = wanted(mount_point="/mnt/a/b")
    with contextlib.suppress(contract.NodeError):
        hasty.mount(login, mount)
    nodes.unmount(login, mount)
    hasty.close()
    assert machine.script(TRACES).stdout.replace("/etc/fstab.abaca\n", "") == "/etc/fstab\n"


def test_what_was_given_up_before_it_began_leaves_nothing_when_it_is_unmounted(nodes, machine, login):
    nodes.unmount(login, wanted(mount_point="/mnt/a/b"))
    assert machine.script(f"{TRACES}; ls -d /run/abaca-turn-*").stdout == "/etc/fstab\n"


WAITING = "grep -lze '^name=' -e '^flock$' /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3"


def waiting(machine):
    """The processes of a command that waits for its turn: the limit, the shell, and in it the limit and the lock."""
    return machine.script(WAITING).stdout.split()


def hold_turn(machine, mount):
    """Somebody is at work for the same attachment, until `let_go`."""
    machine.script(
        f"(flock 8; exec sleep 1000) 8> /run/abaca-turn-{mount.name} > /dev/null 2>&1 & echo $! > /run/locker"
    )


def let_go(machine):
    machine.script("kill $(cat /run/locker)")


@pytest.mark.parametrize("user", ["root", "operator"])
def test_what_takes_too_long_is_told_as_that(machine, login, mount, user):
    """It is killed on the machine, which says so by a signal."""
    hasty = mounts.Nodes([Memory()], limits=Limits(command_s=2))
    hold_turn(machine, mount)
    with pytest.raises(contract.TimedOut, match="killed after 2 s"):
        hasty.unmount(msgspec.structs.replace(login, user=user), mount)
    hasty.close()
    let_go(machine)


def test_an_answer_that_nobody_waited_for_is_not_taken_for_the_next(nodes, machine, login, mount):
    other, limits = wanted(), Limits()
    nodes.mount(login, mount)
    nodes.mount(login, other)
    hold_turn(machine, mount)

    async def leave_one_and_look():
        async with shell.connected(login, limits) as connection:
            hand = Remote(connection, limits)
            one, two = (mounts.Visit(hand, share, Memory(), limits, None) for share in (mount, other))
            await one.look()
            left = asyncio.create_task(one.unmount())
            await asyncio.to_thread(wait_until, lambda: len(waiting(machine)) == 4, 20)
            left.cancel()
            async with asyncio.timeout(10):
                return await two.look()

    assert asyncio.run(leave_one_and_look()).source == other.source
    let_go(machine)


def test_what_a_killed_worker_left_waiting_does_nothing_when_its_turn_comes(nodes, machine, login):
    """A loaded machine may be so late with it that the next worker has unmounted meanwhile."""
    mount = wanted(mount_point="/mnt/a/b")
    hold_turn(machine, mount)
    killed = mounts.Nodes([Memory()], limits=Limits(command_s=40))

    def work():
        with contextlib.suppress(contract.NodeError):
            killed.mount(login, mount)

    worker = threading.Thread(target=work)
    worker.start()
    left = wait_until(lambda: found if len(found := waiting(machine)) == 4 else None)
    machine.script(f"kill -STOP {' '.join(left)}")
    killed.close()
    worker.join(60)
    let_go(machine)
    nodes.unmount(login, mount)
    machine.script(f"kill -CONT {' '.join(left)}")
    wait_until(lambda: waiting(machine) == [])
    assert machine.script(TRACES).stdout == "/etc/fstab\n"


def test_a_link_that_is_put_in_the_way_at_the_last_moment_leads_no_mount_astray(nodes, machine, login):
    """Where users may write they can exchange a directory after it was looked at."""
    mount = wanted(mount_point="/mnt/theirs/x")
    machine.script("mkdir -p /mnt/theirs /mnt/keys/x")
    hold_turn(machine, mount)
    with ThreadPoolExecutor(1) as pool:
        mounting = pool.submit(nodes.mount, login, mount)
        wait_until(lambda: len(waiting(machine)) == 4)
        machine.script("rmdir /mnt/theirs && ln -s /mnt/keys /mnt/theirs")
        let_go(machine)
        with pytest.raises(contract.MountRefused, match="leads through a link by now"):
            mounting.result(20)
    assert machine.script("grep -c /mnt/keys /proc/mounts").stdout == "0\n"
    assert machine.script("ls -d /mnt/keys/x; cat /etc/fstab").stdout == "/mnt/keys/x\n"
