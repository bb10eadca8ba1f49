# SPDX-License-Identifier: Apache-2.0
"""Machines with a kernel of their own and GlusterFS: user-mode-linux, which has this host's programs, read-only.

A client mounts volumes by the FUSE of its own kernel. Nodes have bricks on real thin LVM, which this host's kernel does
not have: a disk for Heketi and one for their own state each. Nothing of the storage is stood in for; what it costs is
processor time, ten to twenty times as much as on nodes that are namespaces (gluster_machines.py).
"""

from __future__ import annotations

import os
import pathlib
import shlex
import shutil
from typing import Self

from lab import fabric, gluster_machines, guest, processes

DISK = "/dev/ubda"
"""What Heketi is told to be the node's disk."""
_MEMORY_MIB = 512
_STATE_MIB = 1024
_BOOT_S = 600.0
# LVM does not know such disks, and there is no udev.
_LVM = """
devices { types = [ "ubd", 16 ] obtain_device_list_from_udev = 0 use_devicesfile = 0 scan = [ "/dev" ]
  filter = [ "a|^/dev/ubda$|", "r|.*|" ] }
activation { udev_sync = 0 udev_rules = 0 monitoring = 0 thin_pool_autoextend_threshold = 100 }
global { event_activation = 0 use_lvmpolld = 0 notify_dbus = 0 }
backup { backup = 0 archive = 0 }
"""
_PROGRAMS = """set -e
mkdir -p /usr /lib64 /var/lib /state
mount --bind /run/host/usr /usr
for place in lib lib64 sbin bin; do mount --bind /run/host/usr/$place /$place; done
cp -a /run/host/alternatives /etc/
"""
_CERTIFICATES = """set -e
mkdir -p /etc/ssl /var/log/glusterfs
cp /run/host/openssl.cnf /etc/ssl/
mount -t tmpfs tmpfs /usr/lib/ssl
ln -s /etc/ssl/openssl.cnf /usr/lib/ssl/
"""
# What was written a second ago is there after a power cut.
_SET_UP = """set -e
mkdir -p /run/modules/lib/modules /run/sshd /run/lock/lvm /run/lvm
ln -sfn "/usr/lib/uml/modules/$(uname -r)" "/run/modules/lib/modules/$(uname -r)"
modprobe -d /run/modules -a fuse dm_mod dm_thin_pool dm_snapshot dm_mirror
echo 100 > /proc/sys/vm/dirty_expire_centisecs
echo 50 > /proc/sys/vm/dirty_writeback_centisecs
mount -t ext4 -o commit=1 /dev/ubdb /state
for place in var/lib/glusterd var/lib/heketi var/log/glusterfs etc/ssl etc/glusterfs etc/lvm; do
    mkdir -p /$place
    mount --bind /state/$place /$place
done
mount --bind /etc/ssl /usr/lib/ssl
[ -e /var/run ] || ln -s /run /var/run
busybox killall dropbear
cp /run/host/host_key.openssh /run/sshd/host_key
cp /run/host/authorized_keys /root/.ssh/authorized_keys
chmod 600 /run/sshd/host_key /root/.ssh/authorized_keys
/usr/sbin/sshd -f /dev/null -h /run/sshd/host_key -o 'UsePAM no' -o 'StrictModes no' -o 'MaxStartups 200' \\
    -o 'MaxSessions 100' -o 'PermitRootLogin prohibit-password'
vgchange -q -q -a y > /dev/null 2>&1 || true
mount -a -T /var/lib/heketi/fstab || true
glusterd -p /run/glusterd.pid < /dev/null > /dev/null 2>&1
"""


def need() -> None:
    """Return if such machines can be made here; raises `processes.Missing` otherwise."""
    guest.need()
    gluster_machines.need()
    processes.need("lvm", package="lvm2")
    processes.need("thin_check", package="thin-provisioning-tools")
    processes.need("mke2fs", package="e2fsprogs")


