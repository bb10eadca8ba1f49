# SPDX-License-Identifier: Apache-2.0
"""A btrfs file system that belongs to one local back end: a subvolume a share, a limit on each, snapshots beside them.

Names decide ownership: the file system bears the back end's label, a share is the subvolume `shares/<id>` and nothing
else is ever deleted; one that was given up lies in `unmanaged/`. Each subvolume is mounted on its own, because the NFS
server cannot export one from its parent.
"""

from __future__ import annotations

import itertools
import logging
import os
from pathlib import Path

from abaca.drivers import contract
from abaca.drivers.clients import btrfs, mounts
from abaca.drivers.clients.names import safe
from abaca.drivers.local.file_system import FLAGS, FileSystem

log = logging.getLogger(__name__)

GIB = 1 << 30
UNMANAGED = "unmanaged"
_LEAST_FREE_BYTES = 1 << 20


class Pool(FileSystem):
    """The subvolumes of a local back end's file system."""

    def path(self, kind: str, id: str) -> Path:
        """Where the subvolume is inside the pool; `kind` is shares, snapshots, unmanaged or work."""
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

    def ids_after(self, kind: str, after: str, most: int) -> list[str]:
        """Of up to `most` subvolumes, in order, that follow `after`; what is none was not made here."""
        with os.scandir(self.root / kind) as found:
            later = [entry.name for entry in found if entry.name > after]
        return list(itertools.islice((id for id in sorted(later) if btrfs.is_subvolume(self.root / kind / id)), most))

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

        Raises `contract.UnderWay` while the space of deleted shares is still being won back.
        """
        total_bytes, free_bytes = self.space()
        if size_gib * GIB > total_bytes:
            raise contract.Full(reason=f"the pool has {total_bytes / GIB:.1f} GiB in all")
        if free_bytes >= _LEAST_FREE_BYTES:
            return
        if self.own_space()[1] < _LEAST_FREE_BYTES:
            is_deleting = btrfs.is_deleting(self.root)
            btrfs.sync(self.root)  # What was deleted counts as free only once that is on disk.
            if is_deleting and self.own_space()[1] < _LEAST_FREE_BYTES:
                raise contract.UnderWay(reason="the pool is full until what was deleted has been taken away")
        if self.space()[1] < _LEAST_FREE_BYTES:
            raise contract.Full(reason="the pool is full")

    def take(self, source: Path, id: str, size_gib: int) -> None:
        """Make a subvolume of the pool the share, in one step; on disk when it returns."""
        btrfs.limit(source, size_gib * GIB)
        source.rename(self.path("shares", id))
        btrfs.sync(self.root)

    def give_up(self, id: str) -> None:
        """The subvolume is a share no more; whatever is mounted and exported of it stays so."""
        self.path("shares", id).rename(self.path(UNMANAGED, id))
        btrfs.sync(self.root)

    def is_of(self, source: Path, share_id: str) -> bool:
        """Whether a read-only subvolume was taken of the share, as far as btrfs knows.

        A share that was reverted is made of a snapshot, and what it was before is gone: then whatever was taken of
        something that is gone may be of it, once that snapshot is gone too.
        """
        family = btrfs.family(self.root)
        by_uuid = {one.uuid: one for one in family.values()}
        taken = family[btrfs.tree_id(source)]
        share = family[btrfs.tree_id(self.need("shares", share_id))]
        line, before = {share.uuid}, share.parent
        while before is not None:
            one = by_uuid.get(before)
            if one is not None and not one.is_read_only:
                return taken.parent in line  # another share, of a snapshot of which it was made
            line.add(before)
            if one is None:
                return taken.parent in line or (taken.parent is not None and taken.parent not in by_uuid)
            before = one.parent
        return taken.parent in line or taken.uuid in line

    def take_snapshot(self, source: Path, id: str) -> None:
        """Make a read-only subvolume of the pool the snapshot; one that was half taken is taken wholly."""
        self._move_read_only(source, self.path("snapshots", id))

    def give_up_snapshot(self, id: str) -> None:
        """The subvolume is a snapshot no more; whatever is mounted and exported of it stays so."""
        self._move_read_only(self.path("snapshots", id), self.path(UNMANAGED, id))

    def _move_read_only(self, source: Path, target: Path) -> None:
        """Directories that cannot be written do not move: for that moment it can be, mounted read-only all the same."""
        if source != target and btrfs.is_subvolume(source):
            btrfs.limit(source, btrfs.UNLIMITED)
            btrfs.make_read_only(source, so=False)
            source.rename(target)
        if btrfs.is_subvolume(target):
            btrfs.make_read_only(target, so=True)
        btrfs.sync(self.root)

    def _lies(self, kind: str, id: str) -> Path:
        """Where it is, though it was given up: its export outlives that."""
        path = self.path(kind, id)
        given_up = self.path(UNMANAGED, id)
        return given_up if kind != "work" and not path.exists() and btrfs.is_subvolume(given_up) else path

    def limit(self, id: str, size_gib: int) -> None:
        """Raises `contract.Gone`."""
        btrfs.limit(self.need("shares", id), size_gib * GIB)

    def usage(self, id: str) -> tuple[int, int]:
        """What the share refers to and its limit, in bytes; the first is true after a sync while all is counted.

        Raises `contract.Gone`.
        """
        return btrfs.usage(self.root, btrfs.tree_id(self.need("shares", id)))

    def shrink(self, id: str, size_gib: int, old_size_gib: int) -> None:
        """`contract.Refused` says that more is in use, `contract.UnderWay` that all is counted; the old limit stays."""
        self._refuse_used(id, size_gib)
        self.limit(id, size_gib)
        try:
            self._refuse_used(id, size_gib)
        except (contract.Refused, contract.Busy):
            self.limit(id, old_size_gib)
            raise

    def _refuse_used(self, id: str, size_gib: int) -> None:
        btrfs.sync(self.root)
        self.wait_until_counted()
        used_bytes, _ = self.usage(id)
        if not self.is_counted():
            raise contract.UnderWay(reason="what is in use is being counted anew")
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
            btrfs.limit(path, btrfs.UNLIMITED)  # What is being deleted is claimed no more.
            btrfs.delete(path)

    def mount(self, kind: str, id: str) -> bool:
        """Let it be mounted at its mount point; whether it was not. Raises `contract.Gone`, `contract.Refused`."""
        source, target = self._lies(kind, id), self.mount_point(kind, id)
        if source.parent.name == kind:
            self.need(kind, id)
        if self.is_mounted(kind, id):
            return False
        try:
            target.mkdir(exist_ok=True)
        except FileExistsError as error:
            raise contract.Refused(reason=f"{target} is no directory and is in the way of a mount") from error
        if target.is_mount():  # Another subvolume of that name, from before a revert.
            mounts.unmount(target)
        flags = FLAGS | (mounts.READ_ONLY if kind == "snapshots" else 0)
        mounts.mount(self._device, target, "btrfs", flags, f"subvol=/{source.parent.name}/{source.name}")
        return True

    def is_mounted(self, kind: str, id: str) -> bool:
        """Whether exactly this subvolume is mounted at its mount point."""
        try:
            return os.path.samestat(self._lies(kind, id).stat(), self.mount_point(kind, id).stat())
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
