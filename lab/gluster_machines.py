# SPDX-License-Identifier: Apache-2.0
"""Machines with a real GlusterFS: nodes with glusterd, XFS and a disk of their own, and clients that mount by FUSE.

Both are namespaces of this host, whose kernel has no device-mapper: for LVM there is a stand-in (lvm.sh). What a node
has written is there again when it is started after a power cut.
"""

from __future__ import annotations

import os
import pathlib
import shlex
import stat
from typing import Self

from lab import fabric, guest, processes, ssh_node

DISK = "/var/lib/heketi/disk"
"""What Heketi is told to be the node's disk."""
TLS = "/etc/ssl"
FSTAB = "/var/lib/heketi/fstab"
_STAND_IN = pathlib.Path(__file__).with_name("lvm.sh")
_LVM = (
    "wipefs",
    "pvcreate",
    "pvremove",
    "pvs",
    "vgcreate",
    "vgremove",
    "vgdisplay",
    "vgs",
    "lvcreate",
    "lvs",
    "lvremove",
)
SYSTEMCTL = """#!/bin/sh
# Heketi asks whether glusterd runs; administrators stop and start it.
pid=$(cat /run/glusterd.pid 2> /dev/null)
case "$*" in
    'status glusterd') kill -0 "$pid" ;;
    'stop glusterd') kill "$pid" && tail -f /dev/null --pid="$pid" ;;
    'start glusterd') glusterd -p /run/glusterd.pid < /dev/null > /dev/null 2>&1 ;;
    *) exit 1 ;;
esac
"""
# Of geo-replication, which glusterd starts some twenty times before it serves.
GSYNCD = "#!/bin/sh\necho 'gsyncd.py 10'\n"
_GSYNCD_PLACE = "/usr/lib/x86_64-linux-gnu/glusterfs/gsyncd"
_MOUNTED_S, _READ_S, _LONGEST_S = 120.0, 20.0, 600.0
_FUSE = "65735546"
"""What `stat` calls the file system; one that has just ended leaves an empty directory, which can be listed."""
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "fuse", "loop-control")
_LOOPS = 128
_KEPT = {
    "ssl": TLS,
    "openssl": "/usr/lib/ssl",
    "glusterd": "/var/lib/glusterd",
    "heketi": "/var/lib/heketi",
    "mapper": "/dev/mapper",
    "log": "/var/log/glusterfs",
}
"""What is a machine's own and kept, by the name of its directory here."""


def _within(longest_s: float, command: str, place: str) -> str:
    """The script by which a line of a shell is at its end after some seconds, and its exit code is $code.

    Nobody can be killed who waits for a client of GlusterFS that hangs; so that client is, whose words name the place.
    """
    return f"""sh -c {shlex.quote(command)} & trying=$!
timeout {longest_s:g} tail -s 0.1 -f /dev/null --pid=$trying || for client in $(pgrep -x glusterfs); do
    ! tr '\\0' '\\n' < /proc/$client/cmdline | grep -qxF {shlex.quote(place)} || kill -KILL $client
done
wait $trying
code=$?"""


def need() -> None:
    """Return if such machines can be made here; raises `processes.Missing` otherwise."""
    ssh_node.need()
    processes.need("glusterd", "gluster", package="glusterfs-server")
    processes.need("glusterfs", package="glusterfs-client")
    processes.need("mkfs.xfs", package="xfsprogs")
    known = pathlib.Path("/proc/filesystems").read_text().split()
    for kind in ("xfs", "fuse"):
        if kind not in known:
            raise processes.Missing(f"this kernel has no {kind}")
    for device in ("/dev/fuse", "/dev/loop-control"):
        if not pathlib.Path(device).exists():
            raise processes.Missing(f"{device} is missing")


