# SPDX-License-Identifier: Apache-2.0
"""What attaching one share to many servers takes: the mounting by SSH, and the whole way with machines on paper."""

from __future__ import annotations

import concurrent.futures
import contextlib
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from abaca.nodes.contract import Entry, Job, Mount, Mounter
from abaca.nodes.mounts import Nodes
from benchmarks import clients, usage
from benchmarks.figures import Figure
from benchmarks.stand import Stand
from lab import caller, fabric, processes, service, ssh_node

SIZES = (1, 10, 32, 100)
ROUNDS = {1: 5, 10: 3, 32: 3, 100: 1}
AT_ONCE, TIMES = 32, 3
"""The target: as many machines at once take at most so many times what one takes."""
MOUNT_S = 0.5
LOOK_EVERY_S = 0.02
SETTLE_S = 0.3
"""After which sshd has seen the ends of its sessions; only then does their CPU count."""
_DOOR = "//abaca/v1/attachments"
_LIMIT_S = 300.0
_STARTING = 8


class Took(NamedTuple):
    """Seconds from the request until the last is mounted, and CPU seconds of all that worked on it, by name."""

    wall_s: float
    cpu_s: dict[str, float]


def run(stand: Stand) -> Iterator[Figure]:
    """By SSH where namespaces can be made, then on paper."""
    try:
        ssh_node.need()
    except processes.Missing as missing:
        print(f"attach: nothing is measured by SSH: {missing}")
    else:
        yield from _by_ssh(stand)
    yield from _on_paper(stand)


