# SPDX-License-Identifier: Apache-2.0
"""Small machines with a real Linux NFS 4.2 client: user-mode-linux processes on a private network of this host.

Commands do not travel over that network, so a test may break it: they are files in a directory that the guest sees,
and a line each on a serial port. SSH is there beside it, for the code whose job is to use it.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import itertools
import os
import pathlib
import re
import shlex
import shutil
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple, Self

from lab import fabric, initramfs, processes, registers

_BUILDING = threading.Lock()
GRACE_S = 5.0
"""How much longer than the client the host waits for the end of a command."""
KILLED = 128 + 9


class Result(NamedTuple):
    """What a command left: exit code, standard output, standard error."""

    code: int
    stdout: str
    stderr: str


@dataclasses.dataclass(frozen=True)
class Ssh:
    """How to log in to a guest by SSH."""

    host: str
    port: int
    user: str
    private_key: pathlib.Path
    """In OpenSSH's format."""
    host_key: str
    """The public key of the guest, as it stands in a known_hosts file after the name."""


def need() -> None:
    """Return if guests can be built and booted on this machine; raises `processes.Missing` otherwise."""
    initramfs.kernel_version()
    initramfs.need()
    processes.need("dropbearkey", "dropbearconvert", package="dropbear-bin")
    processes.need("unshare", package="util-linux")