class GlusterClient(ssh_node.SshNode):
    """A machine that mounts GlusterFS volumes by FUSE below /mnt; its certificates are in `ssl`, its /etc/ssl."""

    def __init__(self, network: fabric.Fabric, name: str) -> None:
        need()
        super().__init__(network, name, programs=self.own_programs())
        self._kept = network.run.path(f"{network.bridge}-{name}", "kept")
        for part, place in _KEPT.items():
            (self._kept / part).mkdir()
            if part in ("ssl", "openssl"):
                processes.command(["cp", "-a", f"{place}/.", str(self._kept / part)])
        (self._kept / "devices").mkdir()
        for number in range(_LOOPS):
            os.mknod(self._kept / "devices" / f"loop{number}", 0o600 | stat.S_IFBLK, os.makedev(7, number))

    @property
    def ssl(self) -> pathlib.Path:
        """Its certificates, as this host sees them."""
        return self._kept / "ssl"

    def own_programs(self) -> dict[str, str]:
        """Return the scripts that it finds before this host's programs, by name."""
        return {}

    def own_files(self, own: str) -> str:
        """Return what makes devices, state and certificates its own."""
        over, kept = f"{own}/over", shlex.quote(str(self._kept))
        devices = " ".join(f"/dev/{name}" for name in _DEVICES)
        binds = "\n".join(
            f"mount --bind {kept}/{part} {place}\nmount -o remount,bind,rw {place}" for part, place in _KEPT.items()
        )
        return f"""
mkdir {over}/dev {over}/lib {over}/libwork
cp -a {devices} {over}/dev/
cp -a {kept}/devices/. {over}/dev/
ln -s /proc/self/fd {over}/dev/fd
mkdir {over}/dev/pts {over}/dev/shm {over}/dev/mapper
mount --bind {over}/dev /dev
mount -t overlay overlay -o lowerdir=/var/lib,upperdir={over}/lib,workdir={over}/libwork /var/lib
mkdir -p /var/lib/heketi
{binds}
printf %s {shlex.quote(GSYNCD)} > {over}/gsyncd
chmod 755 {over}/gsyncd
[ ! -e {_GSYNCD_PLACE} ] || mount --bind {over}/gsyncd {_GSYNCD_PLACE}
mkdir -m 1777 {over}/tmp {over}/tmpwork
mount -t overlay overlay -o lowerdir=/tmp,upperdir={over}/tmp,workdir={over}/tmpwork /tmp"""

    def mount(self, source: str, place: str) -> guest.Result:
        """Mount `host:/volume` at a place below /mnt, which is there afterwards only if that succeeded."""
        return self.mount_by(f"mount -t glusterfs {shlex.quote(source)} {place}", place)

    def mount_by(self, command: str, place: str) -> guest.Result:
        """Mount it by such a line of a shell."""
        tried = f"mkdir -p {place}\n{_within(_MOUNTED_S, command, place)}"
        return self.script(f"{tried}\ngrep -q ' {place} fuse' /proc/mounts", _LONGEST_S)

    def reads(self, place: str, look: str = "ls .") -> bool:
        """Whether a line of a shell succeeds in the volume that is mounted there, and has done so soon."""
        inside = f'cd {place} && [ "$(stat -f -c %t .)" = {_FUSE} ] && {look}'
        return self.script(f"{_within(_READ_S, inside, place)}\nexit $code", _LONGEST_S).code == 0

    def unmount(self, place: str) -> None:
        """Take a mount away, one that is dead too."""
        self.script(f"umount -l {place} 2> /dev/null; rmdir {place}", _LONGEST_S)


class GlusterNode(GlusterClient):
    """A node: `start` returns when glusterd runs, also after `kill`, with what it had on its disk of `disk_gib`."""

    def __init__(self, network: fabric.Fabric, name: str, disk_gib: int = 200) -> None:
        super().__init__(network, name)
        with (self._kept / "heketi" / "disk").open("wb") as disk:
            disk.truncate(disk_gib << 30)
        (self._kept / "heketi" / "fstab").touch()

    def own_programs(self) -> dict[str, str]:
        return dict.fromkeys(_LVM, _STAND_IN.read_text()) | {"systemctl": SYSTEMCTL}

    def trust(self, public_key: str) -> None:
        """Let whoever has this key in as root, from the next start on."""
        with (self._own / "authorized_keys").open("a") as file:
            file.write(public_key)

    def start(self, timeout_s: float = 300.0) -> Self:
        """Return when glusterd runs, and its bricks are mounted."""
        super().start(timeout_s)
        self.script(f"mount -a -T {FSTAB}", timeout_s)
        self.check(["systemctl", "start", "glusterd"], timeout_s)
        return self

    def gluster(self, *words: str) -> str:
        """Return what its own `gluster` says."""
        return self.check(["gluster", "--mode=script", *words], 300.0)

    def kill(self) -> None:
        """Cut the power; returns when nobody holds what lies on its disk."""
        super().kill()
        processes.wait_until(lambda: not self._loops(), 30.0, f"the end of what {self.name} had mounted")

    def bricks(self) -> list[str]:
        """Return what there is of volumes, a line each: logical volumes, mounts, lines of the table of mounts."""
        volumes = [path.name for path in (self._kept / "mapper").iterdir()]
        groups = [str(path) for path in (self._kept / "heketi" / "lvm").glob("*/tp_*")]
        table = (self._kept / "heketi" / "fstab").read_text().splitlines()
        mounts = self.script("grep /var/lib/heketi/mounts /proc/mounts").stdout.splitlines()
        return [*volumes, *groups, *table, *mounts]

    def _loops(self) -> list[str]:
        images = [str(path) for path in (self._kept / "mapper").iterdir()]
        return [line for image in images for line in processes.command(["losetup", "--associated", image]).splitlines()]
