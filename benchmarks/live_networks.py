# SPDX-License-Identifier: Apache-2.0
"""What a subnet more takes for share networks with one and with ten share servers, from the request on."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from benchmarks.figures import Figure
from benchmarks.stand import Stand
from lab import caller, processes, service

NUMBERS = (1, 10)
# Each round adds a subnet of its own; the first is for warmth and does not count.
ROUNDS = 8
LOOK_EVERY_S = 0.002
# What has not come after so many seconds does not come.
PATIENCE_S = 60.0
# The target: ten servers take at most so many times what one takes.
TIMES = 3
_TYPE = "tenant"


def run(stand: Stand) -> Iterator[Figure]:
    """An `abaca run` on PostgreSQL with a `local` back end that makes a share server for each share."""
    abaca = service.Service(stand.run, _sections(stand), directory=stand.run.path("live-networks"))
    abaca.upgrade_database()
    with abaca:
        user = caller.Caller(abaca.url, {})
        caller.ensure_type(user, _TYPE, driver_handles_share_servers=True)
        caller.wait_for_pools(user)
        networks = {number: Network(user, number) for number in NUMBERS}
        took_ms = {number: 1000 * statistics.median(found) for number, found in _rounds(networks).items()}
    for number, ms in took_ms.items():
        yield Figure(f"a subnet more for a network with {number}, to active: median", ms, "ms")
    first, *others = NUMBERS
    for number in others:
        times = took_ms[number] / took_ms[first]
        yield Figure(f"a subnet more for a network with {number}, times {first}", times, "times", TIMES)


def _sections(stand: Stand) -> dict[str, dict[str, object]]:
    declared = {"first": {"cidr": "10.60.0.0/24", "is_default": "true"}}
    for number in range(ROUNDS + 1):
        declared[f"more{number}"] = {
            "cidr": f"10.60.{number + 1}.0/24",
            "network_id": "bench",
            "subnet_id": f"more{number}",
        }
    return {
        "DEFAULT": {"host": "bench", "enabled_share_backends": "local", "default_share_type": _TYPE},
        "database": {"connection": stand.postgres.create_database("live_networks")},
        "local": {
            "driver": "local",
            "driver_handles_share_servers": "true",
            "pool_size_gib": 4,
            "ganesha_port": 2049,
            "max_shares_per_share_server": 1,
        },
        "networks": {"subnets": ",".join(declared)},
        **{f"subnet_{name}": {**said, "network_type": "flat"} for name, said in declared.items()},
    }


def _rounds(networks: dict[int, Network]) -> dict[int, list[float]]:
    """The seconds of each round; sizes take turns, so that all meet the same machine."""
    took_s: dict[int, list[float]] = {number: [] for number in networks}
    for number in range(ROUNDS + 1):
        for size, network in networks.items():
            seconds = network.add(f"more{number}")
            if number:
                took_s[size].append(seconds)
    return took_s


class Network:
    """A share network with so many shares, each on a share server of its own."""

    def __init__(self, user: caller.Caller, number: int) -> None:
        self._user = user
        self._id = str(user.post("/share-networks", "share_network", name=f"of-{number}")["id"])
        wish = {"share_proto": "NFS", "size": 1, "share_type": _TYPE, "share_network_id": self._id}
        shares = [str(user.post("/shares", "share", **wish)["id"]) for _ in range(number)]
        for share in shares:
            user.wait(f"/shares/{share}", "available")
        self._last = shares[-1]
        servers = user.get(f"/share-servers?share_network_id={self._id}")
        if len(servers) != number:
            raise processes.LabError(f"{number} shares are on {len(servers)} share servers")
        self._locations = 1

    def add(self, subnet: str) -> float:
        """The seconds until all servers have the subnet."""
        begun_s = time.perf_counter()
        ids = {"neutron_net_id": "bench", "neutron_subnet_id": subnet}
        self._user.call("POST", f"//abaca/v1/share-networks/{self._id}/subnets", {"subnet": ids})
        while (status := self._status()) != "active":
            if status == "error" or time.perf_counter() - begun_s > PATIENCE_S:
                raise processes.LabError(f"a network that gets a subnet is {status}")
            time.sleep(LOOK_EVERY_S)
        took_s = time.perf_counter() - begun_s
        self._locations += 1
        found = self._user.get(f"/shares/{self._last}/export_locations")
        if len(found) != self._locations:
            raise processes.LabError(f"a share has {len(found)} export locations, not {self._locations}")
        return took_s

    def _status(self) -> str:
        return str(self._user.get(f"/share-networks/{self._id}")["status"])
