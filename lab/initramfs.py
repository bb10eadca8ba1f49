# SPDX-License-Identifier: Apache-2.0
"""The root file system of a guest, packed in a moment from what Debian packages installed on this machine."""

from __future__ import annotations

import functools
import pathlib
import re
import stat
from collections.abc import Iterable, Sequence

from lab import processes

_MODULES = pathlib.Path("/usr/lib/uml/modules")
_WANTED_MODULES = ("nfsv4", "ipv6", "fuse")
_PROGRAMS = {
    "mount": "mount",
    "umount": "mount",
    "findmnt": "util-linux",
    "flock": "util-linux",
    "mount.nfs": "nfs-common",
    "umount.nfs": "nfs-common",
    "dropbear": "dropbear-bin",
}
_LINKS = {"mount.nfs4": "mount.nfs", "umount.nfs4": "umount.nfs"}
_FILES = {
    "/etc/passwd": (
        "root:x:0:0:root:/root:/bin/sh\nsshd:x:101:65534::/run/sshd:/bin/false\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
    ),
    "/etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "/etc/shells": "/bin/sh\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "/etc/fstab": "",
    "/etc/netconfig": (
        "udp tpi_clts v inet udp - -\ntcp tpi_cots_ord v inet tcp - -\n"
        "udp6 tpi_clts v inet6 udp - -\ntcp6 tpi_cots_ord v inet6 tcp - -\n"
    ),
    "/etc/protocols": "tcp 6 TCP\nudp 17 UDP\n",
    "/etc/services": "sunrpc 111/tcp\nnfs 2049/tcp\n",
}
_EMPTY = (
    "/dev",
    "/dev/pts",
    "/proc",
    "/sys",
    "/run",
    "/tmp",
    "/root",
    "/mnt",
    "/var/log",
    "/var/lib/nfs",
    "/etc/dropbear",
)


class Archive:
    """A cpio archive in the kernel's own format (`newc`), written entry by entry."""

    def __init__(self, file: pathlib.Path) -> None:
        self._file = file.open("wb")
        self._number = 0
        self._known: set[str] = set()

    def directory(self, path: str) -> None:
        """Add a directory and those above it, once each."""
        path = path.rstrip("/")
        if path and path not in self._known:
            self.directory(path.rpartition("/")[0])
            self._known.add(path)
            self._entry(path, stat.S_IFDIR | 0o755, b"")

    def file(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Add a file; one that is there already is left alone."""
        if path not in self._known:
            self.directory(path.rpartition("/")[0])
            self._known.add(path)
            self._entry(path, stat.S_IFREG | mode, content)

    def link(self, path: str, target: str) -> None:
        """Add a symbolic link; a path that is there already is left alone."""
        if path not in self._known:
            self.directory(path.rpartition("/")[0])
            self._known.add(path)
            self._entry(path, stat.S_IFLNK | 0o777, target.encode())

    def console(self) -> None:
        """Add /dev/console, which the kernel opens before the first process can make devices."""
        self._known.add("/dev/console")
        self._entry("/dev/console", stat.S_IFCHR | 0o600, b"", device=(5, 1))

    def close(self) -> None:
        """Write the end mark."""
        self._entry("/TRAILER!!!", 0, b"")
        self._file.close()

    def _entry(self, path: str, mode: int, content: bytes, device: tuple[int, int] = (0, 0)) -> None:
        self._number += 1
        name = path.lstrip("/").encode() + b"\0"
        fields = (self._number, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name), 0)
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + name
        self._file.write(head + b"\0" * (-len(head) % 4) + content + b"\0" * (-len(content) % 4))


def need() -> None:
    """Return if everything that goes into the image is installed; raises `processes.Missing` otherwise."""
    for name, package in {**_PROGRAMS, "busybox": "busybox-static"}.items():
        processes.need(name, package=package)


def build(target: pathlib.Path, carries: Sequence[str] = ()) -> pathlib.Path:
    """Write the guests' root file system to `target`; raises `processes.Missing` naming the package that is missing.

    `carries` are files of this host that it has too, in the same places; programs and modules with their libraries.
    """
    archive = Archive(target)
    fill(archive, carries)
    archive.close()
    return target


def fill(archive: Archive, carries: Sequence[str] = ()) -> None:
    """Add what `build` writes; raises as it does."""
    need()
    for directory in _EMPTY:
        archive.directory(directory)
    archive.console()
    for path, text in _FILES.items():
        archive.file(path, text.encode())
    archive.link("/etc/mtab", "/proc/self/mounts")
    archive.file("/init", (pathlib.Path(__file__).parent / "guest.init.sh").read_bytes(), 0o755)
    _add_programs(archive)
    _add_modules(archive)
    for path in (*carries, *libraries(path for path in carries if is_program(path))):
        archive.file(path, pathlib.Path(path).read_bytes(), 0o755)


def _add_programs(archive: Archive) -> None:
    programs = []
    for name in _PROGRAMS:
        programs.append(str(processes.find(name)))
        archive.file(f"/sbin/{name}", pathlib.Path(programs[-1]).read_bytes(), 0o755)
    for name, other in _LINKS.items():
        archive.link(f"/sbin/{name}", other)
    for library in libraries(programs):
        archive.file(library, pathlib.Path(library).read_bytes(), 0o755)
    busybox = str(processes.find("busybox"))
    archive.file("/bin/busybox", pathlib.Path(busybox).read_bytes(), 0o755)
    for applet in processes.command([busybox, "--list"]).split():
        if applet not in ("busybox", *_PROGRAMS, *_LINKS):
            archive.link(f"/bin/{applet}", "busybox")
    for name in ("mount", "umount"):
        archive.link(f"/bin/{name}", f"/sbin/{name}")


def libraries(programs: Iterable[str]) -> list[str]:
    """Return the shared libraries that programs of this host need."""
    names = list(programs)
    listing = processes.command(["ldd", *names]) if names else ""
    return sorted(set(re.findall(r"(?:=> )?(/\S+) \(0x", listing)))


def is_program(path: str) -> bool:
    """Say whether a file is a program or a library, and no script."""
    with pathlib.Path(path).open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _add_modules(archive: Archive) -> None:
    add_modules(archive, _MODULES / kernel_version(), _WANTED_MODULES)


def add_modules(archive: Archive, source: pathlib.Path, names: Iterable[str]) -> None:
    """Add those modules of a kernel, found at `source` with its `modules.dep`, and all that they need."""
    place = f"/lib/modules/{source.name}"
    needs = {}
    for line in (source / "modules.dep").read_text().splitlines():
        module, _, others = line.partition(":")
        needs[module] = others.split()
    wanted = {module for module in needs if pathlib.Path(module).stem in names}
    wanted |= {other for module in wanted for other in needs[module]}
    for module in sorted(wanted):
        archive.file(f"{place}/{module}", (source / module).read_bytes())
    archive.file(f"{place}/modules.dep", "".join(f"{m}: {' '.join(needs[m])}\n" for m in sorted(wanted)).encode())


@functools.cache
def kernel_version() -> str:
    """Return the version of the installed user-mode kernel; raises `processes.Missing` without it."""
    processes.need("linux.uml", package="user-mode-linux")
    version = processes.command(["linux.uml", "--version"]).strip()
    if not (_MODULES / version / "modules.dep").exists():
        raise processes.Missing(
            f"modules of the user-mode kernel {version} are missing: apt-get install user-mode-linux"
        )
    return version
