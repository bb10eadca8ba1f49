# SPDX-License-Identifier: Apache-2.0
"""The life of a share server in a process that kills itself, as `crashing.py` tells."""

import json
import sys
from pathlib import Path

from abaca.drivers import contract
from lab import processes
from tests.drivers import crashing
from tests.drivers.harness import rules


class ServerLife:
    """Every call about share servers, with what must be so after it; each step may be repeated."""

    def __init__(self, driver, directory, ids):
        self.driver, self.directory = driver, directory
        self.server, first, second, share = ids
        self.subnets = [subnet(first, "10.50.1.4/24", "fd77:50::4/64"), subnet(second, "10.50.2.4/24")]
        self.served = contract.ShareServer(id=self.server)
        self.share = contract.ShareInstance(
            id=share, share_id=share, project_id="p", size_gib=1, protocol="NFS", pool="pool", server=self.served
        )
        self.steps = [
            driver.start,
            lambda: self.set_up(self.subnets[:1]),
            lambda: driver.create(self.share),
            lambda: self.check("10.50.1.4", "fd77:50::4"),
            lambda: driver.update_server_network(self.served, self.subnets[:1], self.subnets[1], [self.share]),
            lambda: driver.set_access(self.share, rules("10.50.0.0/16 rw")),
            lambda: self.check("10.50.1.4", "fd77:50::4", "10.50.2.4"),
            lambda: driver.remove_server_network(self.served, self.subnets[0], [self.share]),
            lambda: self.check("10.50.2.4"),
            self.add_beside,
            lambda: self.check("10.50.1.4", "fd77:50::4", "10.50.2.4"),
            lambda: self.set_up(self.subnets),
            lambda: self.check("10.50.1.4", "fd77:50::4", "10.50.2.4"),
            lambda: driver.delete(self.share),
            lambda: driver.tear_down_server(self.served),
        ]

    def set_up(self, subnets):
        self.driver.set_up_server(contract.ServerSetup(id=self.server, share_network_id="n", subnets=subnets))

    def add_beside(self):
        """As where several servers get a subnet at once."""
        first, second = self.subnets
        change = contract.ServerNetworkChange(server=self.served, current=[second], new=first, instances=[self.share])
        if set(self.driver.update_server_networks([change])) != {self.server}:
            raise SystemExit("the server got no subnet")

    def check(self, *wanted):
        place = self.directory / "servers" / self.server / "netns"
        shown = processes.command(["nsenter", f"--net={place}", "ip", "-j", "address", "show", "scope", "global"])
        seen = {one["local"] for link in json.loads(shown) if link for one in link["addr_info"] if one}
        if seen != set(wanted):
            raise SystemExit(f"{sorted(seen)} is not {sorted(wanted)}")


def subnet(id, *addresses):
    """Always the same one, in every life."""
    allocations = [
        contract.Allocation(id=one, ip_address=one.partition("/")[0], cidr=one, ip_version=6 if ":" in one else 4)
        for one in addresses
    ]
    return contract.Subnet(id=id, allocations=allocations, gateway="10.50.2.1")


def build(directory, section):
    return crashing.build(directory, section, handles_share_servers=True)


def main(directory, section, point, *ids):
    crashing.live(ServerLife(build(directory, json.loads(section)), Path(directory), ids), point)


if __name__ == "__main__":
    main(*sys.argv[1:])