class GlusterGuest(guest.Guest):
    """A machine that mounts GlusterFS volumes below /mnt; its certificates are in its own /etc/ssl."""

    def __init__(self, network: fabric.Fabric, name: str, memory_mib: int = _MEMORY_MIB) -> None:
        gluster_machines.need()
        super().__init__(network, name, memory_mib)
        self._programs = self._make_programs()
        shutil.copy("/etc/ssl/openssl.cnf", self.shared)

    def start(self, timeout_s: float = _BOOT_S) -> Self:
        """Return when it has its programs, and whatever else it needs."""
        self._show_programs()
        super().start(timeout_s)
        for done in (super().script(_PROGRAMS, timeout_s), self.script(self.set_up(), timeout_s)):
            if done.code:
                raise processes.LabError(f"{self.name} does not come up: {done.stderr[-2000:]}")
        return self

    def set_up(self) -> str:
        """Return the script that makes it what it is, once it has its programs."""
        return _CERTIFICATES

    def script(self, text: str, timeout_s: float = processes.PATIENCE_S) -> guest.Result:
        """Run a script as root: by bash, since the guest's own shell prefers the programs that it has inside."""
        return super().script(f"exec /bin/bash -c {shlex.quote(text)}", timeout_s)

    def mount(self, source: str, place: str, timeout_s: float = 600.0) -> guest.Result:
        """Mount `host:/volume` at a place below /mnt, which is there afterwards only if that succeeded."""
        mounted = f"mkdir -p {place} && mount -t glusterfs -o acl {shlex.quote(source)} {place}"
        return self.script(f"{mounted}; grep -q ' {place} fuse' /proc/mounts", timeout_s)

    def unmount(self, place: str) -> None:
        """Take a mount away."""
        self.script(f"umount {place} || umount -l {place}; rmdir {place}", 600.0)

    def _make_programs(self) -> pathlib.Path:
        """What it finds before this host's programs."""
        over = self.run_directory / "programs"
        scripts = {
            "bin/systemctl": gluster_machines.SYSTEMCTL,
            "lib/x86_64-linux-gnu/glusterfs/gsyncd": gluster_machines.GSYNCD,
        }
        for place, text in scripts.items():
            (over / place).parent.mkdir(parents=True)
            (over / place).write_text(text)
            (over / place).chmod(0o755)
        shutil.copytree("/etc/alternatives", self.shared / "alternatives", symlinks=True)
        return over

    def _show_programs(self) -> None:
        """This host's programs lie in the directory that it sees; nothing can be written, or deleted, through that."""
        place = self.shared / "usr"
        if not os.path.ismount(place):
            place.mkdir(exist_ok=True)
            words = ["-t", "overlay", "overlay", "-o", f"ro,lowerdir={self._programs}:/usr", str(place)]
            processes.command(["mount", *words])


class ThinNode(GlusterGuest):
    """A node: `start` returns when glusterd runs with its bricks, also after `kill`, with what it had on its disks."""

    def __init__(self, network: fabric.Fabric, name: str, disk_gib: int = 200) -> None:
        need()
        super().__init__(network, name)
        self._disks = {which: self.run_directory / f"{which}.img" for which in ("disk", "state")}
        with self._disks["disk"].open("wb") as disk:
            disk.truncate(disk_gib << 30)
        self._make_state()

    def set_up(self) -> str:
        return _SET_UP

    def trust(self, public_key: str) -> None:
        """Let whoever has this key in as root, from the next start on."""
        with (self.shared / "authorized_keys").open("a") as file:
            file.write(public_key)

    def root_words(self) -> list[str]:
        return [*super().root_words(), *(f"ubd{n}={self._disks[which]}" for n, which in enumerate(("disk", "state")))]

    def gluster(self, *words: str) -> str:
        """Return what its own `gluster` says."""
        return self.check(["gluster", "--mode=script", *words], 600.0)

    def bricks(self) -> list[str]:
        """Return what there is of volumes, a line each: logical volumes, mounts, lines of the table of mounts."""
        volumes = self.check(["lvs", "--noheadings", "-o", "lv_name"]).splitlines()
        table = self.check(["cat", gluster_machines.FSTAB]).splitlines()
        mounts = self.script("grep -E 'heketi/mounts|gluster/snaps|abaca' /proc/mounts").stdout.splitlines()
        return [line.strip() for line in (*volumes, *table, *mounts)]

    def _make_state(self) -> None:
        """Its disk for what is its own: made from what this host's packages have there."""
        tree = self.run_directory / "state"
        for place in ("var/lib/glusterd", "var/log/glusterfs", "var/lib/heketi", "etc/ssl", "etc/glusterfs", "etc/lvm"):
            (tree / place).mkdir(parents=True)
        for kept in ("groups", "hooks"):
            shutil.copytree(f"/var/lib/glusterd/{kept}", tree / "var/lib/glusterd" / kept, symlinks=True)
        shutil.copytree("/etc/glusterfs", tree / "etc/glusterfs", dirs_exist_ok=True)
        shutil.copy("/etc/ssl/openssl.cnf", tree / "etc/ssl")
        (tree / "etc/lvm/lvm.conf").write_text(_LVM)
        (tree / "var/lib/heketi/fstab").touch()
        image = str(self._disks["state"])
        processes.command(["mke2fs", "-q", "-t", "ext4", "-d", str(tree), image, f"{_STATE_MIB}M"])
        shutil.rmtree(tree)