def _figures(name: str, took: dict[int, Took]) -> Iterator[Figure]:
    one_s = took[1].wall_s
    for number, found in took.items():
        yield Figure(f"{name} {number}: wall", found.wall_s, "s")
        if number > 1:
            most = TIMES * -(-number // AT_ONCE)
            yield Figure(f"{name} {number}: wall, times that of 1", found.wall_s / one_s, "x", most)
        for who, cpu_s in found.cpu_s.items():
            yield Figure(f"{name} {number}: CPU of {who} a machine", cpu_s / number * 1000, "ms")


# -------------------------------------------------------------------- by SSH


class _Plain(msgspec.Struct, frozen=True, kw_only=True):
    """A machine's address, as the compute plug-ins give it."""

    host: str
    port: int
    user: str
    host_key: str
    key: str


class _Memory(Mounter):
    """Memory in place of NFS: namespaces mount with this host's kernel, which need not speak it."""

    protocols = ("MEMORY",)
    fstype = "tmpfs"
    program = "mount"

    def packages(self, distribution: str) -> tuple[str, ...]:
        return ()

    def check(self, source: str) -> str | None:
        return None

    def options(self, mount: Mount) -> tuple[str, ...]:
        return ("rw", "size=1m")


def _by_ssh(stand: Stand) -> Iterator[Figure]:
    network = fabric.Fabric(stand.run)
    with contextlib.ExitStack() as started:
        nodes = Nodes([_Memory()])
        started.callback(nodes.close)
        begun_s = time.perf_counter()
        machines = [ssh_node.SshNode(network, f"node{number}") for number in range(max(SIZES))]
        with concurrent.futures.ThreadPoolExecutor(_STARTING) as pool:
            starts = [pool.submit(machine.start) for machine in machines]
        for machine in machines:
            started.callback(machine.kill)
        for start in starts:
            start.result()
        yield Figure(f"SSH: {len(machines)} namespaces with sshd: start", time.perf_counter() - begun_s, "s")
        took = {}
        for number in SIZES:
            rounds = [_mounted(nodes, machines[:number]) for _ in range(ROUNDS[number])]
            took[number] = clients.middle(rounds)
        yield from _figures("SSH: mount on", took)


def _mounted(nodes: Nodes, machines: Sequence[ssh_node.SshNode]) -> Took:
    """Mount something new on all, and take it off again."""
    jobs = [_job(machine) for machine in machines]
    inside = {f"the machine {at}": int(machine.root.parts[2]) for at, machine in enumerate(machines)}
    spent, own_s, begun_s = usage.Spent(inside), time.process_time(), time.perf_counter()
    outcomes = nodes.many(jobs)
    wall_s = time.perf_counter() - begun_s
    time.sleep(SETTLE_S)
    cpu_s = {"the worker's side": time.process_time() - own_s, "the machine's side": sum(spent.so_far().values())}
    for outcome in [*outcomes, *nodes.many([msgspec.structs.replace(job, action="unmount") for job in jobs])]:
        if outcome.error is not None:
            raise outcome.error
    return Took(wall_s, cpu_s)


def _job(machine: ssh_node.SshNode) -> Job:
    ssh, name = machine.ssh, str(uuid.uuid4())
    entry: Entry = _Plain(
        host=ssh.host, port=ssh.port, user=ssh.user, host_key=ssh.host_key, key=f"file:{ssh.private_key}"
    )
    mount = Mount(name=name, protocol="MEMORY", source=f"10.0.0.1:/{name}", mount_point=f"/mnt/{name}")
    return Job(action="mount", entry=entry, mount=mount)


# -------------------------------------------------------------------- on paper


def _on_paper(stand: Stand) -> Iterator[Figure]:
    sections: dict[str, dict[str, object]] = {
        "DEFAULT": {"host": "bench", "enabled_share_backends": "dummy", "default_share_type": "default"},
        "database": {"connection": stand.postgres.create_database("attached")},
        "dummy": {"driver": "dummy"},
        "nodes": {"plugin": "rehearsal", "rehearsal_delays": f"mount:{MOUNT_S}"},
    }
    abaca = service.Service(stand.run, sections, directory=stand.run.path("attached"))
    abaca.upgrade_database()
    with abaca:
        user = caller.Caller(abaca.url, {})
        caller.ensure_type(user)
        caller.wait_for_pools(user)
        servers = [_registered(user, number) for number in range(max(SIZES))]
        roots = {"Abaca": abaca.process.pid, "the database": stand.postgres.process.pid}
        took = {}
        for number in SIZES:
            rounds = [_attached(user, servers[:number], roots) for _ in range(ROUNDS[number])]
            took[number] = clients.middle(rounds)
        yield from _figures(f"mounts of {MOUNT_S:g} s on paper: attach to", took)


def _registered(user: caller.Caller, number: int) -> str:
    said = {
        "name": f"paper{number}",
        "addresses": [{"ip": f"10.9.{number // 250}.{number % 250 + 1}"}],
        "ssh_host": f"10.9.{number // 250}.{number % 250 + 1}",
        "host_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f",
        "key": "file:/etc/abaca/keys/none",
    }
    return str(user.call("POST", "//abaca/v1/servers", {"server": said}).body["server"]["id"])


def _attached(user: caller.Caller, servers: Sequence[str], roots: dict[str, int]) -> Took:
    """A new share attached to all in one request, looked at until all are active, then detached and deleted."""
    share_id = user.post("/shares", "share", share_proto="NFS", size=1)["id"]
    user.wait(f"/shares/{share_id}", "available")
    spent, begun_s = usage.Spent(roots), time.perf_counter()
    wish = {"attachment": {"share_id": share_id, "server_ids": list(servers)}}
    made = user.call("POST", _DOOR, wish).body
    if made["refused"]:
        raise RuntimeError(f"not attached: {made['refused']}")

    def states() -> list[str]:
        found = user.get(f"{_DOOR}?share_id={share_id}&limit=1000")
        failed = [one["error"] for one in found if one["state"] == "error"]
        if failed:
            raise RuntimeError(f"attached with an error: {failed}")
        return [one["state"] for one in found]

    _until(lambda: states() == ["active"] * len(servers), begun_s)
    took = Took(time.perf_counter() - begun_s, spent.so_far())
    for one in made["attachments"]:
        user.call("DELETE", f"{_DOOR}/{one['id']}")
    _until(lambda: states() == [], time.perf_counter())
    user.call("DELETE", f"/shares/{share_id}")
    return took


def _until(ready: Callable[[], bool], begun_s: float) -> None:
    while not ready():
        if time.perf_counter() - begun_s > _LIMIT_S:
            raise RuntimeError(f"not all of them within {_LIMIT_S:g} s")
        time.sleep(LOOK_EVERY_S)
