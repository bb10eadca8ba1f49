# SPDX-License-Identifier: Apache-2.0
"""What shares on GlusterFS take, beside the same done by hand in the same run: `make bench ARGS=glusterfs`.

Three namespaces are nodes with a real glusterd, and a real Heketi makes the volumes; by hand means `heketi-cli`, and
`gluster` on a node, by `ssh` on a connection that is kept. `heketi-cli` looks once a second whether Heketi is done, so
the same is done by Heketi's REST interface too, with closer looks. A volume that stays keeps the daemons of the nodes
running, which whoever has the only volume starts and ends. A thousand volumes are on paper: `glusterfs_on_paper.py`.
"""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from abaca.drivers import contract
from abaca.drivers.clients import heketi
from abaca.drivers.glusterfs import names
from abaca.drivers.glusterfs.serving import COUNTING
from benchmarks import figures, glusterfs_on_paper
from benchmarks.figures import Figure
from benchmarks.glusterfs_on_paper import AT_ONCE, BUSY_S, MOST, PATIENCE_S, ROUNDS, seconds, sections
from lab import caller, gluster_bed, gluster_cluster, heketi_server, processes, runs, service

TOGETHER, ROUNDS_TOGETHER, ALLOWED, FIRST_CLIENTS = 20, 5, 60, 12
# Looks take CPU from the nodes, which are on the same host: there are few, and the first comes late where that shows.
LOOK_S, CLOSE_LOOK_S, FIRST_LOOK_S, LOOK_TOGETHER_S = 0.05, 0.005, 0.06, 0.1
MOST_TOGETHER = 1.1
# Heketi's own. It makes no volume while it looks at its nodes, each of which answers only between two other commands.
REFRESH_S = 120


def run(words: Sequence[str]) -> int:
    """Print each figure as it is known, and all of them at the end; `paper` leaves the real cluster out."""
    if set(words) - {"paper"}:
        raise ValueError("The only option is `paper`.")
    begun_s, found = time.monotonic(), []
    with runs.Run() as made:
        for figure in itertools.chain(() if "paper" in words else _real(made), glusterfs_on_paper.figures(made)):
            found.append(figure)
            print(figure, flush=True)
    print(f"\n{figures.table(found)}\n\n{time.monotonic() - begun_s:.0f} s")
    return 0


class Volumes(Protocol):
    """A way to tell Heketi about volumes; each call returns when Heketi has done it."""

    def make(self, name: str, options: Sequence[str]) -> Sequence[str]:
        """Return those of the options, `name value` each, that it could not be told.

        The others are one command to gluster.
        """

    def expand(self, name: str, by_gib: int) -> None: ...

    def delete(self, name: str) -> None: ...


class ByCommand:
    """`heketi-cli`, which looks once a second; told that Heketi has enough to do, it asks again after 10 s or more.

    It parts options at commas, so that one whose value is a list cannot be given to it.
    """

    def __init__(self, cluster: gluster_cluster.GlusterCluster) -> None:
        self._program = str(heketi_server.command_line())
        self._environment = cluster.heketi.environment()
        self._cluster = cluster.cluster
        self._ids: dict[str, str] = {}

    def make(self, name: str, options: Sequence[str]) -> Sequence[str]:
        given = " ".join(option for option in options if "," not in option)
        words = (f"--name={name}", "--size=2", "--replica=3", f"--clusters={self._cluster}")
        made = self._told("create", *words, f"--gluster-volume-options={given}", "--json")
        self._ids[name] = json.loads(made)["id"]
        return [option for option in options if "," in option]

    def expand(self, name: str, by_gib: int) -> None:
        self._told("expand", f"--volume={self._ids[name]}", f"--expand-size={by_gib}")

    def delete(self, name: str) -> None:
        self._told("delete", self._ids[name])

    def _told(self, *words: str) -> str:
        """What it says; asked again when it has given up because Heketi has too much to do."""
        while True:
            argv = [self._program, "volume", *words]
            done = subprocess.run(
                argv, env=self._environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
            )
            if not done.returncode:
                return done.stdout
            if "Server busy" not in done.stderr:
                raise processes.LabError(f"heketi-cli volume {' '.join(words)}: {done.stderr.strip()}")
            time.sleep(BUSY_S)


