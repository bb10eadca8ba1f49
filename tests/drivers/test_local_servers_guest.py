# SPDX-License-Identifier: Apache-2.0
"""Kernel clients in a tenant's subnets write to one share while subnets of its server come and go."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from lab import fabric, guest
from tests.conftest import wait_until
from tests.drivers.harness import LocalServersHarness, fresh_id, rules, subnet
from tests.system.world import Writer

pytestmark = pytest.mark.system

# Counts up under a lock that all have, appends to a file of its own, and notes failures and how long appending took.
COUNT = """
rm -f /tmp/stop /tmp/longest
: > /tmp/said
: > /tmp/count
exec 9>> /mnt/share/lock
(
    longest=0
    while [ ! -e /tmp/stop ]; do
        if flock -n 9; then
            value=$(cat /mnt/share/counter) || echo reading >> /tmp/said
            echo $((value + 1)) > /mnt/share/counter || echo writing >> /tmp/said
            flock -u 9 || echo unlocking >> /tmp/said
            echo >> /tmp/count
        fi
        read now rest < /proc/uptime; begun=${now%.*}${now#*.}
        echo line >> /mnt/share/NAME || echo appending >> /tmp/said
        read now rest < /proc/uptime; took=$((${now%.*}${now#*.} - begun))
        [ ! -e /tmp/anew ] || { longest=0; rm /tmp/anew; }
        [ $took -le $longest ] || longest=$took
        echo $longest > /tmp/longest
    done
    touch /tmp/ended
) > /dev/null 2>&1 &
"""


class Tenant:
    """Four subnets with a machine in each, of which a server has the first three."""

    def __init__(self, harness):
        self.harness = harness
        self.fabrics = [fabric.Fabric(harness.run) for _ in range(4)]
        bridges = ",".join(f"vlan-{number}:{one.bridge}" for number, one in enumerate(self.fabrics, 1))
        harness.start(segment_bridges=bridges, nfs_minor_versions="1,2")
        families = [(one.network_v4, one.network_v6) for one in self.fabrics]
        networks = [families[0][0], families[1][0], families[2][1], families[3][0]]
        self.addresses = [str(network[5]) for network in networks]
        self.subnets = [
            subnet(f"{network[5]}/{network.prefixlen}", network_type="vlan", segmentation_id=number)
            for number, network in enumerate(networks, 1)
        ]
        self.server = harness.set_up(fresh_id(), self.subnets[:3])
        self.machines = [guest.Guest(one, f"m{number}") for number, one in enumerate(self.fabrics)]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(guest.Guest.start, self.machines))
        self.share = harness.instance(server=self.server)
        harness.driver.create(self.share)
        everybody = [f"{one} rw" for machine in self.machines for one in (machine.ipv4, machine.ipv6)]
        harness.driver.set_access(self.share, rules(*everybody))
        harness.mounted(self.share).joinpath("counter").write_text("0\n")

    def mount(self, number):
        machine, address = self.machines[number], self.addresses[number]
        place = f"{f'[{address}]' if ':' in address else address}:/shares/{self.share.id}"
        machine.check(["mkdir", "-p", "/mnt/share"])
        machine.check(["mount", "-t", "nfs4", "-o", "vers=4.2", place, "/mnt/share"])

    def begin(self, number):
        assert self.machines[number].script(COUNT.replace("NAME", f"own{number}")).code == 0

    def end(self, number):
        """How often it counted, and what failed."""
        machine = self.machines[number]
        machine.script(": > /tmp/stop; while [ ! -e /tmp/ended ]; do sleep 0.05; done; rm /tmp/ended")
        said = machine.check(["cat", "/tmp/said"])
        return len(machine.check(["cat", "/tmp/count"]).splitlines()), said

    def longest_s(self, number):
        """The longest that appending took until now; what comes is measured anew."""
        answer = self.machines[number].script("cat /tmp/longest; : > /tmp/anew").stdout
        return int(answer or 0) / 100

    def counted(self):
        """What all have counted up to."""
        return int(self.harness.mounted(self.share).joinpath("counter").read_text() or 0)

    def wait_for(self, more):
        """Until so many have been counted from now on."""
        wanted = self.counted() + more
        wait_until(lambda: self.counted() >= wanted)


@pytest.fixture(scope="module")
def tenant():
    harness = LocalServersHarness()
    try:
        made = Tenant(harness)
        yield made
        for machine in made.machines:
            machine.stop()
    finally:
        harness.close()


def test_machines_of_three_subnets_write_one_file_while_a_fourth_comes_and_the_first_goes(tenant):
    driver, server, share = tenant.harness.driver, tenant.server, tenant.share
    for number in range(3):
        tenant.mount(number)
        tenant.begin(number)
    tenant.wait_for(9)
    usual_s = max(tenant.longest_s(number) for number in range(3))
    pid = driver.servers.need(server.id).ganesha._daemon.pid()
    driver.update_server_network(server, tenant.subnets[:3], tenant.subnets[3], [share])
    tenant.mount(3)
    tenant.begin(3)
    tenant.wait_for(9)
    # A slow machine makes clients wait without any change as well.
    assert max(tenant.longest_s(number) for number in range(3)) < max(1.0, 2 * usual_s)
    ended = [tenant.end(0)]
    tenant.machines[0].check(["umount", "/mnt/share"])
    driver.remove_server_network(server, tenant.subnets[0], [share])
    tenant.wait_for(9)
    ended += [tenant.end(number) for number in (1, 2, 3)]
    counts, said = zip(*ended, strict=True)
    assert "".join(said) == ""
    assert all(counts)
    assert tenant.counted() == sum(counts)
    assert driver.servers.need(server.id).ganesha._daemon.pid() == pid


def test_those_who_write_outlive_a_killed_server(tenant):
    before = tenant.counted()
    for number in (1, 2):
        tenant.begin(number)
    tenant.wait_for(6)
    record = tenant.harness.server_directory(tenant.server.id) / "ganesha.pid"
    os.kill(int(record.read_text()), signal.SIGKILL)
    tenant.wait_for(9)
    counts, said = zip(*(tenant.end(number) for number in (1, 2)), strict=True)
    assert ("".join(said), tenant.counted()) == ("", before + sum(counts))


def test_who_has_a_file_open_on_a_subnet_that_goes_waits_for_it_and_nobody_else_does(tenant):
    driver, server, share, machine = tenant.harness.driver, tenant.server, tenant.share, tenant.machines[3]
    writer = Writer(machine, "/mnt/share/kept", keeps_open=True)
    tenant.begin(1)
    tenant.wait_for(6)
    driver.remove_server_network(server, tenant.subnets[3], [share])
    tenant.wait_for(9)
    reached = writer.count()
    tenant.wait_for(9)
    assert writer.count() == reached
    driver.update_server_network(server, tenant.subnets[1:3], tenant.subnets[3], [share])
    writer.finish()
    counts, said = tenant.end(1)
    assert (said, counts > 0) == ("", True)