class Guest:
    """A machine on `network`, with a name that is unique there and `memory_mib` of memory.

    Its addresses are `ipv4` and `ipv6`, known before it starts. `start()` returns when it takes commands, after about a
    second; several guests may be started from several threads. `carries` are files of this host that it has too; with
    sshd among them one logs in to that, and otherwise to dropbear.
    """

    def __init__(
        self, network: fabric.Fabric, name: str = "guest", memory_mib: int = 192, carries: Sequence[str] = ()
    ) -> None:
        need()
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", name):
            raise processes.LabError(f"{name!r} is no name for a guest: letters, digits and dashes, please")
        self.network = network
        self.name = name
        self.memory_mib = memory_mib
        self.carries = tuple(carries)
        self.run_directory = network.run.path(f"{network.bridge}-{name}")
        self.shared = network.run.path(f"{network.bridge}-{name}", "host")
        self._port = network.port()
        self.ipv4, self.ipv6 = self._port.ipv4, self._port.ipv6
        self.ssh = self._make_keys()
        self._process: processes.Process | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[str, concurrent.futures.Future[int]] = {}
        self._descriptors: tuple[int, int] = (-1, -1)
        self.started_in_s = 0.0
        network.run.at_end(self.kill)

    @property
    def pid(self) -> int:
        """The process at the root of its tree; a LabError while it does not run."""
        if self._process is None:
            raise processes.LabError(f"guest {self.name} does not run")
        return self._process.pid

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def start(self, timeout_s: float = processes.PATIENCE_S) -> Self:
        """Boot; raises `LabError` with the end of the console's log if the guest does not come up."""
        begun = time.monotonic()
        root = self.root_words()
        from_host, to_guest = os.pipe()
        from_guest, to_host = os.pipe()
        ready = self._waiting["ready"] = concurrent.futures.Future()
        launch = processes.Launch(netns=self.network.netns, cwd=self.run_directory, pass_fds=(from_host, to_host))
        argv = [
            "unshare",
            "--pid",
            "--fork",
            "--kill-child",
            "--",
            self._kernel(),
            *self._boot_words(root, from_host, to_host),
        ]
        try:
            self._process = self.network.run.spawn(argv, log=f"{self.run_directory.name}/console.log", launch=launch)
        finally:
            os.close(from_host)
            os.close(to_host)
        self._descriptors = (to_guest, from_guest)
        threading.Thread(target=self._listen, args=(from_guest,), daemon=True, name=f"{self.name}-answers").start()
        try:
            processes.wait_until(ready.done, timeout_s, f"guest {self.name}", self._process)
        except processes.LabError:
            self.kill()
            raise
        self.started_in_s = time.monotonic() - begun
        return self

    def run(self, command: Sequence[str], timeout_s: float = processes.PATIENCE_S) -> Result:
        """Run a command as root; it is killed in the guest after `timeout_s`, and then `TimedOut` is raised here."""
        return self.script(shlex.join(command), timeout_s)

    def script(self, text: str, timeout_s: float = processes.PATIENCE_S) -> Result:
        """Run a shell script as root, with the time limit of `run`."""
        if self._process is None or not self._process.alive():
            raise processes.LabError(f"guest {self.name} is not running")
        number = str(next(self._numbers))
        source, out, err = (self.shared / f"{number}.{kind}" for kind in ("sh", "out", "err"))
        source.write_text(text + "\n")
        answer = self._waiting[number] = concurrent.futures.Future()
        begun = time.monotonic()
        os.write(self._descriptors[0], f"{number} {max(1, round(timeout_s))}\n".encode())
        try:
            code = answer.result(timeout_s + GRACE_S)
        except concurrent.futures.TimeoutError:
            raise processes.TimedOut(f"guest {self.name}, no answer in {timeout_s + GRACE_S:g} s: {text}") from None
        except concurrent.futures.CancelledError:
            raise processes.LabError(f"guest {self.name} lost its power meanwhile: {text}") from None
        finally:
            self._waiting.pop(number, None)
        if code == KILLED and time.monotonic() - begun >= timeout_s - 0.5:
            raise processes.TimedOut(f"guest {self.name}, killed after {timeout_s:g} s: {text}")
        result = Result(code, out.read_text(errors="replace"), err.read_text(errors="replace"))
        for file in (source, out, err):
            file.unlink(missing_ok=True)
        return result

    def check(self, command: Sequence[str], timeout_s: float = processes.PATIENCE_S) -> str:
        """Run a command that must succeed and return its output; raises `LabError` with its errors otherwise."""
        result = self.run(command, timeout_s)
        if result.code:
            what = f"guest {self.name}: {shlex.join(command)}"
            raise processes.LabError(f"{what}: exit {result.code}: {result.stderr.strip()}")
        return result.stdout

    def lend(self, file: pathlib.Path) -> str:
        """Return the path under which it sees a copy of this host's file."""
        shutil.copyfile(file, self.shared / file.name)
        return f"/run/host/{file.name}"

    def stop(self) -> None:
        """Unmount what can be unmounted, switch off, and take the network port away."""
        if self._process is not None and self._process.alive():
            with contextlib.suppress(processes.LabError):
                self.run(["umount", "-a", "-t", "nfs,nfs4", "-f", "-l"], timeout_s=3.0)
        self.kill()
        self.network.remove_port(self._port)

    def unplug(self) -> None:
        """Pull its network cable; it runs on, and takes commands."""
        self.network.unplug(self._port)

    def plug_in(self) -> None:
        """Put the cable back."""
        self.network.plug_in(self._port)

    def kill(self) -> None:
        """Cut the power: nothing is unmounted or flushed. `start()` boots it again under the same addresses."""
        if self._process is not None:
            inside = processes.children(self._process.pid)
            self._process.kill()
            processes.wait_until(lambda: not any(map(processes.alive, inside)), 30.0, f"the end of guest {self.name}")
            with contextlib.suppress(OSError):
                os.close(self._descriptors[0])  # the other end is closed by its reader
            self._process, self._descriptors = None, (-1, -1)
        for answer in list(self._waiting.values()):
            answer.cancel()

    def root_words(self) -> list[str]:
        """Make the root file system if it is not there yet, and return what tells the kernel where it is."""
        name = f"{self.run_directory.name}.cpio" if self.carries else "guest.cpio"
        image = self.network.run.directory / name
        with _BUILDING:
            if not image.exists():
                initramfs.build(image, self.carries)
        return [f"initrd={image}"]

    def _kernel(self) -> str:
        with _BUILDING:
            return str(registers.fitting(pathlib.Path(str(processes.find("linux.uml"))), self.network.run.directory))

    def _boot_words(self, root: list[str], from_host: int, to_host: int) -> list[str]:
        port, host = self._port, self.network
        return [
            f"mem={self.memory_mib}M",
            *root,
            f"hostfs={self.shared}",
            f"uml_dir={self.network.run.path(self.run_directory.name, 'uml')}/",
            f"umid={self.name}",
            f"vec0:transport=tap,ifname={port.device},depth=64,gro=1",  # without gro large frames get lost
            f"ssl0=fd:{from_host},fd:{to_host}",
            "con=null",
            "con0=null,fd:1",
            "ssl=null",
            "quiet",
            "panic=-1",
            "noreboot",
            "initcall_blacklist=raid6_select_algo",  # a benchmark of 0.85 s whose result nobody needs here
            f"lab.name={self.name}",
            f"lab.mac={port.mac}",
            f"lab.ipv4={port.ipv4}/{host.network_v4.prefixlen}",
            f"lab.ipv6={port.ipv6}/{host.network_v6.prefixlen}",
            f"lab.gateway_v4={host.host_ipv4}",
            f"lab.gateway_v6={host.host_ipv6}",
        ]

    def _listen(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "r", errors="replace") as answers:
            for line in answers:
                number, _, code = line.strip().partition(" ")
                waiting = self._waiting.get(number)
                if waiting is not None and code.isdigit():
                    waiting.set_result(int(code))

    def _make_keys(self) -> Ssh:
        host_key, client_key = self.shared / "host_key", self.run_directory / "client_key"
        lines = []
        for key in (host_key, client_key):
            key.unlink(missing_ok=True)
            output = processes.command(["dropbearkey", "-t", "ed25519", "-f", str(key)])
            lines.append(next(line for line in output.splitlines() if line.startswith("ssh-")))
        (self.shared / "authorized_keys").write_text(lines[1] + "\n")
        processes.command(["dropbearconvert", "dropbear", "openssh", str(host_key), f"{host_key}.openssh"])
        private_key = self.run_directory / "id_ed25519"
        processes.command(["dropbearconvert", "dropbear", "openssh", str(client_key), str(private_key)])
        private_key.chmod(0o600)
        return Ssh(self.ipv4, 22, "root", private_key, " ".join(lines[0].split()[:2]))


def start_all(network: fabric.Fabric, names: Sequence[str], memory_mib: int = 192) -> list[Guest]:
    """Boot several guests side by side and return them in order; on a failure all are stopped."""
    guests = [Guest(network, name, memory_mib) for name in names]
    with concurrent.futures.ThreadPoolExecutor(len(guests) or 1) as pool:
        starts = [pool.submit(guest.start) for guest in guests]
    try:
        return [start.result() for start in starts]
    except BaseException:
        for guest in guests:
            guest.stop()
        raise