class ByRest:
    """Heketi's REST interface, looked at ten times a second or more."""

    def __init__(self, cluster: gluster_cluster.GlusterCluster) -> None:
        self._heketi = heketi.Heketi(cluster.heketi.url, heketi.read_key(cluster.heketi.key_file))
        self._cluster = cluster.cluster
        self._ids: dict[str, str] = {}

    def make(self, name: str, options: Sequence[str]) -> Sequence[str]:
        kept = heketi.Durability("replicate", replicate=heketi.Copies(3))
        order = heketi.Order(name, 2, kept, [self._cluster], [" ".join(options)])
        self._ids[name] = self._done(lambda: self._heketi.make(order)).rpartition("/")[2]
        return ()

    def expand(self, name: str, by_gib: int) -> None:
        self._done(lambda: self._heketi.expand(self._ids[name], by_gib))

    def delete(self, name: str) -> None:
        self._done(lambda: self._heketi.delete(self._ids[name]))

    def _done(self, begin: Callable[[], str]) -> str:
        """Where the result is; asked again as long as Heketi has too much to do."""
        while True:
            try:
                return gluster_bed.result(self._heketi, begin(), PATIENCE_S)
            except contract.Busy:
                time.sleep(BUSY_S)


class Hand:
    """Heketi and gluster, told what to do without Abaca between."""

    def __init__(self, cluster: gluster_cluster.GlusterCluster, volumes: Volumes) -> None:
        self._ssh = (
            *("ssh", "-i", str(cluster.key_file), "-o", f"UserKnownHostsFile={cluster.known_hosts}"),
            *("-o", "ControlMaster=auto", "-o", f"ControlPath={cluster.directory}/ssh", "-o", "ControlPersist=3600"),
            f"root@{cluster.nodes[0].ipv4}",
        )
        self._volumes = volumes
        asked = heketi.Heketi(cluster.heketi.url, heketi.read_key(cluster.heketi.key_file))
        self._nodes = asked.cluster(cluster.cluster).nodes

    def create(self, name: str) -> None:
        """The volume, ordered with the options that the driver orders it with; its limit comes when it is let in to."""
        counting = (f"{option} {value}" for option, value in COUNTING.items())
        allow = f"{names.ALLOW} {names.allow(self._nodes, ())}"
        left = self._volumes.make(name, [*(f"{option} on" for option in names.SSL), *counting, allow])
        if left:
            self._gluster(*(f"volume set {name} {option}" for option in left))

    def let_in(self, name: str) -> None:
        """The first client, before whom the volume has its limit."""
        self._gluster(f"volume quota {name} enable", f"volume quota {name} limit-usage / 1GB")
        self.allow(name)

    def extend(self, name: str) -> None:
        self._volumes.expand(name, 3)
        self._gluster(f"volume quota {name} limit-usage / 4GB")

    def allow(self, name: str) -> None:
        """Whoever is let in already must be in the list as well: the same two calls that the driver makes."""
        self._gluster(f"volume info {name}")
        self._gluster(f"volume set {name} {names.ALLOW} {names.allow(self._nodes, ['alice'])}")

    def deny(self, name: str) -> None:
        self._gluster(f"volume set {name} {names.ALLOW} {names.allow(self._nodes, ())}")

    def delete(self, name: str) -> None:
        self._volumes.delete(name)

    def _gluster(self, *commands: str) -> None:
        """One after the other, by one line that is sent to the node."""
        line = " && ".join(f"gluster --mode=script {command}" for command in commands)
        processes.command([*self._ssh, line], timeout_s=PATIENCE_S)


