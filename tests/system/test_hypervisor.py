# SPDX-License-Identifier: Apache-2.0
"""A share handed to a guest by its hypervisor, whole: NFS from the back end to the hypervisor, virtiofs to the guest.

The hypervisor is a machine with a kernel of its own, which mounts for real and runs QEMU; the guest has no network.
"""

import pytest

from lab import qemu
from tests.conftest import wait_until
from tests.system.test_attachments import attach, detach, register, rules, until, verified
from tests.system.world import PROJECT, World

LEFT = """
ls -A /run/abaca-guests
grep -ls 'socket-path[=]' /proc/[0-9]*/cmdline
grep -e /run/abaca-guests -e ' nfs' /proc/self/mountinfo
cat /etc/fstab
"""


@pytest.fixture(scope="module")
def world(run, network):
    sections = {
        "local": {"nfs_minor_versions": "1,2"},
        "compute": {"key_directory": run.directory},
        "nodes": {"verify_interval_s": 3, "command_timeout_s": 40, "connect_timeout_s": 30},
    }
    made = World(run, sections, network=network)
    made.abaca.configure("nodes", nfs_port=made.nfs_port)
    return made.start()


@pytest.fixture(scope="module")
def hypervisor(network):
    with qemu.hypervisor(network) as started:
        yield started


@pytest.fixture(scope="module")
def guest(hypervisor):
    made = qemu.QemuGuest(hypervisor, "inner", memory_mib=128).start(120)
    yield made
    made.kill()


@pytest.fixture(scope="module")
def servers(world, machine, hypervisor, guest):
    """The id of each in the inventory: a client by NFS, the hypervisor, and its guest."""
    made = {one.name: register(world, one) for one in (machine, hypervisor)}
    way_in = {"hypervisor_id": made[hypervisor.name], "qmp_socket": guest.qmp_socket}
    said = {"name": guest.name, "project_id": PROJECT, "addresses": ["192.0.2.7"], **way_in}
    made[guest.name] = world.user.call("POST", "//abaca/v1/servers", {"server": said}).body["server"]["id"]
    return made


def hand_in(world, share_id, servers, tag):
    """The attachment of the guest, by the command for operators."""
    said = world.abaca.command("attachment", "add", share_id, servers["inner"], "--mode", "virtiofs", "--tag", tag)
    return until(world, said.split()[0], "active", 90)


def in_guest(guest, text):
    """What it prints; a virtiofs mount is repeated, since a device that was just plugged takes a moment."""
    made = guest.script(text, 60)
    assert made.code == 0, made
    return made.stdout


def mount(tag):
    return f"mkdir -p /mnt/{tag}; until mount -t virtiofs {tag} /mnt/{tag}; do sleep 0.1; done"


def devices(guest):
    return in_guest(guest, "ls /sys/bus/virtio/drivers/virtiofs | grep ^virtio; true").split()


def test_a_guest_and_a_client_by_nfs_read_what_the_other_wrote(world, machine, hypervisor, guest, servers):
    share_id = world.share()
    (other,) = attach(world, share_id, [servers[machine.name]])
    found = hand_in(world, share_id, servers, "data")
    assert (found["mode"], found["tag"], found["addresses"]) == ("virtiofs", "data", [hypervisor.ipv4, hypervisor.ipv6])
    assert {rule["access_to"] for rule in rules(world, share_id)} >= {hypervisor.ipv4, machine.ipv4}
    place = f"/mnt/{share_id}"
    machine.check(["sh", "-c", f"echo by nfs > {place}/a && sync -f {place}/a"])
    assert in_guest(guest, f"{mount('data')}; cat /mnt/data/a") == "by nfs\n"
    in_guest(guest, "echo by virtiofs > /mnt/data/b; sync")
    wait_until(lambda: machine.run(["cat", f"{place}/b"]).stdout == "by virtiofs\n", every_s=0.1)
    in_guest(guest, "umount /mnt/data")
    detach(world, found["id"], other["id"])
    assert hypervisor.script(LEFT).stdout == ""
    assert devices(guest) == []
    wait_until(lambda: rules(world, share_id) == [])
    world.delete(share_id)


def test_a_share_comes_back_after_its_virtiofsd_its_qemu_and_its_hypervisor_ended(world, hypervisor, guest, servers):
    share_id = world.share()
    found = hand_in(world, share_id, servers, "kept")
    in_guest(guest, f"{mount('kept')}; echo kept > /mnt/kept/file; sync; umount /mnt/kept")

    def back():
        verified(world, found["id"], 90)
        return in_guest(guest, f"{mount('kept')}; cat /mnt/kept/file; umount /mnt/kept")

    hypervisor.script("kill -9 $(grep -ls 'socket-path[=]' /proc/[0-9]*/cmdline | cut -d/ -f3)")
    assert back() == "kept\n"
    guest.kill()
    # without a guest nothing of the share stays on the hypervisor
    wait_until(lambda: hypervisor.script(LEFT).stdout == "", every_s=0.2)
    guest.start(120)
    assert back() == "kept\n"
    hypervisor.kill()
    hypervisor.start()
    guest.start(120)
    assert back() == "kept\n"
    detach(world, found["id"])
    assert hypervisor.script(LEFT).stdout == ""
    assert devices(guest) == []
    wait_until(lambda: rules(world, share_id) == [])
    world.delete(share_id)
