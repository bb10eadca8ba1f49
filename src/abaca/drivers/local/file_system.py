# SPDX-License-Identifier: Apache-2.0
"""The btrfs file system of one local back end: made, mounted, watched.

It bears the back end's label; a device that holds anything else is refused, never overwritten.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from pathlib import Path
from typing import IO

from abaca.drivers import contract
from abaca.drivers.clients import btrfs, devices, mounts
from abaca.drivers.clients.names import safe_path

log = logging.getLogger(__name__)

FLAGS = mounts.NOATIME | mounts.NODEV | mounts.NOSUID
_LEAST_DISK_BYTES = 1 << 26  # What a pool may need to write when it is mounted after a failed write.


class FileSystem:
    """A labelled btrfs on a device or in a file; `start` before anything else, one process at a time."""

    def __init__(self, name: str, directory: Path, device: str, image: str, size_gib: int) -> None:
        self.label = f"abaca-{name}"
        self.directory = directory
        self.root = directory / "pool"
        self._device_option = device
        self._image = Path(image) if image else directory / "pool.img"
        self._size_gib = size_gib
        self._device = ""
        # How long a change waits for a count.
        self.counting_s = 10.0
        self._lock: IO[str] | None = None

    def lock(self) -> None:
        """Be the only process that works on this pool. Raises `contract.Unreachable` while another one does."""
        if self._lock is not None:
            return
        safe_path(self.directory)
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = (self.directory / "pool.lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            holder = lock.read().strip()
            lock.close()
            raise contract.Unreachable(reason=f"process {holder} works with {self.directory}") from error
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock

    def check_locked(self) -> None:
        """Raises `contract.Unreachable` when this process has let go of the pool, or another one works on it by now."""
        try:
            is_ours = self._lock is not None and os.path.samestat(
                os.fstat(self._lock.fileno()), (self.directory / "pool.lock").stat()
            )
        except (OSError, ValueError):
            is_ours = False
        if not is_ours:
            raise contract.Unreachable(reason=f"this worker has no hold of {self.directory} any more: start it again")

    def unlock(self) -> None:
        """Let another process in."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def start(self) -> None:
        """Mount the pool, made now when there is none. Raises `contract.Refused` when what is there is not ours."""
        for private in (self.root, self.directory / "shares", self.directory / "snapshots"):
            _make_private(private)
        self._device = self._make_device()
        if not self.root.is_mount():
            mounts.mount(self._device, self.root, "btrfs", FLAGS, "subvolid=5,discard=async")
        btrfs.enable_quota(self.root)
        if not self._device_option:
            devices.grow_image(self._image, self._device, self._size_gib)
            btrfs.grow(self.root)
        for kind in ("shares", "snapshots", "unmanaged", "work"):
            _make_private(self.root / kind)
        for left in (self.root / "work").iterdir():
            if btrfs.is_subvolume(left):
                btrfs.delete(left)
        self._forget_gone()

    def _make_device(self) -> str:
        if self._device_option:
            device = safe_path(Path(self._device_option))
            if not devices.is_block_device(device):
                raise contract.Refused(reason=f"pool_device {device} is no block device")
            if not self._is_ours(device):
                devices.format_btrfs(device, self.label)
            return str(device)
        image = safe_path(self._image)
        if not image.exists():
            image.parent.mkdir(parents=True, exist_ok=True)
            devices.make_image(image, self._size_gib, self.label)
        elif not self._is_ours(image):
            raise contract.Refused(reason=f"{image} holds nothing: remove it, and it is made anew")
        return devices.attach_loop(image)

    def _is_ours(self, path: Path) -> bool:
        """Whether our file system is on it; False when nothing is. Raises `contract.Refused` for anything else."""
        found = devices.signature(path)
        if found and (found.get("TYPE"), found.get("LABEL")) != ("btrfs", self.label):
            what = found.get("TYPE") or found.get("PTTYPE") or "something"
            raise contract.Refused(
                reason=f"{path} holds {what} '{found.get('LABEL', '')}', not '{self.label}': "
                "name another device, or wipe this one with wipefs --all"
            )
        return bool(found)

    def _forget_gone(self) -> None:
        """Some kernels keep the accounting of deleted subvolumes.

        Each kernel stops counting for good when one is forgotten of which not all has been counted out.
        """
        empty = {tree for tree, (referenced_bytes, _) in self.usages().items() if not referenced_bytes}
        if empty:
            btrfs.sync(self.root)  # One that is just being made is among the trees from then on.
            for tree in empty - btrfs.trees(self.root):
                btrfs.forget(self.root, tree)

    def check_mounted(self) -> None:
        """Raises `contract.Unreachable` while it is not, lest an empty directory be taken for a pool without shares."""
        if not self.root.is_mount():
            raise contract.Unreachable(reason=f"the pool is not mounted at {self.root}")

    def is_writable(self) -> bool:
        """Whether it is mounted and takes writes; after one that failed it takes none until it is mounted anew."""
        return self.root.is_mount() and not os.statvfs(self.root).f_flag & os.ST_RDONLY

    def check_disk(self) -> None:
        """Raises `contract.Unreachable` when mounting anew would fail as before."""
        if self._device_option:
            raise contract.Unreachable(
                reason=f"a write to {self._device_option} failed, and since then the pool is read-only: "
                "see the kernel's log, mend the device, and start the worker again"
            )
        below = os.statvfs(self._image.parent)
        if below.f_bavail * below.f_frsize < _LEAST_DISK_BYTES:
            raise contract.Unreachable(
                reason=f"the disk of {self._image} is full, and since then the pool is read-only: make room on it"
            )

    def unmount_all(self) -> None:
        """Nothing of ours is mounted any more. Raises `contract.Busy`."""
        for ours in (self.directory / "shares", self.directory / "snapshots", self.root):
            for point in mounts.below(ours):
                mounts.unmount(point, patience_s=10)

    def shut_down(self) -> None:
        """Nothing is mounted and no loop device is held any more; all data stays."""
        self.unmount_all()
        if not self._device_option and self._image.exists():
            devices.detach_loop(self._image)

    def space(self) -> tuple[int, int]:
        """Total and free bytes; an image cannot grow into more than its own disk has left."""
        total_bytes, free_bytes = self.own_space()
        if not self._device_option:
            below = os.statvfs(self._image.parent)
            free_bytes = min(free_bytes, below.f_bavail * below.f_frsize)
        return total_bytes, free_bytes

    def own_space(self) -> tuple[int, int]:
        seen = os.statvfs(self.root)
        return seen.f_blocks * seen.f_frsize, seen.f_bavail * seen.f_frsize

    def is_counted(self) -> bool:
        """Whether usages are true, as of the last commit."""
        return btrfs.is_counted(self.root)

    def see_to_counting(self) -> None:
        """What is gone is not accounted for; when the kernel has given up following, it counts anew from now on."""
        self._forget_gone()
        if not self.is_counted():
            self._count_anew()

    def _count_anew(self) -> None:
        if btrfs.count_anew(self.root):
            log.warning("the kernel has lost count of what is in use in %s and counts anew", self.root)

    def wait_until_counted(self) -> None:
        """Usages are true when it returns. Raises `contract.Refused` when that takes longer than some seconds."""
        end = time.monotonic() + self.counting_s
        while not self.is_counted():
            self._count_anew()
            if time.monotonic() >= end:
                reason = "how much is in use is not known until all of the pool has been counted anew: try again later"
                raise contract.Refused(reason=reason)
            time.sleep(0.05)

    def usages(self) -> dict[int, tuple[int, int]]:
        """What each subvolume refers to and its limit, in bytes, as of the last commit."""
        return btrfs.usages(self.root)


def _make_private(directory: Path) -> None:
    """Users of this host do not pass: what lies below has the permissions that the clients gave it."""
    directory.mkdir(exist_ok=True)
    directory.chmod(0o700)