class Ours:
    """The same by the API, until it shows that it is done."""

    def __init__(self, admin: caller.Caller) -> None:
        self._admin = admin
        self._ids: dict[str, str] = {}
        self._rules: dict[str, str] = {}

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
        rule = self.begin_allowing(name)
        time.sleep(FIRST_LOOK_S)
        self._until_active(rule, CLOSE_LOOK_S)

    def let_in(self, name: str) -> None:
        self._until_active(self.begin_allowing(name), LOOK_S)

    def begin_allowing(self, name: str) -> str:
        wish = {"access_type": "cert", "access_to": "alice", "access_level": "rw"}
        path = f"/shares/{self._ids[name]}/action"
        rule = self._rules[name] = self._admin.call("POST", path, {"allow_access": wish}).body["access"]["id"]
        return f"/share-access-rules/{rule}"

    def deny(self, name: str) -> None:
        rule, path = self._rules.pop(name), f"/shares/{self._ids[name]}/action"
        self._admin.call("POST", path, {"deny_access": {"access_id": rule}})
        _until(lambda: self._is_gone(f"/share-access-rules/{rule}"))

    def delete(self, name: str) -> None:
        path = f"/shares/{self._ids[name]}"
        self._admin.call("DELETE", path)
        _until(lambda: self._is_gone(path))

    def all_at_once(self, called: Sequence[str]) -> None:
        for path in [self.begin(name) for name in called]:
            self._until_available(path, LOOK_TOGETHER_S)

    def let_in_at_once(self, called: Sequence[str]) -> None:
        for path in [self.begin_allowing(name) for name in called]:
            self._until_active(path, LOOK_TOGETHER_S)

    def _until_active(self, path: str, every_s: float) -> None:
        _until(lambda: self._admin.get(path)["state"] == "active", every_s)

    def _until_available(self, path: str, every_s: float = LOOK_S) -> None:
        _until(lambda: self._admin.get(path)["status"] == "available", every_s)

    def _is_gone(self, path: str) -> bool:
        try:
            self._admin.get(path)
        except caller.Refused as refused:
            return refused.status == 404
        return False


def _until(is_so: Callable[[], bool], every_s: float = LOOK_S) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline_s:
            raise TimeoutError("it has not come to its end")
        time.sleep(every_s)


def _real(made: runs.Run) -> Iterator[Figure]:
    cluster = gluster_cluster.GlusterCluster(made, refresh_s=REFRESH_S)
    cluster.start()
    try:
        with service.Service(made, sections(cluster.section()), directory=made.path("abaca")) as abaca:
            admin = caller.Caller(abaca.url, {})
            caller.ensure_type(admin)
            caller.wait_for_pools(admin, PATIENCE_S)
            hand, by_rest, ours = Hand(cluster, ByCommand(cluster)), Hand(cluster, ByRest(cluster)), Ours(admin)
            yield from _one_by_one(hand, by_rest, ours)
            yield from _allow(hand, ours)
            yield from _first_clients(by_rest, ours)
            yield from _together(by_rest, ours)
    finally:
        cluster.stop()


def _one_by_one(hand: Hand, by_rest: Hand, ours: Ours) -> Iterator[Figure]:
    """Each step of a share's life in turn with the same by hand, who is first changes; the middle ones.

    The first round only warms. The share that stays brings certificates to the nodes, without which no volume starts.
    """
    ours.create("stays")
    steps = ("create", "let_in", "extend", "delete")  # to let in takes chance: `_first_clients`
    doers: list[tuple[str, Hand | Ours]] = [("ours", ours), ("hand", hand), ("rest", by_rest)]
    seen_s: dict[tuple[str, str], list[float]] = {}
    for number in range(ROUNDS + 1):
        turn = number % len(doers)
        for step in steps:
            for who, doer in doers[turn:] + doers[:turn]:
                took_s = seconds(getattr(doer, step), f"{who}-{number}")
                if number:
                    seen_s.setdefault((who, step), []).append(took_s)
    for step in ("create", "extend", "delete"):
        middle_s = {who: statistics.median(seen_s[who, step]) for who, _ in doers}
        yield from _beside(f"GlusterFS, {step}", middle_s, MOST)


