# SPDX-License-Identifier: Apache-2.0
"""What shares on all nodes of a cluster take: made, a node more, taken away, looked at; on paper, and by SSH."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Self

import psycopg

from benchmarks import attach_machines, clients, usage
from benchmarks.attach_calls import Took
from benchmarks.figures import Figure
from benchmarks.stand import Stand
from lab import caller, guest, processes, service, ssh_node

MOUNT_S = 0.5
ROUNDS = {1: 5, 10: 3, 100: 3, 1_000: 1}
"""How often a cluster of so many nodes is made; the middle one counts."""
TIMES = {100: 4, 1_000: 30}
"""The target: so many nodes take at most so many times what one takes."""
BY_SSH, SSH_ROUNDS = 32, 3
GROWN = (10, 1_000, 9_900)
"""To clusters of so many nodes more are added; 10,000 is the most that one has."""
ADDED = 7
EACH_ITS_RULE = 1_000
"""So many nodes have an access rule each; of more the network is let in."""
NETWORK = "10.0.0.0/8"
LARGE, SCALED_BY = 9_000, 1_000
"""The life of a cluster that becomes as large as one can be: made, given a share more, scaled, deleted."""
FLAT, ONE_MORE = 1.2, 2
"""The targets: CPU a node from 100 nodes to the most, and one node more for a large cluster, in times a small one."""
LOOK_INTERVAL_S, USUAL_INTERVAL_S = 5, 600
_PROJECT = "00000000000000000000000000000000"
# so many servers fit into the body of one request
_AT_ONCE = 250
_DOOR = "//abaca/v1/clusters"
_LIMIT_S = 1_200.0


def run(stand: Stand) -> Iterator[Figure]:
    """By SSH where machines can be made, then on paper: with mounts that take their time, and without."""
    try:
        ssh_node.need()
        guest.need()
    except processes.Missing as missing:
        print(f"clusters: nothing is measured by SSH: {missing}")
    else:
        yield from _by_ssh(stand)
    with _Paper(stand) as paper:
        yield from _made(paper)
        paper.restart(rehearsal_delays=None)
        yield from _grown(paper)
        # last: what it leaves behind is vacuumed, at the database's own time, while others are measured
        yield from _lived(paper)


def _by_ssh(stand: Stand) -> Iterator[Figure]:
    """What a worker's hands take: there is no back end, API or database in it."""
    with attach_machines.Namespaces(stand, BY_SSH) as machines:
        machines.slow_down(MOUNT_S)
        took = {number: clients.middle([machines.mounted(number) for _ in range(SSH_ROUNDS)]) for number in (1, BY_SSH)}
    for number, found in took.items():
        yield Figure(f"SSH, mounts of {MOUNT_S:g} s, {number} nodes: wall", found.wall_s, "s")
    yield Figure(f"SSH, {BY_SSH} nodes: wall, times that of 1", took[BY_SSH].wall_s / took[1].wall_s, "x")
    for who, cpu_s in took[BY_SSH].cpu_s.items():
        yield Figure(f"SSH, {BY_SSH} nodes: CPU of {who} a node", cpu_s / BY_SSH * 1000, "ms")


def _made(paper: _Paper) -> Iterator[Figure]:
    one_s = 0.0
    for number, rounds in ROUNDS.items():
        made, gone = [], []
        for _ in range(rounds):
            cluster_id, took = paper.create(number, None)
            made.append(took)
            gone.append(paper.delete(cluster_id))
        took = clients.middle(made)
        one_s = one_s or took.wall_s
        name = f"cluster, mounts of {MOUNT_S:g} s on paper, {number} nodes"
        yield Figure(f"{name}: wall", took.wall_s, "s")
        if number > 1:
            yield Figure(f"{name}: wall, times that of 1", took.wall_s / one_s, "x", TIMES.get(number))
        yield from _cpu(name, took, number)
        yield Figure(f"{name}: deleted", clients.middle(gone).wall_s, "s")


def _cpu(name: str, took: Took, number: int) -> Iterator[Figure]:
    for who, cpu_s in took.cpu_s.items():
        yield Figure(f"{name}: CPU of {who} a node", cpu_s / number * 1000, "ms")


