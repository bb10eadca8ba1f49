# SPDX-License-Identifier: Apache-2.0
"""Share servers of a `local` back end: set-up beside the same made by hand, a subnet more, and memory."""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from abaca.drivers import contract, load
from abaca.drivers.clients import namespaces
from abaca.drivers.exports import blocks
from abaca.drivers.exports.daemon import BUS_CONFIGURATION
from benchmarks import usage
from benchmarks.figures import Figure
from benchmarks.stand import Stand
from lab import processes

ROUNDS = 7
NUMBERS = (1, 10, 50)
# So many share servers get a subnet together.
TOGETHER, TOGETHER_ROUNDS = 10, 5
# So many shares are on one.
SHARES = 200
# A bare server that is not up after so many seconds does not come.
BARE_S = 30.0
_PORT = 2049


def run(stand: Stand) -> Iterator[Figure]:
    """No API and no database: the driver's own calls, in this process."""
    place = stand.run.path("servers")
    backend = contract.Backend(
        name="bench", host="h@bench", share_backend_name="B", state_dir=place, driver_handles_share_servers=True
    )
    driver = load.driver(backend, "local", {"pool_size_gib": "1"})
    driver.start()
    try:
        yield from _times(driver, stand)
        yield from _many_shares(driver)
        yield from _memory(driver, place)
    finally:
        driver.stop()
        driver.shutdown()


def _times(driver: contract.Driver, stand: Stand) -> Iterator[Figure]:
    by_hand, ours, more = [], [], []
    for number in range(ROUNDS):
        by_hand.append(_by_hand(stand, number))
        begun_s = time.perf_counter()
        server = _set_up(driver, number)
        ours.append(time.perf_counter() - begun_s)
        begun_s = time.perf_counter()
        driver.update_server_network(server, [], _subnet(100 + number), [])
        more.append(time.perf_counter() - begun_s)
        driver.tear_down_server(server)
    hand_ms, our_ms = (statistics.median(took) * 1000 for took in (by_hand, ours))
    yield Figure("share server by hand (ip, dbus-daemon, ganesha.nfsd): median", hand_ms, "ms")
    yield Figure("share server set up: median", our_ms, "ms")
    yield Figure("share server set up, times by hand", our_ms / hand_ms, "times", 3)
    yield Figure("a subnet more for a share server: median", statistics.median(more) * 1000, "ms")


def _memory(driver: contract.Driver, place: Path) -> Iterator[Figure]:
    before_mib, servers = usage.rss_mib(os.getpid()), []
    for wanted in NUMBERS:
        servers += [_set_up(driver, number) for number in range(len(servers), wanted)]
        pids = [int(file.read_text()) for file in (place / "servers").glob("*/*.pid")]
        mib = sum(usage.pss_mib(pid) for pid in pids) / wanted
        yield Figure(f"memory a share server among {wanted}: NFS server and bus", mib, "MiB PSS")
        if wanted == TOGETHER:
            yield from _together(driver, servers)
    grown_mib = (usage.rss_mib(os.getpid()) - before_mib) / len(servers)
    yield Figure(f"memory a share server among {len(servers)}: the worker", grown_mib, "MiB RSS")


def _together(driver: contract.Driver, servers: list[contract.ShareServer]) -> Iterator[Figure]:
    """A subnet more for a share network with so many servers, together as a worker does it, beside one alone."""
    one_s, all_s = [], []
    for number in range(TOGETHER_ROUNDS):
        first, second = (_subnet(200 + 2 * number + place) for place in range(2))
        begun_s = time.perf_counter()
        driver.update_server_network(servers[0], [], first, [])
        one_s.append(time.perf_counter() - begun_s)
        changes = [
            contract.ServerNetworkChange(server=server, current=[], new=second, instances=[]) for server in servers
        ]
        begun_s = time.perf_counter()
        outcomes = driver.update_server_networks(changes)
        all_s.append(time.perf_counter() - begun_s)
        if len(outcomes) != len(servers):
            raise SystemExit("a share server has not got the subnet")
        for server in servers:
            driver.remove_server_network(server, second, [])
        driver.remove_server_network(servers[0], first, [])
    one_ms, all_ms = (statistics.median(took) * 1000 for took in (one_s, all_s))
    yield Figure(f"a subnet more for one of {len(servers)} share servers: median", one_ms, "ms")
    yield Figure(f"a subnet more for all {len(servers)} together: median", all_ms, "ms")
    yield Figure(f"a subnet more for all {len(servers)}, times one", all_ms / one_ms, "times", 3)