def _allow(hand: Hand, ours: Ours) -> Iterator[Figure]:
    """What takes a tenth of a second is repeated until the middle is one; each time the client is let out again."""
    doers: dict[str, Hand | Ours] = {"hand": hand, "ours": ours}
    for who, doer in doers.items():
        doer.create(f"{who}-open")
        doer.let_in(f"{who}-open")
        doer.deny(f"{who}-open")
    seen_s: dict[str, list[float]] = {}
    for number in range(ALLOWED + 1):
        for who in list(doers)[:: 1 if number % 2 else -1]:
            took_s = seconds(doers[who].allow, f"{who}-open")
            doers[who].deny(f"{who}-open")
            if number:
                seen_s.setdefault(who, []).append(took_s)
    for who, doer in doers.items():
        doer.delete(f"{who}-open")
    yield from _beside("GlusterFS, allow", {who: statistics.median(took_s) for who, took_s in seen_s.items()}, MOST)


def _first_clients(by_rest: Hand, ours: Ours) -> Iterator[Figure]:
    """A client let in to each of some volumes, in turn with the same by hand; the time that three quarters stay below.

    glusterd starts its daemon of quota and sleeps a whole second if the daemon's socket is not there at once. Mostly
    it is not, on one of the nodes at least; where it happens to be, a second is missing, whoever asks.
    """
    called = [f"first-{number}" for number in range(FIRST_CLIENTS + 1)]
    seen_s: dict[str, list[float]] = {"hand": [], "ours": []}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(by_rest.create, called))
        ours.all_at_once(called)
        for number, name in enumerate(called):
            for who in list(seen_s)[:: 1 if number % 2 else -1]:
                took_s = seconds({"hand": by_rest, "ours": ours}[who].let_in, name)
                if number:
                    seen_s[who].append(took_s)
        for doer in (by_rest, ours):
            list(pool.map(doer.delete, called))
    most_s = {who: statistics.quantiles(took_s, n=4)[2] for who, took_s in seen_s.items()}
    yield from _beside("GlusterFS, first client, three quarters", most_s, MOST)


def _beside(name: str, took_s: Mapping[str, float], most: float) -> Iterator[Figure]:
    """Ours beside the same by hand, and by hand with Heketi's REST interface where that was done too."""
    has_heketi = "rest" in took_s
    yield Figure(f"{name}: wall by hand", took_s["hand"], "s")
    if has_heketi:
        yield Figure(f"{name}: wall by hand, Heketi by REST", took_s["rest"], "s")
    yield Figure(f"{name}: wall", took_s["ours"], "s")
    yield Figure(f"{name}: times by hand", took_s["ours"] / took_s["hand"], "x", most)
    if has_heketi:
        yield Figure(f"{name}: times by hand, Heketi by REST", took_s["ours"] / took_s["rest"], "x")


def _together(by_rest: Hand, ours: Ours) -> Iterator[Figure]:
    """Twenty posted together, and all let in to, in turn with the same by hand; the middle: one differs by a fifth."""
    called = [f"together-{number}" for number in range(TOGETHER)]
    seen_s: dict[str, dict[str, list[float]]] = {step: {"hand": [], "ours": []} for step in ("together", "let in")}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        steps: dict[str, dict[str, Callable[[], object]]] = {
            "hand": {
                "together": lambda: list(pool.map(by_rest.create, called)),
                "let in": lambda: list(pool.map(by_rest.let_in, called)),
            },
            "ours": {"together": lambda: ours.all_at_once(called), "let in": lambda: ours.let_in_at_once(called)},
        }
        for number in range(ROUNDS_TOGETHER):
            for who in list(steps)[:: 1 if number % 2 else -1]:
                for step, done in steps[who].items():
                    seen_s[step][who].append(seconds(done))
                list(pool.map({"hand": by_rest, "ours": ours}[who].delete, called))
    for step, took_s in seen_s.items():
        middle_s = {who: statistics.median(found_s) for who, found_s in took_s.items()}
        yield from _beside(f"GlusterFS, {TOGETHER} {step}, {AT_ONCE} at a time", middle_s, MOST_TOGETHER)