def _lived(paper: _Paper) -> Iterator[Figure]:
    """As many nodes as there can be; what is done to each has its CPU."""
    cluster_id, made = paper.create(LARGE, NETWORK)
    more = {"node_groups": [{"name": "nodes", "add_servers": [f"node[{LARGE:05}-{LARGE + SCALED_BY - 1:05}]"]}]}
    steps = (
        ("made", LARGE, made),
        ("a share more", LARGE, paper.change(cluster_id, {"add_shares": [{"id": paper.other_share_id}]})),
        (f"scaled by {SCALED_BY:,}", SCALED_BY, paper.change(cluster_id, more)),
        ("deleted", LARGE + SCALED_BY, paper.delete(cluster_id)),
    )
    for what, nodes, took in steps:
        name = f"cluster of {LARGE:,} nodes, {what}"
        yield Figure(f"{name}: wall", took.wall_s, "s")
        yield from _cpu(name, took, nodes)


def _grown(paper: _Paper) -> Iterator[Figure]:
    """Mounts end at once here: what is asked is what the service itself does."""
    for network in (None, NETWORK):
        how = "a rule a node" if network is None else "a rule for the network"
        sizes = [number for number in (*GROWN, 100) if network is not None or number <= EACH_ITS_RULE]
        made: dict[int, Took] = {}
        more: dict[int, Took] = {}
        for number in sorted(sizes):
            cluster_id, made[number] = paper.create(number, network)
            more[number] = clients.middle([paper.add(cluster_id, number + one) for one in range(ADDED)])
            if number == max(GROWN):
                yield from _looked_at(paper, number + ADDED)
            paper.delete(cluster_id)
        for number, took in made.items():
            yield from _cpu(f"cluster, {how}, {number} nodes", took, number)
        largest = max(made)
        times = _all_cpu_s(made[largest]) / largest / (_all_cpu_s(made[100]) / 100)
        yield Figure(f"cluster, {how}, {largest} nodes: CPU a node, times 100's", times, "x", FLAT)
        for number, took in more.items():
            name = f"cluster, {how}, one node more for {number}"
            yield Figure(f"{name}: wall", took.wall_s * 1000, "ms")
            yield from _cpu(name, took, 1)
            if number > min(more):
                times = _all_cpu_s(took) / _all_cpu_s(more[min(more)])
                yield Figure(f"{name}: CPU, times {min(more)}'s", times, "x", ONE_MORE)


def _all_cpu_s(took: Took) -> float:
    return sum(took.cpu_s.values())


def _looked_at(paper: _Paper, number: int) -> Iterator[Figure]:
    """What it costs that each node is looked at again and again, as the usual interval has it."""
    paper.restart(verify_interval_s=LOOK_INTERVAL_S)
    took = paper.looked_at()
    paper.restart(verify_interval_s=3600)
    yield Figure(f"verifying {number} nodes once: wall", took.wall_s, "s")
    yield from _cpu(f"verifying {number} nodes", took, number)
    share = _all_cpu_s(took) / USUAL_INTERVAL_S * 100
    yield Figure(f"verifying {number} nodes every {USUAL_INTERVAL_S} s: of one core", share, "%")


