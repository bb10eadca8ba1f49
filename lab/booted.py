# SPDX-License-Identifier: Apache-2.0
"""Guests whose first process is systemd, with a disk of their own: this host's package of it, and little else."""

from __future__ import annotations

import pathlib
import shutil
import stat
from collections.abc import Sequence

from lab import guest, initramfs, processes

_PACKAGES = ("systemd", "libsystemd-shared")
# Of a package what a small machine runs; log-ins at a terminal and what needs a system bus are left out.
_TAKEN = ("/bin/", "/usr/bin/", "/lib/systemd/", "/usr/lib/x86_64-linux-gnu/systemd/", "/usr/lib/tmpfiles.d/")
_LEFT = ("getty", "logind", "user@", "user-runtime-dir", "/lib/systemd/catalog/", "hostnamed", "localed", "timedated")
_READ_BY_PEOPLE = ("/usr/share/doc", "/usr/share/man", "/usr/share/lintian", "/usr/share/locale")
_GENERATORS = pathlib.Path("/lib/systemd/system-generators")
_LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
_DIRECTORIES = ("dev", "proc", "sys", "run", "tmp", "root/.ssh", "mnt", "var/log", "var/tmp", "var/lib", "etc/dropbear")
_UNITS = {
    "lab.service": """[Unit]
Description=Commands of the lab
After=lab-ssh.service
[Service]
ExecStart=/init
[Install]
WantedBy=multi-user.target
""",
    "lab-ssh.service": """[Unit]
Description=SSH
[Service]
ExecStart=/sbin/dropbear -F -E -r /etc/dropbear/host_key -s -p 22
[Install]
WantedBy=multi-user.target
""",
}


class BootedGuest(guest.Guest):
    """A guest as `guest.Guest`, booted by systemd from a disk that keeps what is written to it."""

    @property
    def disk(self) -> pathlib.Path:
        """Its files, as this host sees them."""
        return self.shared / "disk"

    def root_words(self) -> list[str]:
        """Make the disk before the first boot, and return what tells the kernel where it is."""
        if not self.disk.exists():
            build(self.disk)
            for name, place in (("host_key", "etc/dropbear"), ("authorized_keys", "root/.ssh")):
                shutil.copy(self.shared / name, self.disk / place)
                (self.disk / place / name).chmod(0o600)
        return ["root=/dev/root", "rootfstype=hostfs", "rootflags=/disk", "rw", "init=/init"]

    def switch_off(self, timeout_s: float = 60.0) -> None:
        """Have systemd end everything in its order; `start()` boots again."""
        process = self._process
        if process is not None:
            # A moment later, since the answer would not come any more.
            self.script("(sleep 0.2; systemctl poweroff) > /dev/null 2>&1 &")
            processes.wait_until(lambda: not process.alive(), timeout_s, f"the end of guest {self.name}")
            self.kill()


def build(disk: pathlib.Path) -> None:
    """Write a root file system with systemd to `disk`, which is not there yet."""
    for name in (*_DIRECTORIES, *_LINKS.values(), "etc/systemd/system"):
        (disk / name).mkdir(parents=True, exist_ok=True)
    for name, target in _LINKS.items():
        (disk / name).symlink_to(target)
    initramfs.fill(_Disk(disk))
    # Each that runs makes every reload longer; the others have nothing to find here.
    others = {str(one) for one in _GENERATORS.iterdir()} - {str(_GENERATORS / "systemd-fstab-generator")}
    for package in _PACKAGES:
        for path in processes.command(["dpkg", "-L", package]).splitlines():
            if path.startswith(_TAKEN) and not any(word in path for word in _LEFT) and path not in others:
                _copy(pathlib.Path(path), disk)
    programs = [str(one) for one in disk.glob("usr/**/*") if _is_linked(one)]
    for library in initramfs.libraries(programs):
        _copy(pathlib.Path(library), disk)
    (disk / "etc/machine-id").write_text("0" * 31 + "1\n")
    (disk / "etc/os-release").write_text("ID=debian\nPRETTY_NAME='Debian of the lab'\n")
    for name, text in _UNITS.items():
        (disk / "etc/systemd/system" / name).write_text(text)
    # What Debian's package does when it is installed.
    processes.command(["systemctl", f"--root={disk}", "enable", "remote-fs.target", *_UNITS])
    processes.command(["systemctl", f"--root={disk}", "set-default", "multi-user.target"])


def install(disk: pathlib.Path, packages: Sequence[str], programs: Sequence[str] = ()) -> None:
    """Copy Debian packages of this host to a disk, without what people read, and single programs; with their libraries.

    Raises `processes.Missing` for a package that this host does not have.
    """
    paths = [str(processes.find(name)) for name in programs]
    for package in packages:
        try:
            paths += processes.command(["dpkg", "-L", package]).splitlines()
        except processes.LabError:
            raise processes.Missing(f"the package {package} is missing: apt-get install {package}") from None
    files = [pathlib.Path(path) for path in paths if not path.startswith(_READ_BY_PEOPLE)]
    for file in files:
        if file.is_symlink() or file.is_file():
            _copy(file, disk)
    linked = [str(file) for file in files if _is_linked(file)]
    for library in initramfs.libraries(linked):
        _copy(pathlib.Path(library), disk)


class _Disk(initramfs.Archive):
    """An archive's entries as files of a directory."""

    def __init__(self, disk: pathlib.Path) -> None:
        self._disk = disk
        self._known: set[str] = set()

    def close(self) -> None:
        """Nothing is left to be written."""

    def _entry(self, path: str, mode: int, content: bytes, device: tuple[int, int] = (0, 0)) -> None:
        place = self._disk / path.lstrip("/")
        if stat.S_ISDIR(mode):
            place.mkdir(exist_ok=True)
        elif stat.S_ISLNK(mode):
            place.symlink_to(content.decode())
        elif stat.S_ISREG(mode):
            place.write_bytes(content)
            place.chmod(stat.S_IMODE(mode))


def _copy(source: pathlib.Path, disk: pathlib.Path) -> None:
    place = disk / str(source).lstrip("/")
    if source.is_dir() and not source.is_symlink():
        place.mkdir(parents=True, exist_ok=True)
    elif not (place.exists() or place.is_symlink()):
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, place, follow_symlinks=False)
        if source.is_symlink() and source.exists() and not source.readlink().is_absolute():
            _copy(source.parent / source.readlink(), disk)


def _is_linked(file: pathlib.Path) -> bool:
    is_other = file.is_symlink() or not file.is_file() or file.suffix == ".ko" or file.name == "busybox"
    return not is_other and initramfs.is_program(str(file))
