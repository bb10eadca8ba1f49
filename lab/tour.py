# SPDX-License-Identifier: Apache-2.0
"""`make run`: start everything on this machine, show that it works, and keep serving.

python -m lab.tour [--once] [--state DIR] [--port 8786]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterable

import rich.console
import rich.markup

from lab import (
    caller,
    client,
    fabric,
    guest,
    processes,
    runs,
    service,
    ssh_node,
    tour_directory,
    tour_networks,
    tour_steps,
)

_PROJECTS = {name: uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.abaca.example").hex for name in ("admin", "demo")}
_USERS = {"admin": (_PROJECTS["admin"], "admin"), "demo": (_PROJECTS["demo"], "member")}
_CLOUDS = {"abaca": "demo", "abaca-admin": "admin"}
_POOL_GIB = 20
_TENANTS_GIB = 2
_NFS_PORT = 2049
_MICROVERSION = "2.98"
_SERVER = "client"
_PAPER: dict[str, object] = {
    "addresses": [{"ip": "192.0.2.10"}],
    "host_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f",
    "key": "file:/etc/abaca/keys/none",
}


class Tour:
    """Takes steps, shows each with its time, and counts those that held and those that failed."""

    def __init__(self, console: rich.console.Console) -> None:
        self._console = console
        self.held = 0
        self.failed = 0

    def take(self, step: tour_steps.Step) -> bool:
        """Take a step and say whether it held."""
        begun = time.monotonic()
        try:
            with self._console.status(step.says):
                remark = step.does()
        except processes.LabError as problem:
            self.failed += 1
            self._line("[red]failed[/]", begun, step.says, str(problem))
            return False
        self.held += 1
        self._line("[green]held  [/]", begun, step.says, remark or "")
        return True

    def summary(self) -> str:
        """The last line."""
        return f"tour: {self.held + self.failed} steps, {self.failed} failed"

    def _line(self, mark: str, begun: float, says: str, remark: str) -> None:
        shown = f"  [dim]{rich.markup.escape(remark)}[/]" if remark else ""
        self._console.print(f"{mark} {time.monotonic() - begun:6.2f} s  {says}{shown}", soft_wrap=True, highlight=False)


class Everything:
    """What the tour starts: a machine that mounts shares where that is possible, and Abaca."""

    def __init__(self, run: runs.Run, directory: pathlib.Path, port: int) -> None:
        self.run = run
        self.directory = directory
        self.left_out = _what_is_missing()
        self.machine: guest.Guest | ssh_node.SshNode | None = None
        self.network: fabric.Fabric | None = None
        self.nfs_port = _NFS_PORT
        self.clouds = directory / "clouds.yaml"
        self._port = port
        self._passwords: dict[str, str] = {}
        self.service: service.Service | None = None

    def start_machine(self) -> str:
        """Boot a client on a network of its own."""
        self.network = fabric.Fabric(self.run)
        kind = ssh_node.SshNode if client.host_speaks_nfs() else guest.Guest
        self.machine = kind(self.network, _SERVER).start()
        return f"{self.machine.ipv4}, {self.machine.ipv6}"

    def start_abaca(self) -> str:
        """Start the service with users of its own and one back end."""
        users_file = self.directory / "users"
        self._passwords = service.write_users(users_file, _USERS)
        sections: dict[str, dict[str, object]] = {
            "DEFAULT": {
                "auth_strategy": "http_basic",
                "http_basic_auth_user_file": users_file,
                "default_share_type": "default",
                "enabled_share_backends": "local,tenants" if self.network else "dummy,tenants",
                "enabled_share_protocols": "NFS",
            },
            "tenants": {"driver": "local" if self.network else "dummy", "driver_handles_share_servers": "true"},
            **tour_networks.sections(),
        }
        if self.network:
            sections["tenants"]["pool_size_gib"] = _TENANTS_GIB
            # One of its own, since two that start at once would both find the usual one free.
            self.nfs_port = processes.free_port("::")
            sections["local"] = {
                "driver": "local",
                "pool_size_gib": _POOL_GIB,
                "export_ips": f"{self.network.host_ipv4}, {self.network.host_ipv6}",
                "ganesha_port": self.nfs_port,
            }
        sections["nodes"] = {"mount_roots": "/net"}
        if self.machine:
            sections["nodes"]["nfs_port"] = self.nfs_port
            sections["compute"] = {"key_directory": self.machine.ssh.private_key.parent}
        else:
            sections["nodes"]["plugin"] = "rehearsal"
        self.service = service.Service(self.run, sections, directory=self.directory, port=self._port)
        self.service.start()
        self._write_clouds()
        return self.service.url

    def caller(self, user: str) -> caller.Caller:
        """A caller of the API as one of the users."""
        if self.service is None:
            raise processes.LabError("abaca is not running")
        return caller.Caller(self.service.url, caller.basic(user, self._passwords[user]))

    @property
    def pool(self) -> pathlib.Path | None:
        """Where the back end's pool lies on this host; None where there is none."""
        return self.directory / "state" / "backends" / "local" / "pool" if self.network else None

    @property
    def server(self) -> dict[str, object]:
        """What is registered of the machine, so that shares can be attached to it."""
        known: dict[str, object] = {"name": _SERVER, "project_id": _PROJECTS["demo"]}
        if self.machine is None:
            return known | _PAPER
        ssh = self.machine.ssh
        return known | {
            "addresses": [{"ip": self.machine.ipv4}, {"ip": self.machine.ipv6}],
            "ssh_host": ssh.host,
            "ssh_port": ssh.port,
            "ssh_user": ssh.user,
            "host_key": ssh.host_key,
            "key": f"file:{ssh.private_key}",
        }

    def _write_clouds(self) -> None:
        """Entries for the unmodified `openstack` client; JSON is YAML."""
        url = f"http://127.0.0.1:{self._port}"
        clouds = {
            cloud: {
                "auth_type": "http_basic",
                "auth": {"endpoint": f"{url}/v2", "username": user, "password": self._passwords[user]},
                "shared_file_system_endpoint_override": f"{url}/v2",
                "shared_file_system_api_version": _MICROVERSION,
                # `server list` insists on one, and asks it nothing
                "identity_api_version": "3",
                "identity_endpoint_override": f"{url}/v2",
                "compute_endpoint_override": f"{url}/compute/v2.1",
                "compute_api_version": "2.97",
            }
            for cloud, user in _CLOUDS.items()
        }
        self.clouds.touch(mode=0o600)
        self.clouds.write_text(json.dumps({"clouds": clouds}, indent=2) + "\n")

    def advice(self) -> Iterable[str]:
        """What to try next, a line each."""
        openstack = pathlib.Path(sys.executable).with_name("openstack")
        yield f"export OS_CLIENT_CONFIG_FILE={self.clouds}"
        yield f"{openstack} --os-cloud abaca share create NFS 1 --name first --wait"
        if self.machine:
            yield f"{openstack} --os-cloud abaca share access create first ip {self.machine.ipv4} --wait"
        yield f"{openstack} --os-cloud abaca share export location list first"
        yield f"{openstack} --os-cloud abaca-admin share pool list --detail"
        yield f"{openstack} --os-cloud abaca server add share {_SERVER} first"
        yield f"{openstack} --os-cloud abaca server share list {_SERVER}"
        if self.service:
            abaca = pathlib.Path(sys.executable).with_name("abaca")
            yield f"{abaca} attachment list --config-file {self.service.configuration}"
        yield f"{openstack} --os-cloud abaca server remove share {_SERVER} first"
        if self.machine:
            options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
            yield f"ssh {options} -i {self.machine.ssh.private_key} root@{self.machine.ipv4}"
            yield f"    mount -t nfs4 -o vers=4.2,port={self.nfs_port} EXPORT-LOCATION /mnt"


