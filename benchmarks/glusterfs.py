# SPDX-License-Identifier: Apache-2.0
"""What shares on GlusterFS take, beside the same done by hand in the same run: `make bench ARGS=glusterfs`.

Three namespaces are nodes with a real glusterd, and a real Heketi makes the volumes; by hand means Heketi's own REST
interface and `gluster` on a node, by `ssh` on a connection that is kept. A volume that stays keeps the daemons of the
nodes running, which whoever has the only volume starts and ends. A thousand volumes are on paper.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from abaca.drivers import contract, load
from abaca.drivers.clients import heketi
from abaca.drivers.glusterfs import Glusterfs, names
from benchmarks import figures
from benchmarks.figures import Figure
from lab import caller, gluster_bed, gluster_cluster, processes, runs, service

ROUNDS, TOGETHER, AT_ONCE = 5, 20, 8
FEW, MANY, LOOKED_AT = 100, 1000, 20
LOOK_S, PATIENCE_S = 0.01, 900.0
MOST, MOST_TOGETHER, MOST_GROWTH = 1.15, 1.1, 1.5
QUOTA = (("enable",), ("soft-timeout", "0"), ("hard-timeout", "0"))


def run(words: Sequence[str]) -> int:
    """Print each figure as it is known, and all of them at the end; `paper` leaves the real cluster out."""
    if set(words) - {"paper"}:
        raise ValueError("The only option is `paper`.")
    begun_s, found = time.monotonic(), []
    with runs.Run() as made:
        for figure in itertools.chain(() if "paper" in words else _real(made), _on_paper(made)):
            found.append(figure)
            print(figure, flush=True)
    print(f"\n{figures.table(found)}\n\n{time.monotonic() - begun_s:.0f} s")
    return 0


class Hand:
    """Heketi and gluster, told what to do without Abaca between."""

    def __init__(self, cluster: gluster_cluster.GlusterCluster) -> None:
        self._cluster = cluster
        self._ssh = (
            *("ssh", "-i", str(cluster.key_file), "-o", f"UserKnownHostsFile={cluster.known_hosts}"),
            *("-o", "ControlMaster=auto", "-o", f"ControlPath={cluster.directory}/ssh", "-o", "ControlPersist=3600"),
            f"root@{cluster.nodes[0].ipv4}",
        )
        self._heketi = heketi.Heketi(cluster.heketi.url, heketi.read_key(cluster.heketi.key_file))
        self._ids: dict[str, str] = {}
        self._nodes = self._heketi.cluster(cluster.cluster).nodes

    def create(self, name: str) -> None:
        self.make(name)
        for words in QUOTA:
            self._gluster("volume", "quota", name, *words)
        self._gluster("volume", "quota", name, "limit-usage", "/", "1GB")

    def make(self, name: str) -> None:
        """The volume alone; asked again as long as Heketi has too much to do."""
        options = ["client.ssl on", "server.ssl on", f"{names.ALLOW} {names.allow(self._nodes, ())}"]
        kept = heketi.Durability("replicate", replicate=heketi.Copies(3))
        order = heketi.Order(name, 2, kept, [self._cluster.cluster], options)
        self._ids[name] = self._wait(lambda: self._heketi.make(order)).rpartition("/")[2]

    def extend(self, name: str) -> None:
        self._wait(lambda: self._heketi.expand(self._ids[name], 3))
        self._gluster("volume", "quota", name, "limit-usage", "/", "4GB")

    def allow(self, name: str) -> None:
        """Whoever is let in already must be in the list as well: the same two calls that the driver makes."""
        self._gluster("volume", "info", name)
        self._gluster("volume", "set", name, names.ALLOW, names.allow(self._nodes, ["alice"]))

    def delete(self, name: str) -> None:
        self._wait(lambda: self._heketi.delete(self._ids[name]))

    def _gluster(self, *words: str) -> None:
        processes.command([*self._ssh, "gluster", "--mode=script", *words], timeout_s=PATIENCE_S)

    def _wait(self, begin: Callable[[], str]) -> str:
        while True:
            try:
                return gluster_bed.result(self._heketi, begin(), PATIENCE_S)
            except contract.Busy:
                time.sleep(LOOK_S)


class Ours:
    """The same by the API, until it shows that it is done."""

    def __init__(self, admin: caller.Caller) -> None:
        self._admin = admin
        self._ids: dict[str, str] = {}

    def begin(self, name: str) -> str:
        share = self._admin.post("/shares", "share", share_proto="GLUSTERFS", size=1, name=name)
        self._ids[name] = share["id"]
        return f"/shares/{share['id']}"

    def create(self, name: str) -> None:
        self._until_available(self.begin(name))

    def extend(self, name: str) -> None:
        path = f"/shares/{self._ids[name]}"
        self._admin.call("POST", f"{path}/action", {"extend": {"new_size": 4}})
        self._until_available(path)

    def allow(self, name: str) -> None:
        wish = {"access_type": "cert", "access_to": "alice", "access_level": "rw"}
        path = f"/shares/{self._ids[name]}/action"
        rule = self._admin.call("POST", path, {"allow_access": wish}).body["access"]["id"]
        _until(lambda: self._admin.get(f"/share-access-rules/{rule}")["state"] == "active")

    def delete(self, name: str) -> None:
        self._admin.call("DELETE", f"/shares/{self._ids[name]}")
        _until(lambda: self._is_gone(self._ids[name]))

    def all_at_once(self, called: Sequence[str]) -> None:
        for path in [self.begin(name) for name in called]:
            self._until_available(path)

    def _until_available(self, path: str) -> None:
        _until(lambda: self._admin.get(path)["status"] == "available")

    def _is_gone(self, id: str) -> bool:
        try:
            self._admin.get(f"/shares/{id}")
        except caller.Refused as refused:
            return refused.status == 404
        return False


def _until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline_s:
            raise TimeoutError("it has not come to its end")
        time.sleep(LOOK_S)


def _real(made: runs.Run) -> Iterator[Figure]:
    cluster = gluster_cluster.GlusterCluster(made)
    cluster.start()
    sections: dict[str, dict[str, object]] = {
        "DEFAULT": {
            "host": "bench",
            "default_share_type": "default",
            "enabled_share_backends": "gluster",
            "enabled_share_protocols": "GLUSTERFS",
        },
        "gluster": {"driver": "glusterfs", "driver_handles_share_servers": False, **cluster.section()},
    }
    try:
        with service.Service(made, sections, directory=made.path("abaca")) as abaca:
            admin = caller.Caller(abaca.url, {})
            caller.ensure_type(admin)
            caller.wait_for_pools(admin, PATIENCE_S)
            yield from _one_by_one(Hand(cluster), Ours(admin))
            yield from _together(Hand(cluster), Ours(admin))
    finally:
        cluster.stop()


def _one_by_one(hand: Hand, ours: Ours) -> Iterator[Figure]:
    """Each step of a share's life in turn with the same by hand, who is first changes; the middle ones.

    The first round only warms. The share that stays brings certificates to the nodes, without which no volume starts.
    """
    ours.create("stays")
    steps = ("create", "extend", "allow", "delete")
    seen_s: dict[tuple[str, str], list[float]] = {}
    for number in range(ROUNDS + 1):
        for step in steps:
            for who, doer in (("ours", ours), ("hand", hand))[:: 1 if number % 2 else -1]:
                took_s = _seconds(getattr(doer, step), f"bench-{number}")
                if number:
                    seen_s.setdefault((who, step), []).append(took_s)
    for step in steps:
        by_hand_s, ours_s = (statistics.median(seen_s[who, step]) for who in ("hand", "ours"))
        yield Figure(f"GlusterFS, {step}: wall by hand", by_hand_s, "s")
        yield Figure(f"GlusterFS, {step}: wall", ours_s, "s")
        yield Figure(f"GlusterFS, {step}: times by hand", ours_s / by_hand_s, "x", MOST)


def _together(hand: Hand, ours: Ours) -> Iterator[Figure]:
    called = [f"together-{number}" for number in range(TOGETHER)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        bare_s = _seconds(lambda: list(pool.map(hand.make, called)))
        list(pool.map(hand.delete, called))
        by_hand_s = _seconds(lambda: list(pool.map(hand.create, called)))
        list(pool.map(hand.delete, called))
        ours_s = _seconds(ours.all_at_once, called)
        list(pool.map(ours.delete, called))
    together = f"GlusterFS, {TOGETHER} together"
    yield Figure(f"{together}: wall of Heketi's volumes, {AT_ONCE} at a time", bare_s, "s")
    yield Figure(f"{together}: wall by hand, with their limits", by_hand_s, "s")
    yield Figure(f"{together}: wall", ours_s, "s")
    yield Figure(f"{together}: times by hand", ours_s / by_hand_s, "x", MOST_TOGETHER)
    yield Figure(f"{together}: times Heketi's volumes, which have no limits", ours_s / bare_s, "x", MOST_TOGETHER)


def _seconds(work: Callable[..., object], *given: object) -> float:
    begun_s = time.monotonic()
    work(*given)
    return time.monotonic() - begun_s


def _on_paper(made: runs.Run) -> Iterator[Figure]:
    """Whether what is done again and again costs the same however many volumes there are."""
    directory = made.path("paper")
    bed = gluster_bed.Bed(directory / "bed", device_gib=10 * MANY)
    backend = contract.Backend(name="b", host="h@b", share_backend_name="b", state_dir=directory / "state")
    driver = load.driver(backend, "glusterfs", bed.section())
    if not isinstance(driver, Glusterfs):
        raise TypeError(f"{driver} is another driver of that name")
    driver.start()
    shares: list[contract.ShareInstance] = []
    seen_s: dict[tuple[str, int], float] = {}
    try:
        for size in (FEW, MANY):
            with ThreadPoolExecutor(AT_ONCE) as pool:
                shares += pool.map(lambda number: _paper_share(driver, number), range(len(shares), size))
            driver.pools()
            seen_s["nodes", size] = min(_seconds(_ask_for_nodes, driver) for _ in range(ROUNDS))
            seen_s["pools", size] = min(_seconds(driver.pools) for _ in range(ROUNDS))
            seen_s["inspect", size] = min(_seconds(driver.inspect, shares[:LOOKED_AT]) for _ in range(ROUNDS))
    finally:
        driver.stop()
        bed.close()
    for what in ("pools", "inspect"):
        few_s, many_s = seen_s[what, FEW], seen_s[what, MANY]
        yield Figure(f"GlusterFS on paper, {what} among {MANY:,} volumes: wall", many_s, "s")
        yield Figure(f"GlusterFS on paper, {what}: times among {FEW}", many_s / few_s, "x", MOST_GROWTH)
    bare_s = seen_s["nodes", MANY]
    yield Figure(f"GlusterFS on paper, nodes told by Heketi among {MANY:,} volumes: wall", bare_s, "s")
    yield Figure("GlusterFS on paper, pools: times nodes told by Heketi", seen_s["pools", MANY] / bare_s, "x", MOST)


def _ask_for_nodes(driver: Glusterfs) -> None:
    """What no telling of pools can do without: Heketi tells how full a device is in this way alone."""
    for cluster in driver.client.clusters():
        for node in driver.client.cluster(cluster).nodes:
            driver.client.node(node)


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
