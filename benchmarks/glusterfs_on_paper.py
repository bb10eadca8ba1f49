# SPDX-License-Identifier: Apache-2.0
"""Whether what is done again and again costs the same however many GlusterFS volumes there are.

For pools the volumes are a real Heketi's, whose mock executor takes each command to a node as done; all else goes by a
double of Heketi whose nodes have the volumes too.
"""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from abaca.drivers import contract, load
from abaca.drivers.clients import heketi
from abaca.drivers.glusterfs import Glusterfs
from benchmarks import clients
from benchmarks.figures import Figure
from benchmarks.stand import HOST
from lab import caller, gluster_bed, heketi_server, processes, runs, service

ROUNDS, AT_ONCE, BUSY_S, PATIENCE_S = 5, 8, 0.01, 900.0
FEW, MANY, LOOKED_AT, PAGE, ASKED_S = 100, 1000, 20, 50, 1.0
MOST, MOST_GROWTH = 1.15, 1.5
DISKS = [f"/dev/sd{letter}" for letter in "bcde"]


def figures(made: runs.Run) -> Iterator[Figure]:
    """Each as it is known."""
    yield from _pools(made)
    yield from _looks(made)
    yield from _pages(made)


def _pools(made: runs.Run) -> Iterator[Figure]:
    """What telling how full the pool is takes: when nothing has changed, and when somebody has made a volume."""
    directory = made.path("pools")
    bed = gluster_bed.Bed(directory / "bed")
    server = heketi_server.HeketiServer(made, directory, None)
    server.start()
    server.load(bed.nodes.hosts, DISKS)
    driver = _driver(directory, bed.section() | {"heketi_url": server.url, "heketi_key_file": str(server.key_file)})
    driver.start()
    seen_s: dict[tuple[str, int], float] = {}
    try:
        for size in (FEW, MANY):
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(lambda number: _make(driver.client, number), range(_count(driver.client), size - ROUNDS)))
            driver.pools()
            seen_s["changed", size] = min(_changed_s(driver) for _ in range(ROUNDS))
            seen_s["nodes", size] = min(seconds(_ask_for_nodes, driver) for _ in range(ROUNDS))
            seen_s["pools", size] = min(seconds(driver.pools) for _ in range(ROUNDS))
    finally:
        driver.stop()
        server.kill()
        bed.close()
    yield Figure(f"GlusterFS on paper, pools among {MANY:,}: wall", seen_s["pools", MANY] * 1000, "ms")
    times = seen_s["pools", MANY] / seen_s["pools", FEW]
    yield Figure(f"GlusterFS on paper, pools: times among {FEW}", times, "x", MOST_GROWTH)
    yield Figure(f"GlusterFS on paper, nodes told by Heketi among {MANY:,}: wall", seen_s["nodes", MANY] * 1000, "ms")
    times = seen_s["changed", MANY] / seen_s["nodes", MANY]
    yield Figure("GlusterFS on paper, pools that changed: times nodes told by Heketi", times, "x", MOST)


def _count(client: heketi.Heketi) -> int:
    return len(client.volumes())


def _make(client: heketi.Heketi, number: int) -> None:
    """A volume of somebody else's."""
    kept = heketi.Durability("replicate", replicate=heketi.Copies(3))
    order = heketi.Order(f"paper-{number}", 1, kept, list(client.clusters()))
    while True:
        try:
            gluster_bed.result(client, client.make(order), PATIENCE_S)
            return
        except contract.Busy:
            time.sleep(BUSY_S)


def _changed_s(driver: Glusterfs) -> float:
    _make(driver.client, _count(driver.client))
    return seconds(driver.pools)


def _ask_for_nodes(driver: Glusterfs) -> None:
    """What no telling of a change can do without: Heketi tells how full a device is in this way alone."""
    for cluster in driver.client.clusters():
        for node in driver.client.cluster(cluster).nodes:
            driver.client.node(node)


def _looks(made: runs.Run) -> Iterator[Figure]:
    """What looking at shares, and ensuring those in which nothing is amiss, takes."""
    directory = made.path("paper")
    bed = gluster_bed.Bed(directory / "bed", device_gib=10 * MANY)
    driver = _driver(directory, bed.section())
    driver.start()
    shares: list[contract.ShareInstance] = []
    seen_s: dict[tuple[str, int], float] = {}
    try:
        for size in (FEW, MANY):
            with ThreadPoolExecutor(AT_ONCE) as pool:
                shares += pool.map(lambda number: _paper_share(driver, number), range(len(shares), size))
            seen_s["inspect", size] = min(seconds(driver.inspect, shares[:LOOKED_AT]) for _ in range(ROUNDS))
            seen_s["ensure", size] = min(seconds(_ensure, driver, shares[:LOOKED_AT]) for _ in range(ROUNDS))
    finally:
        driver.stop()
        bed.close()
    for what in ("inspect", "ensure"):
        few_s, many_s = seen_s[what, FEW], seen_s[what, MANY]
        yield Figure(f"GlusterFS on paper, {what} a share among {MANY:,}: wall", many_s / LOOKED_AT * 1000, "ms")
        yield Figure(f"GlusterFS on paper, {what} a share: times among {FEW}", many_s / few_s, "x", MOST_GROWTH)