def main(argv: list[str] | None = None) -> int:
    """Take the tour; 0 only if every step held."""
    options = _options(argv)
    console = rich.console.Console(width=None if sys.stdout.isatty() else 200)
    tour = Tour(console)
    signal.signal(signal.SIGTERM, _stop)
    run = runs.Run()
    try:
        service.check_port(options.port)
        with run, contextlib.suppress(KeyboardInterrupt):
            directory = run.keep(options.state) if options.state else run.path("tour")
            everything = Everything(run, directory, options.port)
            if everything.left_out:
                console.print(f"Without mounting, writing and reading: {everything.left_out}.", soft_wrap=True)
            _walk(tour, everything)
            if tour.failed:
                _show_log(console, everything)
            elif not options.once:
                _serve(console, tour, everything)
    except processes.LabError as problem:
        console.print(f"[red]{rich.markup.escape(str(problem))}[/]", soft_wrap=True)
        return 1
    if options.once or tour.failed:
        tour.take(tour_steps.Step("everything is stopped and nothing is left behind", _look_for(run.leftovers)))
        console.print(tour.summary())
    return 1 if tour.failed else 0


def _walk(tour: Tour, everything: Everything) -> None:
    begin = [tour_steps.Step("abaca starts", everything.start_abaca)]
    if not everything.left_out:
        begin.insert(0, tour_steps.Step("a machine that will mount shares boots", everything.start_machine))
    if all(tour.take(step) for step in begin):
        callers = everything.caller("admin"), everything.caller("demo")
        life = tour_steps.ShareLife(*callers, everything.machine, everything.nfs_port, everything.server)
        mount = everything.machine, everything.nfs_port
        directory = tour_directory.TakingOver(*callers, everything.pool, mount)
        tenant = tour_networks.TenantNetwork(*callers)
        # after one that failed the others are not tried
        all(tour.take(step) for step in (*life.steps(), *directory.steps(), *tenant.steps()))


