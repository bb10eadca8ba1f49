# SPDX-License-Identifier: Apache-2.0
"""Mounting on machines that one logs in to: namespaces with an sshd each, guests with own kernels, a hypervisor."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Self, TypeVar

import msgspec

from abaca.domain.attachments.servers import Login
from abaca.nodes import shell
from abaca.nodes.contract import Guest, Job, Mount, Mounter
from abaca.nodes.mounts import Nodes
from abaca.nodes.shell import Limits
from benchmarks import clients, usage
from benchmarks.attach_calls import Took, attached
from benchmarks.stand import Stand
from lab import caller, fabric, guest, processes, qemu, service, ssh_node

SETTLE_S = 0.3
"""After which sshd has seen the ends of its sessions; only then does their CPU count."""
AT_ONCE = 24
"""How many machines of a round a worker is in at once."""
T = TypeVar("T")
_STARTING = 8
_PROJECT = "00000000000000000000000000000000"
_MOUNT = """#!/bin/sh
[ ! -e /run/mount-takes ] || sleep "$(cat /run/mount-takes)"
exec /bin/mount "$@"
"""


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


class Namespaces:
    """So many machines, and the hands of one worker; a context manager."""

    def __init__(self, stand: Stand, number: int) -> None:
        network = fabric.Fabric(stand.run)
        programs = {"mount": _MOUNT}
        self._machines = [ssh_node.SshNode(network, f"node{at}", programs=programs) for at in range(number)]

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as started:
            self._nodes = Nodes([_Memory()])
            started.callback(self._nodes.close)
            for machine in self._machines:
                started.callback(machine.kill)
            with concurrent.futures.ThreadPoolExecutor(_STARTING) as pool:
                for start in [pool.submit(machine.start) for machine in self._machines]:
                    start.result()
            self._started = started.pop_all()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._started.close()

    def slow_down(self, mount_s: float) -> None:
        """From now on mounting takes so long, without costing CPU, as where a server far away answers."""
        for machine in self._machines:
            (machine.root / "run" / "mount-takes").write_text(f"{mount_s:g}")

    def mounted(self, number: int) -> Took:
        """Mount something new on so many, and take it off again."""
        jobs = [_job(machine) for machine in self._machines[:number]]
        took = self._took(jobs)
        self._took([msgspec.structs.replace(job, action="unmount") for job in jobs])
        return took

    def entered(self, number: int) -> Took:
        """Log in to so many, as many at once as a worker does, and run `true`: no mounting can do without."""
        logins = [_job(machine).login for machine in self._machines[:number]]
        limits, free = Limits(), asyncio.Semaphore(AT_ONCE)

        async def enter(login: Login) -> None:
            async with free, shell.connected(login, limits) as machine:
                await machine.run(["true"], limit_s=limits.command_s)

        async def together() -> None:
            await asyncio.gather(*map(enter, logins))

        return self._timed(number, lambda: asyncio.run(together()))[1]

    def guest(self, ports: int) -> qemu.QemuGuest:
        """One that runs on the first machine and can be handed so many shares; it ends with the machines."""
        made = qemu.QemuGuest(self._machines[0], "guest", ports=ports).start()
        self._started.callback(made.kill)
        return made

    def handed(self, guest: qemu.QemuGuest, number: int) -> tuple[Took, Took]:
        """Hand so many new shares to a guest of the first machine at once, and take them back."""
        replace, jobs = msgspec.structs.replace, []
        for job in [_job(self._machines[0]) for _ in range(number)]:
            to = Guest(tag=job.mount.name, qmp_socket=guest.qmp_socket)
            jobs.append(replace(job, mount=replace(job.mount, guest=to)))
        return self._took(jobs), self._took([replace(job, action="unmount") for job in jobs])

    def _took(self, jobs: Sequence[Job]) -> Took:
        outcomes, took = self._timed(len(jobs), lambda: self._nodes.many(jobs))
        for outcome in outcomes:
            if outcome.error is not None:
                raise outcome.error
        return took

    def _timed(self, number: int, work: Callable[[], T]) -> tuple[T, Took]:
        inside = {machine.name: int(machine.root.parts[2]) for machine in self._machines[:number]}
        spent, own_s, begun_s = usage.Spent(inside), time.process_time(), time.perf_counter()
        done = work()
        wall_s = time.perf_counter() - begun_s
        time.sleep(SETTLE_S)
        cpu_s = {"the worker's side": time.process_time() - own_s, "the machine's side": sum(spent.so_far().values())}
        return done, Took(wall_s, cpu_s)


def _job(machine: ssh_node.SshNode) -> Job:
    ssh, name = machine.ssh, str(uuid.uuid4())
    login = Login(host=ssh.host, port=ssh.port, user=ssh.user, host_key=ssh.host_key, key=f"file:{ssh.private_key}")
    mount = Mount(name=name, protocol="MEMORY", source=f"10.0.0.1:/{name}", mount_point=f"/mnt/{name}")
    return Job(action="mount", login=login, mount=mount)


def on_a_hypervisor(stand: Stand, rounds: dict[int, int]) -> dict[str, dict[int, Took]]:
    """What handing so many shares (key) to a guest takes, and taking them back; each is done so many times (value)."""
    took: dict[str, dict[int, Took]] = {"hand in": {}, "take back": {}}
    with Namespaces(stand, 1) as machines:
        guest = machines.guest(max(rounds))
        for number, times in rounds.items():
            both = [machines.handed(guest, number) for _ in range(times)]
            for done, found in zip(took, zip(*both, strict=True), strict=True):
                took[done][number] = clients.middle(found)
    return took


def on_guests(stand: Stand, rounds: dict[int, int]) -> dict[int, Took]:
    """A real share attached to guests by `abaca run` on SQLite: so many times (value) to so many of them (key)."""
    network = fabric.Fabric(stand.run)
    nfs_port = processes.free_port("::")
    sections: dict[str, dict[str, object]] = {
        "DEFAULT": {
            "host": "bench",
            "enabled_share_backends": "local",
            "enabled_share_protocols": "NFS",
            "default_share_type": "default",
        },
        "local": {
            "driver": "local",
            "pool_size_gib": 20,
            "export_ips": network.host_ipv4,
            "ganesha_port": nfs_port,
        },
        "compute": {"key_directory": stand.run.directory},
        "nodes": {"nfs_port": nfs_port},
    }
    with _guests(network, max(rounds)) as guests:
        abaca = service.Service(stand.run, sections, directory=stand.run.path("attached-to-guests"))
        with abaca:
            user = caller.Caller(abaca.url, {})
            caller.ensure_type(user)
            caller.wait_for_pools(user)
            servers = [_registered(user, one) for one in guests]
            roots = {"Abaca": abaca.process.pid} | {one.name: one.pid for one in guests}
            took = {}
            for number, times in rounds.items():
                found = clients.middle([attached(user, servers[:number], roots) for _ in range(times)])
                ours = found.cpu_s.pop("Abaca")
                cpu_s = {"Abaca": ours, "the guest": sum(found.cpu_s.values())}
                took[number] = Took(found.wall_s, cpu_s)
    return took


@contextlib.contextmanager
def _guests(network: fabric.Fabric, number: int) -> Iterator[Sequence[guest.Guest]]:
    guests = guest.start_all(network, [f"guest{at}" for at in range(number)])
    try:
        yield guests
    finally:
        for one in guests:
            one.stop()


def _registered(user: caller.Caller, machine: guest.Guest) -> str:
    ssh = machine.ssh
    said = {
        "name": machine.name,
        "project_id": _PROJECT,
        "addresses": [{"ip": machine.ipv4}],
        "ssh_host": ssh.host,
        "ssh_port": ssh.port,
        "ssh_user": ssh.user,
        "host_key": ssh.host_key,
        "key": f"file:{ssh.private_key}",
    }
    return str(user.call("POST", "//abaca/v1/servers", {"server": said}).body["server"]["id"])