def _driver(directory: pathlib.Path, section: Mapping[str, str]) -> Glusterfs:
    """The driver alone, which has not started."""
    backend = contract.Backend(name="b", host="h@b", share_backend_name="b", state_dir=directory / "state")
    driver = load.driver(backend, "glusterfs", section)
    if not isinstance(driver, Glusterfs):
        raise TypeError(f"{driver} is another driver of that name")
    return driver


def _ensure(driver: Glusterfs, shares: Sequence[contract.ShareInstance]) -> None:
    """Nothing was amiss: what is measured is the looking."""
    found = driver.ensure(shares)
    if found:
        raise RuntimeError(f"shares that were just made are not as they shall be: {found}")


def _paper_share(driver: Glusterfs, number: int) -> contract.ShareInstance:
    """A share as it is told once its making has been written down."""
    id = f"{number:08d}-0000-4000-8000-000000000000"
    pool = driver.pools()[0].name
    bare = contract.ShareInstance(
        id=id, share_id=id, project_id="p", size_gib=1, protocol="GLUSTERFS", pool=pool, exports=()
    )
    made = driver.create(bare)
    return contract.ShareInstance(
        id=id,
        share_id=id,
        project_id="p",
        size_gib=1,
        protocol="GLUSTERFS",
        pool=pool,
        exports=made.exports,
        driver_data=made.driver_data or {},
    )


def _pages(made: runs.Run) -> Iterator[Figure]:
    """Whether the API tells shares at the same cost however many there are, each made by it on paper."""
    bed = gluster_bed.Bed(made.path("pages") / "bed", device_gib=10 * MANY)
    # What the worker does by itself takes CPU that the API has without it.
    given = sections(bed.section()) | {"quota": {"shares": -1, "gigabytes": -1}, "worker": {"reconcile_percent": 0}}
    seen_s: dict[int, dict[str, float]] = {}
    try:
        with service.Service(made, given, directory=made.path("pages-abaca")) as abaca:
            admin = caller.Caller(abaca.url, {})
            caller.ensure_type(admin)
            caller.wait_for_pools(admin, PATIENCE_S)
            door = clients.Door(HOST, abaca.port, f"X-OpenStack-Manila-API-Version: {caller.NEWEST}\r\n")
            for size in (FEW, MANY):
                seen_s[size] = {what: _asked_s(door, path) for what, path in _asked(_shares(admin, size)).items()}
    finally:
        bed.close()
    for what, many_s in seen_s[MANY].items():
        yield Figure(f"GlusterFS on paper, {what} among {MANY:,}: wall", many_s * 1000, "ms")
        yield Figure(f"GlusterFS on paper, {what}: times among {FEW}", many_s / seen_s[FEW][what], "x", MOST_GROWTH)


def _shares(admin: caller.Caller, size: int) -> list[str]:
    """The ids of so many shares in all, in the order in which they are listed."""
    there = len(admin.get(f"/shares?limit={MANY}"))
    for _ in range(there, size):
        admin.post("/shares", "share", share_proto="GLUSTERFS", size=1)
    processes.wait_until(lambda: not admin.get("/shares?status=creating&limit=1"), PATIENCE_S, f"{size} shares")
    found = [one["id"] for one in admin.get(f"/shares?status=available&limit={MANY}")]
    if len(found) != size:
        raise RuntimeError(f"of {size} shares {len(found)} are available")
    return found


def _asked(ids: Sequence[str]) -> dict[str, str]:
    """What is asked among these shares, by what it is called."""
    page, half = f"/v2/shares/detail?limit={PAGE}", len(ids) // 2
    return {
        f"first page of {PAGE}": page,
        f"page of {PAGE} after the middle, by marker": f"{page}&marker={ids[half - 1]}",
        f"page of {PAGE} after the middle, by offset": f"{page}&offset={half}",
        "export locations of one": f"/v2/shares/{ids[half]}/export_locations",
    }


def _asked_s(door: clients.Door, path: str) -> float:
    """The least that an answer takes for one client, who asks again and again."""
    took_s: list[float] = []
    clients.drive(door, [clients.repeated([door.request("GET", path)], time.perf_counter() + ASKED_S, took_s)])
    return min(took_s)


def sections(backend: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """The configuration of an Abaca with this back end alone."""
    return {
        "DEFAULT": {
            "host": "bench",
            "default_share_type": "default",
            "enabled_share_backends": "gluster",
            "enabled_share_protocols": "GLUSTERFS",
        },
        "gluster": {"driver": "glusterfs", "driver_handles_share_servers": False, **backend},
    }


def seconds(work: Callable[..., object], *given: object) -> float:
    begun_s = time.monotonic()
    work(*given)
    return time.monotonic() - begun_s