def _what_is_missing() -> str:
    """Why nothing can be mounted on this machine; empty if it can."""
    if os.geteuid() != 0:
        return "only root can make networks, mounts and NFS servers"
    try:
        processes.need("ganesha.nfsd", package="nfs-ganesha-vfs")
        client.need()
        if client.host_speaks_nfs():
            ssh_node.need()
    except processes.Missing as missing:
        return str(missing)
    return ""


def _serve(console: rich.console.Console, tour: Tour, everything: Everything) -> None:
    console.print(tour.summary())
    tour_steps.register(everything.caller("admin"), everything.server)
    console.print(
        f"\nAbaca goes on serving, and the machine is its server {_SERVER} again; try, in another terminal:\n"
    )
    for line in everything.advice():
        console.print(f"  {line}", soft_wrap=True, highlight=False, markup=False)
    console.print("\nCtrl-C stops everything.")
    process = everything.service.process if everything.service else None
    while process is not None and process.alive():
        process.wait(3600.0)
    if process is not None:
        raise processes.LabError(f"abaca ended with {process.wait(1.0)}\n{process.log_tail()}")


def _show_log(console: rich.console.Console, everything: Everything) -> None:
    with contextlib.suppress(processes.LabError):
        if everything.service:
            console.print("The end of Abaca's log:")
            console.print(everything.service.process.log_tail(40), soft_wrap=True, markup=False, highlight=False)


def _look_for(leftovers: Callable[[], list[str]]) -> Callable[[], str]:
    def look() -> str:
        found = leftovers()
        if found:
            raise processes.LabError("; ".join(found))
        return ""

    return look


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab.tour", description="Start everything and take the tour.")
    parser.add_argument("--once", action="store_true", help="stop after the tour")
    parser.add_argument(
        "--state", type=pathlib.Path, metavar="DIR", help="keep the state here (otherwise it is removed)"
    )
    parser.add_argument("--port", type=int, default=8786, help="port of the API on 127.0.0.1")
    return parser.parse_args(argv)


def _stop(*_signal: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
