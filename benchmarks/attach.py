# SPDX-License-Identifier: Apache-2.0
"""What attaching takes: a share to many servers by SSH, real guests and on paper, and shares to a guest by virtiofs."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import attach_machines, clients
from benchmarks.attach_calls import Took, attached
from benchmarks.figures import Figure
from benchmarks.stand import Stand
from lab import caller, guest, processes, qemu, service, ssh_node

SIZES = (1, 10, 32, 100)
ROUNDS = {1: 5, 10: 3, 32: 3, 100: 1}
GUESTS = {1: 5, 10: 3}
HANDED = {1: 7, 8: 3}
AT_ONCE, TIMES = 32, 3
"""The target: as many machines at once take at most so many times what one takes."""
MOUNT_S = 0.5


def run(stand: Stand) -> Iterator[Figure]:
    """By SSH and on guests where those can be made, then on paper."""
    try:
        ssh_node.need()
        guest.need()
        qemu.need()
    except processes.Missing as missing:
        print(f"attach: nothing is measured by SSH: {missing}")
    else:
        yield from _by_ssh(stand)
        yield from _figures("guests, real NFS: attach to", attach_machines.on_guests(stand, GUESTS))
        yield from _by_a_hypervisor(stand)
    yield from _on_paper(stand)


def _figures(name: str, took: dict[int, Took], times: int | None = TIMES) -> Iterator[Figure]:
    one_s = took[1].wall_s
    for number, found in took.items():
        yield Figure(f"{name} {number}: wall", found.wall_s, "s")
        if number > 1:
            most = times * -(-number // AT_ONCE) if times else None
            yield Figure(f"{name} {number}: wall, times that of 1", found.wall_s / one_s, "x", most)
        for who, cpu_s in found.cpu_s.items():
            yield Figure(f"{name} {number}: CPU of {who} a machine", cpu_s / number * 1000, "ms")


def _by_ssh(stand: Stand) -> Iterator[Figure]:
    with attach_machines.Namespaces(stand, max(SIZES)) as machines:
        yield from _figures("SSH, mounts at once: mount on", _mounted(machines))
        yield from _figures("SSH, no mount: log in to", _entered(machines), None)
        machines.slow_down(MOUNT_S)
        yield from _figures(f"SSH, mounts of {MOUNT_S:g} s: mount on", _mounted(machines))


def _mounted(machines: attach_machines.Namespaces) -> dict[int, Took]:
    return {number: clients.middle([machines.mounted(number) for _ in range(ROUNDS[number])]) for number in SIZES}


def _entered(machines: attach_machines.Namespaces) -> dict[int, Took]:
    return {number: clients.middle([machines.entered(number) for _ in range(ROUNDS[number])]) for number in SIZES}


def _by_a_hypervisor(stand: Stand) -> Iterator[Figure]:
    for done, took in attach_machines.on_a_hypervisor(stand, HANDED).items():
        for number, found in took.items():
            yield Figure(f"virtiofs: {done} {number}: wall", found.wall_s, "s")
            for who, cpu_s in found.cpu_s.items():
                yield Figure(f"virtiofs: {done} {number}: CPU of {who} a share", cpu_s / number * 1000, "ms")


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
            rounds = [attached(user, servers[:number], roots) for _ in range(ROUNDS[number])]
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
