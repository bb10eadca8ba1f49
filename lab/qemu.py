# SPDX-License-Identifier: Apache-2.0
"""Guests of QEMU without KVM, into which devices can be plugged while they run, on a machine of the lab.

The kernel is Debian's for clouds, which knows virtiofs; the root is a few files in memory. Commands travel over a
serial line that ends in a port of the hypervisor, so a guest needs no network.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools
import pathlib
import socket
import threading
from typing import Self

from lab import client, fabric, guest, initramfs, processes

KERNEL = pathlib.Path("/var/cache/abaca-lab/cloud-kernel")
"""Where packages.sh unpacks the kernel's package."""
_MODULES = ("virtio_pci", "virtiofs")
_PORT = "pcie-root-port,id=rp{0},chassis={0}"
_LINES = itertools.count(7001)
_VIRTIOFSD = ("/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd")
_FIRMWARE = ("/usr/share/seabios/bios-256k.bin", "/usr/share/qemu/kvmvapic.bin", "/usr/share/qemu/linuxboot_dma.bin")
_INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
modprobe -a virtio_pci virtiofs
stty raw -echo < /dev/ttyS1
exec 3< /dev/ttyS1 4> /dev/ttyS1
echo ready >&4
while read -r sum seconds script <&3; do
    if [ "$(echo "$seconds $script" | md5sum)" != "$sum  -" ]; then
        echo "garbled ." >&4
        continue
    fi
    echo "$script" | base64 -d > /run/script
    timeout -s KILL "$seconds" sh /run/script > /run/out 2> /run/err < /dev/null
    echo "$? $(base64 < /run/out | tr -d '\\n').$(base64 < /run/err | tr -d '\\n')." >&4
done
"""


def need() -> None:
    """Return if such guests can run here; raises `processes.Missing` otherwise."""
    processes.need("qemu-system-x86_64", package="qemu-system-x86")
    processes.need("busybox", package="busybox-static")
    if not list(KERNEL.glob("boot/vmlinuz-*")):
        raise processes.Missing(f"{KERNEL} holds no kernel: `make packages` fetches it")
    if not any(pathlib.Path(one).exists() for one in _VIRTIOFSD):
        raise processes.Missing("virtiofsd is missing: `make packages` installs qemu-system-common or virtiofsd")


def build(target: pathlib.Path) -> pathlib.Path:
    """Write the guests' root file system to `target`."""
    archive = initramfs.Archive(target)
    for directory in ("/dev", "/proc", "/sys", "/run", "/tmp", "/mnt", "/etc"):
        archive.directory(directory)
    archive.console()
    archive.file("/init", _INIT.encode(), 0o755)
    archive.file("/bin/busybox", pathlib.Path(str(processes.find("busybox"))).read_bytes(), 0o755)
    initramfs.add_modules(archive, next(KERNEL.glob("lib/modules/*")), _MODULES)
    archive.close()
    return target


def hypervisor(network: fabric.Fabric, name: str = "hypervisor", memory_mib: int = 768) -> guest.Guest:
    """A machine with a kernel of its own that has QEMU, virtiofsd and OpenSSH, and can mount by NFS."""
    need()
    processes.need("sshd", package="openssh-server")
    program = str(processes.find("qemu-system-x86_64"))
    modules = pathlib.Path("/usr/lib").glob("*/qemu/accel-tcg-x86_64.so")
    daemons = (*_VIRTIOFSD, "/usr/sbin/sshd")
    carries = [program, *map(str, modules), *(one for one in (*daemons, *_FIRMWARE) if pathlib.Path(one).exists())]
    return guest.Guest(network, name, memory_mib, carries)


