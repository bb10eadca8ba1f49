# SPDX-License-Identifier: Apache-2.0
"""A machine that mounts shares: this host's own kernel where it speaks NFS, otherwise a guest; both are used alike.

Mount below `/mnt`: it is the client's own, empty at the start and gone at the end.
"""

from __future__ import annotations

import contextlib
import pathlib
import shlex
import subprocess
import time
from collections.abc import Sequence
from typing import Protocol, Self

from lab import fabric, guest, processes


class Client(Protocol):
    """What guests and host clients have in common. `ipv4` and `ipv6` are what a server sees as the source."""

    network: fabric.Fabric
    name: str
    ipv4: str
    ipv6: str
    started_in_s: float

    def start(self, timeout_s: float = 60.0) -> Self:
        """Return when commands are taken."""

    def run(self, command: Sequence[str], timeout_s: float = processes.PATIENCE_S) -> guest.Result:
        """Run a command as root; raises `TimedOut` after it was killed at `timeout_s`."""

    def script(self, text: str, timeout_s: float = processes.PATIENCE_S) -> guest.Result:
        """Run a shell script as root, with the time limit of `run`."""

    def check(self, command: Sequence[str], timeout_s: float = processes.PATIENCE_S) -> str:
        """Run a command that must succeed and return its output; raises `LabError` otherwise."""

    def lend(self, file: pathlib.Path) -> str:
        """Return the path under which it sees a file of this host."""

    def stop(self) -> None:
        """Unmount, end, and take the network port away."""

    def kill(self) -> None:
        """End at once, as in a power cut."""


def host_speaks_nfs() -> bool:
    """Say whether this machine's kernel can mount NFS 4, loading the module if there is one."""
    with contextlib.suppress(processes.LabError):
        processes.command(["modprobe", "nfsv4"])
    known = pathlib.Path("/proc/filesystems").read_text().split()
    return "nfs4" in known and processes.find("mount.nfs4") is not None


def need() -> None:
    """Return if `start` finds a kind of client that works on this machine; raises `processes.Missing` otherwise."""
    fabric.need()
    if not host_speaks_nfs():
        guest.need()


def start(network: fabric.Fabric, name: str = "client") -> Client:
    """Start the kind of client that works on this machine; raises `processes.Missing` if none does."""
    client: Client = HostClient(network, name) if host_speaks_nfs() else guest.Guest(network, name)
    return client.start()


class HostClient:
    """This host's kernel, in network, mount and process namespaces of its own, attached to `network`."""

    def __init__(self, network: fabric.Fabric, name: str = "client") -> None:
        processes.need("unshare", "nsenter", "timeout", package="util-linux coreutils")
        self.network = network
        self.name = name
        self._port = network.port("veth")
        self.ipv4, self.ipv6 = self._port.ipv4, self._port.ipv6
        self._process: processes.Process | None = None
        self._inside = 0
        self._was_killed = False
        self.started_in_s = 0.0

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def start(self, timeout_s: float = 60.0) -> Self:
        """Return when commands are taken."""
        begun = time.monotonic()
        spaces = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]
        log = f"{self.network.bridge}-{self.name}.log"
        self._process = self.network.run.spawn(["unshare", *spaces, "--", "sh", "-c", self.first_process()], log=log)
        holder = self._process
        self._inside = processes.wait_until(
            lambda: processes.children(holder.pid), timeout_s, f"client {self.name}", holder
        )[0]
        processes.wait_until(lambda: _has_own_mnt(self._inside), timeout_s, f"client {self.name}", holder)
        if self._was_killed:
            self.network.lay_cable(self._port.device)
        self.network.move_port(self._port, self._inside)
        prefix_v4, prefix_v6 = self.network.network_v4.prefixlen, self.network.network_v6.prefixlen
        for words in (
            ["link", "set", "lo", "up"],
            ["link", "set", self._port.device, "up"],
            ["address", "add", f"{self.ipv4}/{prefix_v4}", "dev", self._port.device],
            ["address", "add", f"{self.ipv6}/{prefix_v6}", "dev", self._port.device, "nodad"],
            ["route", "add", "default", "via", self.network.host_ipv4],
            ["-6", "route", "add", "default", "via", self.network.host_ipv6],
        ):
            self.check(["ip", *words])
        self.started_in_s = time.monotonic() - begun
        return self

    @property
    def is_up(self) -> bool:
        return self._process is not None and self._process.alive()

    @property
    def root(self) -> pathlib.Path:
        """Its files, as this host sees them."""
        return pathlib.Path(f"/proc/{self._inside}/root")

    def first_process(self) -> str:
        """Return the script that holds the namespaces; mounting `/mnt` says that it is ready."""
        return "mount -t tmpfs tmpfs /mnt && exec sleep infinity"

    def run(self, command: Sequence[str], timeout_s: float = processes.PATIENCE_S) -> guest.Result:
        """Run a command as root; raises `TimedOut` after it was killed at `timeout_s`."""
        if self._process is None or not self._process.alive():
            raise processes.LabError(f"client {self.name} is not running")
        enter = ["nsenter", f"--target={self._inside}", "--mount", "--net", "--pid", "--"]
        limited = ["timeout", "-s", "KILL", f"{timeout_s:g}", *command]
        try:
            done = subprocess.run(
                [*enter, *limited],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s + guest.GRACE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise processes.TimedOut(f"client {self.name}, no answer: {shlex.join(command)}") from None
        if done.returncode in (-9, guest.KILLED):
            raise processes.TimedOut(f"client {self.name}, killed after {timeout_s:g} s: {shlex.join(command)}")
        return guest.Result(done.returncode, done.stdout, done.stderr)

    def script(self, text: str, timeout_s: float = processes.PATIENCE_S) -> guest.Result:
        """Run a shell script as root, with the time limit of `run`."""
        return self.run(["sh", "-c", text], timeout_s)

    def check(self, command: Sequence[str], timeout_s: float = processes.PATIENCE_S) -> str:
        """Run a command that must succeed and return its output; raises `LabError` otherwise."""
        result = self.run(command, timeout_s)
        if result.code:
            what = f"client {self.name}: {shlex.join(command)}"
            raise processes.LabError(f"{what}: exit {result.code}: {result.stderr.strip()}")
        return result.stdout

    def lend(self, file: pathlib.Path) -> str:
        """Return the path under which it sees a file of this host: the same."""
        return str(file)

    def stop(self) -> None:
        """Unmount, end, and take the network port away."""
        if self._process is not None and self._process.alive():
            with contextlib.suppress(processes.LabError):
                self.run(["umount", "-a", "-t", "nfs,nfs4", "-f", "-l"], timeout_s=3.0)
        self.kill()
        self.network.remove_port(self._port)

    def kill(self) -> None:
        """End at once; the kernel then unmounts what nobody holds any more."""
        if self._process is not None:
            self._process.kill()
            processes.wait_until(lambda: not processes.alive(self._inside), 30.0, f"the end of client {self.name}")
            self._process = None
            self._was_killed = True


def _has_own_mnt(pid: int) -> bool:
    return any(line.split()[1] == "/mnt" for line in pathlib.Path(f"/proc/{pid}/mounts").read_text().splitlines())
