# SPDX-License-Identifier: Apache-2.0
"""A btrfs file system that belongs to one local back end: a subvolume a share, a limit on each, snapshots beside them.

Names decide ownership: the file system bears the back end's label, a share is the subvolume `shares/<id>` and nothing
else is ever deleted. Each subvolume is mounted on its own, because the NFS server cannot export one from its parent.
"""

from __future__ import annotations

import fcntl
import logging
import os
from pathlib import Path
from typing import IO

from abaca.drivers import contract
from abaca.drivers.clients import btrfs, devices, mounts
from abaca.drivers.clients.names import safe, safe_path

log = logging.getLogger(__name__)

GIB = 1 << 30
_FLAGS = mounts.NOATIME | mounts.NODEV | mounts.NOSUID
_LEAST_FREE_BYTES = 1 << 20
_LEAST_DISK_BYTES = 1 << 26  # What a pool may need to write when it is mounted after a failed write.


class Pool:
    """The storage half of a local back end; `start` before anything else, one process at a time."""

    def __init__(self, name: str, directory: Path, device: str, image: str, size_gib: int) -> None:
        self.label = f"abaca-{name}"
        self.directory = directory
        self.root = directory / "pool"
        self._device_option = device
        self._image = Path(image) if image else directory / "pool.img"
        self._size_gib = size_gib
        self._device = ""
        self._lock: IO[str] | None = None

    # Starting and ending

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
            mounts.mount(self._device, self.root, "btrfs", _FLAGS, "subvolid=5,discard=async")
        btrfs.enable_quota(self.root)
        if not self._device_option:
            devices.grow_image(self._image, self._device, self._size_gib)
            btrfs.grow(self.root)
        for kind in ("shares", "snapshots", "work"):
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
        """Some kernels keep the accounting of deleted subvolumes."""
        for tree in btrfs.usages(self.root).keys() - btrfs.trees(self.root):
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

    # Shares and snapshots

    def path(self, kind: str, id: str) -> Path:
        """Where the subvolume is inside the pool; `kind` is shares, snapshots or work."""
        return self.root / kind / safe(id)

    def mount_point(self, kind: str, id: str) -> Path:
        """Where the subvolume is mounted on its own."""
        return self.directory / kind / safe(id)

    def holds(self, kind: str, id: str) -> bool:
        """Whether it exists. Raises `contract.Refused` when something else has its name."""
        path = self.path(kind, id)
        if btrfs.is_subvolume(path):
            return True
        if path.is_symlink() or path.exists():
            raise contract.Refused(reason=f"{path} is not a subvolume that was made here")
        return False

    def need(self, kind: str, id: str) -> Path:
        """Its path. Raises `contract.Gone` when it does not exist."""
        if not self.holds(kind, id):
            raise contract.Gone(reason=f"there is no {self.path(kind, id)}")
        return self.path(kind, id)

    def create(self, id: str, size_gib: int, mode: int, source: Path | None = None) -> None:
        """The share with its limit, from the snapshot at `source` if given; on disk when it returns.

        It gets its name last, so a share that has one is complete.
        """
        if not self.holds("shares", id):
            self.check_room(size_gib)
            self._remove("work", id)
            work = self.path("work", id)
            if source:
                btrfs.snapshot(source, work, read_only=False)
            else:
                btrfs.create(work)
                work.chmod(mode)
            btrfs.limit(work, size_gib * GIB)
            work.rename(self.path("shares", id))
        else:
            self.limit(id, size_gib)
        btrfs.sync(self.root)

    def check_room(self, size_gib: int) -> None:
        """Raises `contract.Full` when a share of this size could never be filled, or nothing fits any more.

        Raises `contract.Busy` while the space of deleted shares is still being won back.
        """
        total_bytes, free_bytes = self.space()
        if size_gib * GIB > total_bytes:
            raise contract.Full(reason=f"the pool has {total_bytes / GIB:.1f} GiB in all")
        if free_bytes >= _LEAST_FREE_BYTES:
            return
        if self._own_space()[1] < _LEAST_FREE_BYTES:
            is_deleting = btrfs.is_deleting(self.root)
            btrfs.sync(self.root)  # What was deleted counts as free only once that is on disk.
            if is_deleting and self._own_space()[1] < _LEAST_FREE_BYTES:
                raise contract.Busy(reason="the pool is full until what was deleted has been taken away")
        if self.space()[1] < _LEAST_FREE_BYTES:
            raise contract.Full(reason="the pool is full")

    def limit(self, id: str, size_gib: int) -> None:
        """Raises `contract.Gone`."""
        btrfs.limit(self.need("shares", id), size_gib * GIB)

    def usage(self, id: str) -> tuple[int, int]:
        """What the share refers to and its limit, in bytes, exact after a sync. Raises `contract.Gone`."""
        return btrfs.usage(self.root, btrfs.tree_id(self.need("shares", id)))

    def shrink(self, id: str, size_gib: int, old_size_gib: int) -> None:
        """Raises `contract.Refused`, with the old limit in force, when more is in use."""
        self._refuse_used(id, size_gib)
        self.limit(id, size_gib)
        try:
            self._refuse_used(id, size_gib)
        except contract.Refused:
            self.limit(id, old_size_gib)
            raise

    def _refuse_used(self, id: str, size_gib: int) -> None:
        btrfs.sync(self.root)
        used_bytes, _ = self.usage(id)
        if used_bytes > size_gib * GIB:
            raise contract.Refused(reason=f"{used_bytes / GIB:.2f} GiB are in use")

    def snapshot(self, id: str, share_id: str) -> None:
        """A read-only copy of the share as it is now."""
        if not self.holds("snapshots", id):
            btrfs.snapshot(self.need("shares", share_id), self.path("snapshots", id), read_only=True)
        # It inherits the share's limit, which it needs no more.
        btrfs.limit(self.path("snapshots", id), btrfs.UNLIMITED)

    def prepare_revert(self, id: str, snapshot_id: str) -> None:
        """A writable copy of the snapshot waits to take the share's place."""
        snapshot = self.need("snapshots", snapshot_id)
        self.need("shares", id)
        self._remove("work", id)
        btrfs.snapshot(snapshot, self.path("work", id), read_only=False)

    def finish_revert(self, id: str, size_gib: int) -> None:
        """The copy takes the share's place in one step; what was there is gone."""
        mounts.exchange(self.path("work", id), self.path("shares", id))
        self.limit(id, size_gib)
        btrfs.sync(self.root)
        self._remove("work", id)

    def delete(self, kind: str, id: str) -> None:
        """Unmount and remove; absent is success. Raises `contract.Busy` while it is in use."""
        self.unmount(kind, id)
        self._remove(kind, id)

    def _remove(self, kind: str, id: str) -> None:
        if self.holds(kind, id):
            path = self.path(kind, id)
            tree = btrfs.tree_id(path)
            btrfs.limit(path, btrfs.UNLIMITED)  # What is being deleted is claimed no more.
            btrfs.delete(path)
            btrfs.forget(self.root, tree)

    # Mounts

    def mount(self, kind: str, id: str) -> bool:
        """Let it be mounted at its mount point; whether it was not. Raises `contract.Gone`, `contract.Refused`."""
        source, target = self.need(kind, id), self.mount_point(kind, id)
        if self.is_mounted(kind, id):
            return False
        try:
            target.mkdir(exist_ok=True)
        except FileExistsError as error:
            raise contract.Refused(reason=f"{target} is no directory and is in the way of a mount") from error
        if target.is_mount():  # Another subvolume of that name, from before a revert.
            mounts.unmount(target)
        flags = _FLAGS | (mounts.READ_ONLY if kind == "snapshots" else 0)
        mounts.mount(self._device, target, "btrfs", flags, f"subvol=/{kind}/{source.name}")
        return True

    def is_mounted(self, kind: str, id: str) -> bool:
        """Whether exactly this subvolume is mounted at its mount point."""
        try:
            return os.path.samestat(self.path(kind, id).stat(), self.mount_point(kind, id).stat())
        except FileNotFoundError:
            return False

    def unmount(self, kind: str, id: str) -> None:
        """Not mounted is success. Raises `contract.Busy`; what lies in an unmounted directory is left alone."""
        target = self.mount_point(kind, id)
        mounts.unmount(target)
        try:
            target.rmdir()
        except FileNotFoundError:
            pass
        except OSError as error:
            log.warning("%s was unmounted and stays: %s", target, error.strerror)

    # Figures

    def space(self) -> tuple[int, int]:
        """Total and free bytes; an image cannot grow into more than its own disk has left."""
        total_bytes, free_bytes = self._own_space()
        if not self._device_option:
            below = os.statvfs(self._image.parent)
            free_bytes = min(free_bytes, below.f_bavail * below.f_frsize)
        return total_bytes, free_bytes

    def _own_space(self) -> tuple[int, int]:
        seen = os.statvfs(self.root)
        return seen.f_blocks * seen.f_frsize, seen.f_bavail * seen.f_frsize

    def usages(self) -> dict[int, tuple[int, int]]:
        """What each subvolume refers to and its limit, in bytes, as of the last commit."""
        return btrfs.usages(self.root)


def _make_private(directory: Path) -> None:
    """Users of this host do not pass: what lies below has the permissions that the clients gave it."""
    directory.mkdir(exist_ok=True)
    directory.chmod(0o700)
