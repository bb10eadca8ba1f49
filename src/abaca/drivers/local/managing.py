# SPDX-License-Identifier: Apache-2.0
"""How the local driver takes subvolumes over that are there already, and gives shares and snapshots up.

What was given up lies in `unmanaged/` of the pool, mounted and exported as before. What is taken over becomes
`shares/<id>` or `snapshots/<id>`: what was given up, or a subvolume that somebody has made anywhere else in the pool.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from abaca.drivers import contract
from abaca.drivers.clients import btrfs
from abaca.drivers.clients.names import safe
from abaca.drivers.local.exporters import Exporter
from abaca.drivers.local.pool import GIB, UNMANAGED
from abaca.drivers.local.serving import PSEUDO, SHARES, SNAPSHOTS, Serving

_OURS = (SHARES, SNAPSHOTS, "work")
_NO_LIMIT = 2**63
_MOST_GIB = 2**30  # what a share may have


class Managing(Serving, contract.Manages, contract.ManagesSnapshots):
    """Subvolumes of the pool change hands where they lie."""

    def manage(self, instance: contract.ShareInstance, options: Mapping[str, str]) -> contract.Managed:
        with self.changing(instance):
            path = instance.exports[0].path if instance.exports else ""
            exporter = self.exporter(instance)
            kept = self._mounted_by(exporter, path)
            if not self.pool.holds(SHARES, instance.id):
                source = self._source(exporter, path, kept)
                size_gib = self._wanted_gib(source, options)
                is_served = kept is not None and exporter.ganesha.serving(kept) is not None
                if source.parent == self.pool.root / UNMANAGED and not is_served:
                    self._close(SHARES, source.name)
                self.pool.take(source, instance.id, size_gib)
            pseudo = self.pseudo(instance) if instance.mount_point_name or kept is None else kept
            self._hand_over(exporter, instance, kept, pseudo)
            size_gib = math.ceil(self.pool.usage(instance.id)[1] / GIB)
        is_usual = pseudo == self.pseudo(instance)
        return contract.Managed(
            size_gib=size_gib, exports=exporter.exports(pseudo), driver_data=None if is_usual else {PSEUDO: pseudo}
        )

    def unmanage(self, instance: contract.ShareInstance) -> None:
        with self.changing(instance):
            if self.pool.holds(SHARES, instance.id):
                self.pool.give_up(instance.id)

    def manage_snapshot(self, snapshot: contract.Snapshot, options: Mapping[str, str]) -> contract.ManagedSnapshot:
        with self.changing(snapshot.instance):
            is_taken = self.pool.holds(SNAPSHOTS, snapshot.id)
            own = self.pool.path(SNAPSHOTS, snapshot.id)
            source = own if is_taken else self._snapshot(snapshot.provider_location or "", snapshot.instance.id)
            size_gib = self._snapshot_gib(source, snapshot.instance, options)
            if source.parent == self.pool.root / UNMANAGED:
                self._close(SNAPSHOTS, source.name)
            self.pool.take_snapshot(source, snapshot.id)
        return contract.ManagedSnapshot(size_gib=size_gib, provider_location=f"{SNAPSHOTS}/{snapshot.id}")

    def unmanage_snapshot(self, snapshot: contract.Snapshot) -> None:
        with self.changing(snapshot.instance):
            self.pool.give_up_snapshot(snapshot.id)

    def _snapshot(self, place: str, share_id: str) -> Path:
        """The share's snapshot at a place that the driver has told, or at a path. Raises `Gone`, `Refused`."""
        kind, _, id = place.partition("/")
        if kind != SNAPSHOTS:
            found = self._subvolume(place, is_snapshot=True)
        elif self.pool.holds(SNAPSHOTS, safe(id)):
            raise contract.Refused(reason=f"{place} belongs to snapshot instance {id}; release that snapshot first")
        else:
            found = self.pool.need(UNMANAGED, id)
        if not self.pool.is_of(found, share_id):
            share = self.pool.path(SHARES, share_id)
            raise contract.Refused(
                reason=f"{found} was not taken of this share; give what was, as by: btrfs subvolume snapshot -r {share}"
            )
        return found

    def _snapshot_gib(self, source: Path, instance: contract.ShareInstance, options: Mapping[str, str]) -> int:
        """How large it is said to be: as its share, as `options` say, or so that it holds what is in it."""
        btrfs.sync(self.pool.root)
        self.pool.wait_until_counted()
        used_bytes, _ = btrfs.usage(self.pool.root, btrfs.tree_id(source))
        if "size" in options:
            return _said_gib(options["size"], used_bytes)
        return max(1, instance.size_gib, math.ceil(used_bytes / GIB))

    def _mounted_by(self, exporter: Exporter, path: str) -> str | None:
        """The path by which clients mount it, where `path` is an export location, such as 10.0.0.5:/shares/x."""
        address, colon, pseudo = path.rpartition(":")
        if not colon or not pseudo.startswith("/"):
            return None
        known = [one.path.rpartition(":")[0] for one in exporter.exports(pseudo)]
        if address not in known:
            raise contract.Gone(reason=f"{address} is none of the addresses of this back end: {', '.join(known)}")
        return pseudo

    def _source(self, exporter: Exporter, path: str, kept: str | None) -> Path:
        """The subvolume, whoever has it. Raises `Gone`, `Refused`."""
        if kept is None:
            return self._subvolume(path)
        block = exporter.ganesha.serving(kept)
        id = kept.rpartition("/")[2] if block is None else block.name.rpartition("/")[2]
        if block is not None and not block.name.startswith(f"{SHARES}/"):
            raise contract.Refused(reason=f"{path} is not the export of a share")
        if self.pool.holds(SHARES, safe(id, most=255)):
            raise contract.Refused(reason=f"{path} belongs to share instance {id}; release that share first")
        if not self.pool.holds(UNMANAGED, id) or (block is None and kept != f"/{SHARES}/{id}"):
            raise contract.Gone(reason=f"nothing is exported as {path}")
        return self.pool.path(UNMANAGED, id)

    def _subvolume(self, path: str, *, is_snapshot: bool = False) -> Path:
        """The one at that path, absolute or in the pool; a snapshot is read-only, and a share is not."""
        root = self.pool.root
        wanted = root / path
        if not path or ".." in wanted.parts or not wanted.is_relative_to(root) or wanted == root:
            raise contract.Refused(
                reason=f"'{path}' is not in the pool; give an export location, or a subvolume below {root}"
            )
        inside = wanted.relative_to(root).parts
        if not os.path.lexists(wanted):
            raise contract.Gone(reason=f"there is no {wanted}; what was given up lies in {root / UNMANAGED}")
        if os.path.realpath(wanted) != str(wanted):
            raise contract.Refused(reason=f"{wanted} leads elsewhere by a symbolic link; give the path itself")
        if inside[0] in _OURS:
            raise contract.Refused(reason=f"{wanted} belongs to a share; release that share first")
        if not btrfs.is_subvolume(wanted):
            raise contract.Refused(
                reason=f"{wanted} is no subvolume; make one and copy it there: btrfs subvolume create {root}/new && "
                f"cp -a --reflink=always {shlex.quote(f'{wanted}/.')} {root}/new"
            )
        if btrfs.is_read_only(wanted) is not is_snapshot:
            what = "can be written, as no snapshot can" if is_snapshot else "is read-only"
            change = f"btrfs property set -ts {wanted} ro {str(is_snapshot).lower()}"
            raise contract.Refused(reason=f"{wanted} {what}; first: {change}")
        return wanted

    def _wanted_gib(self, source: Path, options: Mapping[str, str]) -> int:
        """The limit that it shall have: its own, as `options` say, or whole GiB that hold what is in it."""
        btrfs.sync(self.pool.root)
        tree = btrfs.tree_id(source)
        _, limit_bytes = btrfs.usage(self.pool.root, tree)
        if limit_bytes < _NO_LIMIT and "size" not in options:
            return max(1, math.ceil(limit_bytes / GIB))
        self.pool.wait_until_counted()
        used_bytes, _ = btrfs.usage(self.pool.root, tree)
        if "size" not in options:
            return max(1, math.ceil(used_bytes / GIB))
        return _said_gib(options["size"], used_bytes)

    def _close(self, kind: str, old_id: str) -> None:
        """What was given up is mounted and exported by its old name no more, whichever share server it was on."""
        for exporter in self.exporters():
            exporter.ganesha.remove(f"{kind}/{old_id}")
        self.pool.unmount(kind, old_id)

    def _hand_over(self, exporter: Exporter, instance: contract.ShareInstance, kept: str | None, pseudo: str) -> None:
        """Its export is the share's, with the clients it has; one of before is no more."""
        clients = None
        block = exporter.ganesha.serving(kept) if kept is not None else None
        if block is not None and block.name != f"{SHARES}/{instance.id}":
            clients = block.clients
            self._close(SHARES, block.name.rpartition("/")[2])
        self.serve(exporter, SHARES, instance.id, pseudo, clients)


def _said_gib(size: str, used_bytes: int) -> int:
    """The size that is asked for. Raises `Refused` where that is none, or does not hold what is in use."""
    size_gib = int(size) if size.isdecimal() else 0
    if size_gib * GIB < max(used_bytes, 1) or size_gib > _MOST_GIB:
        raise contract.Refused(reason=f"{used_bytes / GIB:.2f} GiB are in use, and 'size' is {size}")
    return size_gib