class QemuGuest:
    """A guest on `host` with `ports` root ports; `has_shared_memory` is what virtiofs needs."""

    def __init__(
        self,
        host: client.Client,
        name: str,
        *,
        ports: int = 2,
        has_shared_memory: bool = True,
        memory_mib: int = 192,
    ) -> None:
        need()
        self.host = host
        self.name = name
        self.qmp_socket = f"/run/{name}.qmp"
        self._ports = ports
        self._has_shared_memory = has_shared_memory
        self._memory_mib = memory_mib
        self._port = next(_LINES)
        self._turn = threading.Lock()
        self._line: socket.socket | None = None

    def start(self, timeout_s: float = processes.PATIENCE_S) -> Self:
        """Return when it takes commands, after some seconds."""
        run = self.host.network.run
        image = run.directory / "qemu-guest.cpio"
        if not image.exists():
            build(image)
        kernel, root = self.host.lend(next(KERNEL.glob("boot/vmlinuz-*"))), self.host.lend(image)
        size = f"{self._memory_mib}M"
        memory = ["-object", f"memory-backend-memfd,id=mem,size={size},share=on", "-numa", "node,memdev=mem"]
        self.host.check(
            [
                *("qemu-system-x86_64", "-M", "q35", "-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", size),
                *(memory if self._has_shared_memory else []),
                *("-display", "none", "-vga", "none", "-nic", "none", "-no-reboot"),
                *("-kernel", kernel, "-initrd", root),
                *("-append", "console=ttyS0 quiet panic=-1 nokaslr"),
                *("-serial", f"file:/run/{self.name}.console"),
                *("-serial", f"tcp:{self.host.ipv4}:{self._port},server=on,wait=off"),
                *(word for number in range(self._ports) for word in ("-device", _PORT.format(number + 1))),
                *("-qmp", f"unix:{self.qmp_socket},server=on,wait=off"),
                *("-pidfile", f"/run/{self.name}.pid", "-daemonize"),
            ]
        )
        self._hang_up()
        self._line = socket.create_connection((self.host.ipv4, self._port), timeout_s)
        self._read_until(b"ready")
        return self

    def script(self, text: str, timeout_s: float = processes.PATIENCE_S) -> guest.Result:
        """Run a shell script as root in the guest; it is killed there after `timeout_s`."""
        if self._line is None:
            raise processes.LabError(f"guest {self.name} is not running")
        said = f"{timeout_s:g} {base64.b64encode(text.encode()).decode()}\n".encode()
        line = hashlib.md5(said, usedforsecurity=False).hexdigest().encode() + b" " + said
        with self._turn:
            self._line.settimeout(timeout_s + guest.GRACE_S)
            code, rest = self._exchange(line)
            # a serial line on a loaded machine loses bytes now and then; what came so was not run
            while code == "garbled":
                code, rest = self._exchange(line)
        out, err = (base64.b64decode(part).decode(errors="replace") for part in rest.split(".")[:2])
        return guest.Result(int(code), out, err)

    def _exchange(self, line: bytes) -> tuple[str, str]:
        if self._line is None:
            raise processes.LabError(f"guest {self.name} is not running")
        self._line.sendall(line)
        code, _, rest = self._read_until(b".\r\n", b".\n").partition(" ")
        return code, rest

    def kill(self) -> None:
        """Cut its power; `start` boots it again."""
        if self._hang_up():
            with contextlib.suppress(processes.LabError):
                self.host.script(
                    f"kill -9 $(cat /run/{self.name}.pid); while [ -s /proc/$(cat /run/{self.name}.pid)/cmdline ]; "
                    "do sleep 0.1; done"
                )

    def _hang_up(self) -> bool:
        """Whether there was a line; the guest at its other end may be gone with its hypervisor."""
        line, self._line = self._line, None
        if line is not None:
            line.close()
        return line is not None

    def _read_until(self, *ends: bytes) -> str:
        line, said = self._line, b""
        while line is not None and not any(end in said for end in ends):
            try:
                part = line.recv(65536)
            except TimeoutError:
                log = self.host.script(f"tail -n 20 /run/{self.name}.console").stdout
                raise processes.TimedOut(f"guest {self.name} says nothing\n{log}") from None
            if not part:
                raise processes.LabError(f"guest {self.name} has ended")
            said += part
        return said.decode(errors="replace").strip()