class _Paper:
    """An `abaca run` on PostgreSQL with more than enough servers, on which nothing but what is asked for is mounted."""

    def __init__(self, stand: Stand) -> None:
        self._database = "clusters"
        self._postgres = stand.postgres
        sections: dict[str, dict[str, object]] = {
            "DEFAULT": {"host": "bench", "enabled_share_backends": "dummy", "default_share_type": "default"},
            "database": {"connection": stand.postgres.create_database(self._database)},
            "dummy": {"driver": "dummy"},
            "nodes": {"plugin": "rehearsal", "rehearsal_delays": f"mount:{MOUNT_S}", "verify_interval_s": 3600},
        }
        self._abaca = service.Service(stand.run, sections, directory=stand.run.path("clusters"))
        self._user = caller.Caller(self._abaca.url, {})
        self._number = 0

    def __enter__(self) -> Self:
        self._abaca.upgrade_database()
        with contextlib.ExitStack() as started:
            started.enter_context(self._abaca)
            caller.ensure_type(self._user)
            caller.wait_for_pools(self._user)
            last = max(max(GROWN) + ADDED, LARGE + SCALED_BY)
            for first in range(0, last, _AT_ONCE):
                said = [_server(number) for number in range(first, min(first + _AT_ONCE, last))]
                self._user.call("POST", "//abaca/v1/servers/register", {"servers": said})
            self._share_id, self.other_share_id = (self._share() for _ in range(2))
            self._started = started.pop_all()
        return self

    def _share(self) -> str:
        share_id = str(self._user.post("/shares", "share", share_proto="NFS", size=1)["id"])
        self._user.wait(f"/shares/{share_id}", "available")
        return share_id

    def __exit__(self, *_exception: object) -> None:
        self._started.close()

    def restart(self, **options: object) -> None:
        """The same with other options of its machines."""
        self._abaca.stop()
        self._abaca.configure("nodes", **options)
        self._abaca.start()

    def create(self, number: int, network: str | None) -> tuple[str, Took]:
        """A cluster of so many nodes with one share, from the request until it is active; its id."""
        self._number += 1
        said = {
            "name": f"c{self._number}",
            "servers": [f"node[00000-{number - 1:05}]"],
            "shares": [{"id": self._share_id}],
            "network": network,
            "project_id": _PROJECT,
        }
        begun = self._begin()
        cluster_id = str(self._user.call("POST", _DOOR, {"cluster": said}).body["cluster"]["id"])
        return cluster_id, self._until_active(cluster_id, begun)

    def add(self, cluster_id: str, number: int) -> Took:
        """One node more, the server of that number, from the request until the cluster is active."""
        return self.change(cluster_id, {"node_groups": [{"name": "nodes", "add_servers": [f"node{number:05}"]}]})

    def change(self, cluster_id: str, how: dict[str, object]) -> Took:
        """The cluster changed, from the request until it is active again."""
        begun = self._begin()
        self._user.call("PATCH", f"{_DOOR}/{cluster_id}", {"cluster": how})
        return self._until_active(cluster_id, begun)

    def delete(self, cluster_id: str) -> Took:
        """The cluster, from the request until it is gone."""
        begun = self._begin()
        self._user.call("DELETE", f"{_DOOR}/{cluster_id}")
        self._wait(begun[1], lambda: self._status(cluster_id) is None)
        return self._ended(begun)

    def looked_at(self) -> Took:
        """All that is attached, once: from now until the last was seen on its machine."""
        begun = self._begin()
        url = self._postgres.url(self._database, driver="postgresql")
        with psycopg.connect(url, autocommit=True) as connection:
            (now,) = connection.execute("SELECT now() AT TIME ZONE 'UTC'").fetchone() or (None,)
            left = "SELECT 1 FROM attachments WHERE last_verified_at IS NULL OR last_verified_at < %s LIMIT 1"
            self._wait(begun[1], lambda: connection.execute(left, (now,)).fetchone() is None)
        return self._ended(begun)

    def _begin(self) -> tuple[usage.Spent, float]:
        roots = {"Abaca": self._abaca.process.pid, "the database": self._postgres.process.pid}
        return usage.Spent(roots), time.perf_counter()

    def _ended(self, begun: tuple[usage.Spent, float]) -> Took:
        spent, begun_s = begun
        return Took(time.perf_counter() - begun_s, spent.so_far())

    def _until_active(self, cluster_id: str, begun: tuple[usage.Spent, float]) -> Took:
        self._wait(begun[1], lambda: self._status(cluster_id) == "active")
        return self._ended(begun)

    def _status(self, cluster_id: str) -> str | None:
        """Its status; None where it is gone."""
        found: Sequence[dict[str, object]] = self._user.get(f"{_DOOR}?id={cluster_id}")
        if found and found[0]["error"] is not None:
            raise RuntimeError(f"cluster in error: {found[0]['error']}")
        return str(found[0]["status"]) if found else None

    @staticmethod
    def _wait(begun_s: float, is_so: Callable[[], bool]) -> None:
        """Look until it is so, the less often the longer it takes: looks cost as well."""
        while not is_so():
            passed_s = time.perf_counter() - begun_s
            if passed_s > _LIMIT_S:
                raise RuntimeError(f"not within {_LIMIT_S:g} s")
            time.sleep(max(0.02, passed_s / 50))


def _server(number: int) -> dict[str, object]:
    ip = f"10.{100 + number // 62_500}.{number // 250 % 250}.{number % 250 + 1}"
    return {
        "name": f"node{number:05}",
        "project_id": _PROJECT,
        "addresses": [{"ip": ip}],
        "ssh_host": ip,
        "host_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f",
        "key": "file:/etc/abaca/keys/none",
    }