def _many_shares(driver: contract.Driver) -> Iterator[Figure]:
    """A subnet comes to a share server with many shares, each of which has a location more by it."""
    server, number = _set_up(driver, 90), ROUNDS
    words = {"project_id": "p", "size_gib": 1, "protocol": "NFS", "pool": "pool", "server": server}
    instances = [contract.ShareInstance(id=f"i{one}", share_id=f"s{one}", **words) for one in range(SHARES)]
    begun_s = time.perf_counter()
    for instance in instances:
        driver.create(instance)
    made_ms = (time.perf_counter() - begun_s) * 1000 / SHARES
    took_s = []
    for one in range(number):
        new = _subnet(240 + one)
        begun_s = time.perf_counter()
        outcome = driver.update_server_network(server, [], new, instances)
        took_s.append(time.perf_counter() - begun_s)
        if any(len(exports) != 2 for exports in outcome.exports.values()):
            raise SystemExit("a share has no location on the new subnet")
        driver.remove_server_network(server, new, instances)
    yield Figure(f"a share made on a share server, of {SHARES}: mean", made_ms, "ms")
    yield Figure(
        f"a subnet more for a share server with {SHARES} shares: median", statistics.median(took_s) * 1000, "ms"
    )
    for instance in instances:
        driver.delete(instance)
    driver.tear_down_server(server)


def _set_up(driver: contract.Driver, number: int) -> contract.ShareServer:
    setup = contract.ServerSetup(id=str(uuid.uuid4()), share_network_id="n", subnets=[_subnet(number)])
    return contract.ShareServer(id=setup.id, details=driver.set_up_server(setup))


def _subnet(number: int) -> contract.Subnet:
    cidr = f"10.60.{number}.0/24"
    allocation = contract.Allocation(id="a", ip_address=f"10.60.{number}.4", cidr=cidr)
    return contract.Subnet(id=f"s{number}", cidr=cidr, gateway=f"10.60.{number}.1", allocations=[allocation])


def _by_hand(stand: Stand, number: int) -> float:
    """Seconds until a bare NFS server accepts a connection in a namespace of its own."""
    name, place = f"{stand.run.prefix}h{number}", stand.run.path(f"by-hand-{number}")
    (place / "exports").mkdir()
    (place / "recovery").mkdir()
    (place / "ganesha.conf").write_text(blocks.configuration(place, port=_PORT, grace_s=10, minor_versions=(1, 2)))
    (place / "bus.conf").write_text(BUS_CONFIGURATION.format(directory=place, socket=place / "bus.sock"))
    bridge, outer, inner = (f"{stand.run.prefix}{letter}{number}" for letter in "boi")
    begun_s = time.perf_counter()
    for words in (
        ["netns", "add", name],
        ["link", "add", bridge, "type", "bridge"],
        ["link", "set", bridge, "up"],
        ["link", "add", outer, "type", "veth", "peer", "name", inner, "netns", name],
        ["link", "set", outer, "master", bridge, "up"],
        ["-n", name, "address", "add", "10.61.0.4/24", "dev", inner],
        ["-n", name, "link", "set", "lo", "up"],
        ["-n", name, "link", "set", inner, "up"],
        ["-n", name, "route", "add", "default", "via", "10.61.0.1"],
    ):
        processes.command(["ip", *words])
    enter = ["nsenter", f"--net=/run/netns/{name}", "env", f"DBUS_SYSTEM_BUS_ADDRESS=unix:path={place}/bus.sock"]
    processes.command([*enter, "dbus-daemon", f"--config-file={place}/bus.conf", "--fork"])
    files = ["-f", f"{place}/ganesha.conf", "-L", f"{place}/ganesha.log", "-p", f"{place}/ganesha.pid"]
    processes.command([*enter, "ganesha.nfsd", *files])
    while not namespaces.inside(Path("/run/netns", name), _accepts):
        if time.perf_counter() - begun_s > BARE_S:
            raise SystemExit("a bare NFS-Ganesha does not come up")
        time.sleep(0.001)  # what is measured is to the millisecond
    took_s = time.perf_counter() - begun_s
    for daemon in ("ganesha", "bus"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int((place / f"{daemon}.pid").read_text()), 9)
    for words in (["link", "delete", outer], ["link", "delete", bridge], ["netns", "delete", name]):
        processes.command(["ip", *words])
    return took_s


def _accepts() -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", _PORT)) == 0
