# SPDX-License-Identifier: Apache-2.0
"""Who may reach a share changes while a machine has it mounted, and the machine sees it at its next request."""

import pytest

from tests.conftest import wait_until
from tests.system.world import World

PLACE = "/mnt/share"


@pytest.fixture(scope="module")
def world(run, network, machine):
    return World(run, network=network).start()


@pytest.fixture
def share(world, machine):
    """A share that nobody may reach yet."""
    share_id = world.share()
    yield share_id
    machine.run(["umount", "-f", "-l", PLACE])
    world.delete(share_id)
    world.compare()


def write(machine):
    """What the machine says to a line that is written through to the server; empty when it was taken."""
    result = machine.script(f"echo line > {PLACE}/file && sync {PLACE}/file")
    assert (result.code == 0) == (result.stderr == "")
    return result.stderr


def look(machine):
    """What the machine says to a look at what the server has."""
    return machine.script(f"ls {PLACE} > /dev/null && cat {PLACE}/file > /dev/null").stderr


def test_a_rule_that_becomes_read_only_ends_writing_and_one_that_is_taken_back_ends_reading(world, machine, share):
    rule = world.allow(share, machine.ipv4)
    world.mount(machine, world.locations(share)[0], PLACE)
    assert write(machine) == ""
    world.change(rule, "ro")
    assert "Read-only file system" in write(machine)
    assert look(machine) == ""
    world.change(rule, "rw")
    assert write(machine) == ""
    world.deny(share, rule)
    assert "Permission denied" in write(machine)
    assert look(machine) != ""
    world.allow(share, machine.ipv4)
    assert write(machine) == ""


def test_a_rule_for_an_ipv6_address_lets_it_in_and_no_other(world, machine, share):
    place = next(location for location in world.locations(share) if location.startswith("["))
    rule = world.allow(share, machine.ipv6.replace("::11", "::99"))
    machine.check(["mkdir", "-p", PLACE])
    mount = ["mount", "-t", "nfs4", "-o", f"vers=4.2,port={world.nfs_port}", place, PLACE]
    assert machine.run(mount).code != 0
    world.allow(share, machine.ipv6)
    world.mount(machine, place, PLACE)
    assert write(machine) == ""
    world.deny(share, rule)
    assert write(machine) == ""


def test_one_address_of_a_network_may_only_read_while_its_neighbours_write(world, machine, share):
    world.allow(share, str(world.network.network_v4))
    world.mount(machine, world.locations(share)[0], PLACE)
    neighbour = world.allow(share, str(world.network.network_v4[77]), "ro")
    assert write(machine) == ""
    own = world.allow(share, machine.ipv4, "ro")
    assert "Read-only file system" in write(machine)
    world.deny(share, neighbour)
    assert "Read-only file system" in write(machine)
    world.deny(share, own)
    assert write(machine) == ""


def test_a_client_that_was_shut_out_in_the_middle_of_writing_gets_an_error_and_does_not_hang(world, machine, share):
    rule = world.allow(share, machine.ipv4)
    world.mount(machine, world.locations(share)[0], PLACE)
    machine.script(
        f"(n=0; while echo $n | dd conv=fsync >> {PLACE}/file 2> /tmp/said; do n=$((n + 1)); done; : > /tmp/over)"
        " > /dev/null 2>&1 &"
    )
    wait_until(lambda: machine.run(["test", "-s", f"{PLACE}/file"]).code == 0)
    world.deny(share, rule)
    wait_until(lambda: machine.run(["test", "-e", "/tmp/over"]).code == 0)
    machine.check(["umount", "-f", PLACE])


def test_a_deleted_share_is_stale_at_once_and_can_be_unmounted(world, machine):
    share_id = world.share()
    world.allow(share_id, machine.ipv4)
    world.mount(machine, world.locations(share_id)[0], PLACE)
    assert write(machine) == ""
    world.delete(share_id)
    assert "Stale file handle" in write(machine)
    machine.check(["umount", PLACE])
    world.compare()
