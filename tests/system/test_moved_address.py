# SPDX-License-Identifier: Apache-2.0
"""A back end moves to another export address while machines write: nobody notices until the old address is gone.

The steps are those of the operator's page docs/operating/ensuring.md, in its order.
"""

import pytest

from lab import guest
from tests.conftest import wait_until
from tests.system.test_access import write
from tests.system.world import World, Writer

PLACE = "/mnt/share"
UNNOTICED_S = 3


@pytest.fixture(scope="module")
def addresses(network):
    """The old one, and the new."""
    return network.host_ipv4, network.address(2)


@pytest.fixture(scope="module")
def machines(network):
    """One that will move, one that will stay too long, and one that comes late."""
    started = guest.start_all(network, ["moves", "stays", "late"])
    yield started
    for machine in started:
        machine.stop()


@pytest.fixture(scope="module")
def world(run, network, addresses):
    return World(run, {"local": {"export_ips": addresses[0]}}, network=network).start()


@pytest.fixture(scope="module")
def shares(world, machines):
    """A share for each machine, mounted by those who do not come late."""
    made = [world.share(name=machine.name) for machine in machines]
    for machine, share_id in zip(machines, made, strict=True):
        world.allow(share_id, machine.ipv4)
    for machine, share_id in zip(machines[:2], made, strict=False):
        world.mount(machine, world.locations(share_id)[0], PLACE)
    return made


def take(world, **options):
    """Let the worker take the back end's changed section, as the page says; what is found is that of the ensuring."""
    before = len(world.log())
    world.abaca.configure("local", **options)
    world.abaca.reload()
    wait_until(lambda: "back end local serves by its changed options" in world.log()[before:])
    return world.ensure()


def take_at_a_restart(world, **options):
    """The same, where the worker cannot be told."""
    world.abaca.configure("local", **options)
    world.abaca.stop()
    world.abaca.start()
    return world.ensure()


def hosts(world, share_id):
    """The addresses of its export locations, the preferred one first."""
    return [path.partition(":")[0] for path in world.locations(share_id)]


def test_a_new_address_is_noticed_by_nobody_but_those_who_stay_on_the_old_one(
    world, network, addresses, machines, shares, figure
):
    (old, new), (moves, stays, late) = addresses, machines
    moving, staying = Writer(moves, f"{PLACE}/before"), Writer(stays, f"{PLACE}/all")
    network.add_address(new)
    assert take(world, export_ips=f"{new}, {old}")["failed"] == 0
    assert [hosts(world, share_id) for share_id in shares] == [[new, old]] * 3
    for writer in (moving, staying):
        writer.wait_for_more(20)
    world.mount(late, world.locations(shares[2])[0], PLACE)
    assert write(late) == ""

    gap_s = moving.finish()
    figure("longest gap in writing while the address moved", gap_s, "s")
    assert gap_s < UNNOTICED_S
    before = moves.check(["cat", f"{PLACE}/before"])
    moves.check(["umount", PLACE])
    world.mount(moves, world.locations(shares[0])[0], PLACE)
    assert moves.check(["cat", f"{PLACE}/before"]) == before
    moved = Writer(moves, f"{PLACE}/after")

    assert take_at_a_restart(world, export_ips=new)["failed"] == 0
    assert [hosts(world, share_id) for share_id in shares] == [[new]] * 3
    staying.wait_for_more(20)

    network.remove_address(old)
    reached = staying.count()
    moved.wait_for_more(50)
    assert staying.count() <= reached + 1
    assert write(late) == ""
    stays.check(["umount", "-f", "-l", PLACE], timeout_s=60)
    world.mount(stays, world.locations(shares[1])[0], PLACE)
    assert write(stays) == ""
    assert moved.finish() < UNNOTICED_S
    world.compare()


def test_a_rule_that_the_nfs_server_has_lost_is_applied_again(world, machines, shares):
    late, share_id = machines[2], shares[2]
    late.run(["umount", PLACE])
    world.mount(late, world.locations(share_id)[0], PLACE)
    (instance,) = world.user.get(f"/shares/{share_id}/instances")
    held = world.local.clients()[instance["id"]]
    world.local.forget_clients(instance["id"])
    assert "Permission denied" in write(late)
    found = world.ensure()
    assert (found["repaired"], found["unchanged"]) == (1, 2)
    world.user.wait(f"/shares/{share_id}", "active", key="access_rules_status")
    assert world.local.clients()[instance["id"]] == held
    assert write(late) == ""
