# SPDX-License-Identifier: Apache-2.0
"""Shares on this host: btrfs subvolumes with a limit each, exported by NFS-Ganesha.

Everything is done on the host itself, so the worker of this back end runs there, as root. The NFS server and the mounts
outlive the worker; a worker that starts takes them over, and nobody notices.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from abaca.drivers import contract
from abaca.drivers.clients import commands
from abaca.drivers.clients.names import safe
from abaca.drivers.exports import clients
from abaca.drivers.exports.daemon import Daemon
from abaca.drivers.exports.ganesha import Ganesha
from abaca.drivers.local.pool import GIB, Pool

log = logging.getLogger(__name__)

POOL = "pool"
SHARES, SNAPSHOTS = "shares", "snapshots"
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class Local(
    contract.Driver,
    contract.Resizes,
    contract.Ensures,
    contract.Inspects,
    contract.Snapshots,
    contract.ClonesSnapshotsAtOnce,
    contract.RevertsAtOnce,
    contract.MountsSnapshots,
    contract.MeasuresUsage,
    contract.AllowsCopying,
):
    """Shares on this host: btrfs subvolumes with a limit each, exported by NFS-Ganesha."""

    vendor: ClassVar[str] = "Abaca"
    announces: ClassVar[dict[str, Any]] = {"mount_point_name_support": True, "thin_provisioning": True}
    changeable: ClassVar[frozenset[str]] = frozenset({"export_ips", "root_mode"})

    class Options(msgspec.Struct, frozen=True, kw_only=True):
        pool_device: Annotated[
            str, msgspec.Meta(description="Block device for the pool; it must be empty, or hold this back end's pool.")
        ] = ""
        pool_image: Annotated[
            str,
            msgspec.Meta(
                description="Without a device: the file that holds the pool, made when absent; "
                "by default `pool.img` in the back end's state directory."
            ),
        ] = ""
        pool_size_gib: Annotated[
            contract.Positive,
            msgspec.Meta(description="Size of that file in GiB. It takes space as it fills; a larger value grows it."),
        ] = 20
        export_ips: Annotated[
            tuple[str, ...],
            msgspec.Meta(description="Addresses of this host in export locations; the first is preferred."),
        ] = ("127.0.0.1",)
        ganesha_port: Annotated[Port, msgspec.Meta(description="TCP port of the NFS server.")] = 2049
        ganesha_netns: Annotated[
            str, msgspec.Meta(description="Path of a network namespace to serve in, such as `/run/netns/storage`.")
        ] = ""
        nfs_minor_versions: Annotated[
            tuple[Literal[0, 1, 2], ...], msgspec.Meta(description="NFS 4 minor versions that are served.")
        ] = (1, 2)
        grace_s: Annotated[
            Annotated[int, msgspec.Meta(ge=1, le=180)],
            msgspec.Meta(description="Seconds that clients have to come back after the NFS server was started again."),
        ] = 10
        root_mode: Annotated[
            str, msgspec.Meta(pattern="^[0-7]{3,4}$", description="Permissions of a new share's top directory, octal.")
        ] = "0777"

        def __post_init__(self) -> None:
            if not self.export_ips:
                raise ValueError("export_ips must name an address")
            for address in self.export_ips:
                ipaddress.ip_address(address)

    def __init__(self, backend: contract.Backend, options: Options) -> None:
        super().__init__(backend, options)
        self.change(options)
        self._pool = Pool(
            backend.name, backend.state_dir, options.pool_device, options.pool_image, options.pool_size_gib
        )
        self._ganesha = Ganesha(
            Daemon(
                backend.state_dir / "ganesha",
                port=options.ganesha_port,
                netns=options.ganesha_netns,
                grace_s=options.grace_s,
                minor_versions=options.nfs_minor_versions,
            )
        )
        # One instance at a time, even when ensuring runs beside a request; a fixed number of locks for any number.
        self._locks = [threading.RLock() for _ in range(64)]
        self._reviving = threading.Lock()

    def change(self, options: Options) -> None:
        super().change(options)
        self.ip_versions = tuple(sorted({ipaddress.ip_address(address).version for address in options.export_ips}))

    # Life

    def start(self) -> None:
        if os.geteuid() != 0:
            raise contract.Refused(reason="it mounts file systems and must run as root: run the worker as root")
        for program, package in (("mkfs.btrfs", "btrfs-progs"), ("losetup", "mount"), ("blkid", "util-linux")):
            commands.need(program, package)
        safe(self.backend.name)
        with contextlib.ExitStack() as undo:
            self._pool.lock()
            undo.callback(self._pool.unlock)
            self._end_if_read_only()
            self._begin()
            undo.pop_all()

    def _begin(self) -> None:
        """Everything that is written is mounted and served."""
        names = self._ganesha.start()
        self._pool.start()
        self._ganesha.serve([name for name in names if self._mount_again(name)])

    def _end_if_read_only(self) -> None:
        """A pool that the kernel keeps from being written is mounted no more, so that it can be mounted anew."""
        if not self._pool.is_writable():
            self._ganesha.shut_down()
            self._pool.unmount_all()

    def _revive(self) -> None:
        """The pool can be written and the NFS server runs. Raises `Unreachable`, `Busy`."""
        with self._reviving, contextlib.ExitStack() as stack:
            if not self._pool.is_writable():
                self._pool.check_disk()
                log.warning("the pool of %s is read-only and is mounted anew; its clients wait", self.backend.name)
                for lock in self._locks:
                    stack.enter_context(lock)
                self._end_if_read_only()
                self._begin()
            self._ganesha.revive()

    def _mount_again(self, name: str) -> bool:
        """Mount what an export serves; whether it was not. What cannot be mounted is kept from being exported empty."""
        kind, _, id = name.partition("/")
        try:
            return self._pool.mount(kind, id)
        except (contract.Gone, contract.Refused) as error:
            log.error("%s cannot be served: %s", name, error)
            self._pool.unmount(kind, id)
            return True

    def stop(self) -> None:
        self._ganesha.stop()
        self._pool.unlock()

    def shutdown(self) -> None:
        """End the NFS server, unmount everything, free the loop device; all data stays, and `start` brings it back.

        For the operator who takes the back end out of service: clients hang from now on. Raises `Busy`, `Unreachable`.
        """
        self._pool.lock()
        try:
            self._ganesha.shut_down()
            self._pool.shut_down()
        finally:
            self._pool.unlock()

    def backend_info(self) -> dict[str, str]:
        return {
            "export_ips": ",".join(self.options.export_ips),
            "ganesha_port": str(self.options.ganesha_port),
            "layout": "1",
        }

    def pools(self) -> list[contract.PoolStats]:
        self._revive()
        total_bytes, free_bytes = self._pool.space()
        limited = (most for _, most in self._pool.usages().values() if most < 2**63)
        return [
            contract.PoolStats(
                name=POOL,
                total_gib=round(total_bytes / GIB, 2),
                free_gib=round(free_bytes / GIB, 2),
                allocated_gib=sum(limited) / GIB,
                capabilities={"thin_provisioning": True},
            )
        ]

    # Shares

    def create(self, instance: contract.ShareInstance) -> contract.Created:
        with self._one(instance.id):
            return self._create(instance, None)

    def create_from_snapshot(self, instance: contract.ShareInstance, snapshot: contract.Snapshot) -> contract.Created:
        with self._one(instance.id):
            source = None
            if not self._pool.holds(SHARES, instance.id):
                source = self._pool.need(SNAPSHOTS, snapshot.id)
            return self._create(instance, source)

    def _create(self, instance: contract.ShareInstance, source: Path | None) -> contract.Created:
        pseudo = self._pseudo(instance)
        self._pool.create(instance.id, instance.size_gib, int(self.options.root_mode, 8), source)
        self._serve(SHARES, instance.id, pseudo, None)
        return contract.Created(exports=self._exports(pseudo))

    def delete(self, instance: contract.ShareInstance) -> None:
        with self._one(instance.id):
            self._pool.holds(SHARES, instance.id)
            self._ganesha.remove(f"{SHARES}/{instance.id}")
            self._pool.delete(SHARES, instance.id)

    def set_access(
        self, instance: contract.ShareInstance, rules: Sequence[contract.AccessRule]
    ) -> dict[str, contract.AccessOutcome]:
        with self._one(instance.id):
            self._pool.need(SHARES, instance.id)
            wanted, outcomes = clients.from_rules(rules)
            self._serve(SHARES, instance.id, self._pseudo(instance), wanted)
            return outcomes

    def extend(self, instance: contract.ShareInstance, new_size_gib: int) -> None:
        with self._one(instance.id):
            self._pool.need(SHARES, instance.id)
            self._pool.check_room(new_size_gib)
            self._pool.limit(instance.id, new_size_gib)

    def shrink(self, instance: contract.ShareInstance, new_size_gib: int) -> None:
        with self._one(instance.id):
            self._pool.shrink(instance.id, new_size_gib, instance.size_gib)

    def measure_usage(self, instances: Sequence[contract.ShareInstance]) -> dict[str, contract.Usage]:
        now = datetime.datetime.now(datetime.UTC)
        seen = {}
        for instance in instances:
            with contextlib.suppress(contract.Gone, contract.Refused):
                used_bytes, _ = self._pool.usage(instance.id)
                seen[instance.id] = contract.Usage(used_gib=used_bytes / GIB, gathered_at=now)
        return seen

    def open_for_copy(
        self, instance: contract.ShareInstance, addresses: Sequence[str], level: contract.AccessLevel
    ) -> contract.CopyMount:
        with self._one(instance.id):
            self._pool.mount(SHARES, instance.id)
            return contract.CopyMount(type="directory", source=str(self._pool.mount_point(SHARES, instance.id)))

    def close_after_copy(self, instance: contract.ShareInstance) -> None:
        """It is mounted on this host all the time."""

    # Ensuring

    def ensure(self, instances: Sequence[contract.ShareInstance]) -> dict[str, contract.EnsureOutcome]:
        self._revive()
        outcomes = {}
        for instance in instances:
            with self._one(instance.id):
                outcome = self._ensure(instance)
            if outcome is not None:
                outcomes[instance.id] = outcome
        return outcomes

    def _ensure(self, instance: contract.ShareInstance) -> contract.EnsureOutcome | None:
        """Repair one; None when nothing was to be done."""
        try:
            outcome = self._look(instance)
            if outcome is not None:
                if self._is_limited_wrongly(instance):
                    self._pool.limit(instance.id, instance.size_gib)
                self._serve(SHARES, instance.id, self._pseudo(instance), None)
                for id, exports in self._snapshots(instance).items():
                    if exports:
                        self._serve(SNAPSHOTS, id, _snapshot_pseudo(id), None)
        except (contract.Gone, contract.Refused) as error:
            return contract.EnsureOutcome(status="error", reason=error.message)
        return outcome

    def inspect(self, instances: Sequence[contract.ShareInstance]) -> dict[str, contract.EnsureOutcome]:
        outcomes = {}
        for instance in instances:
            with self._one(instance.id):
                try:
                    outcome = self._look(instance)
                except (contract.Gone, contract.Refused) as error:
                    outcome = contract.EnsureOutcome(status="error", reason=error.message)
            if outcome is not None:
                outcomes[instance.id] = outcome
        return outcomes

    def _look(self, instance: contract.ShareInstance) -> contract.EnsureOutcome | None:
        """What is not as it shall be, None when all is. Raises `Gone`."""
        pseudo = self._pseudo(instance)
        served = self._untrue(SHARES, instance.id, pseudo)
        limit = [f"its limit was not {instance.size_gib} GiB"] if self._is_limited_wrongly(instance) else []
        exports = self._exports(pseudo)
        moved = exports if set(exports) != set(instance.exports) else None
        snapshots = self._snapshots(instance)
        of_snapshots = [
            f"of snapshot {id}, {said}"
            for id, places in snapshots.items()
            if places
            for said in self._untrue(SNAPSHOTS, id, _snapshot_pseudo(id))
        ]
        others = {id: places for id, places in snapshots.items() if set(places) != set(instance.snapshot_exports[id])}
        if moved is None and not (served or limit or of_snapshots or others):
            return None
        return contract.EnsureOutcome(
            exports=moved,
            reapply_access_rules=bool(served),
            repairs=[*limit, *served, *of_snapshots],
            snapshot_exports=others,
        )

    def _snapshots(self, instance: contract.ShareInstance) -> dict[str, list[contract.Export]]:
        """Where its snapshots that are known to be exported can be mounted from; nowhere when they are gone."""
        return {
            id: self._exports(_snapshot_pseudo(id)) if self._pool.holds(SNAPSHOTS, id) else []
            for id in instance.snapshot_exports
        }

    def _untrue(self, kind: str, id: str, pseudo: str) -> list[str]:
        """What is wrong with how it is served."""
        held = self._ganesha.get(f"{kind}/{id}")
        found = [] if self._pool.is_mounted(kind, id) else ["it was not mounted on the host"]
        if held is None:
            found.append("it had no export")
        elif held.pseudo != pseudo or not self._ganesha.is_true(held):
            found.append("its export was not as written")
        return found

    def _is_limited_wrongly(self, instance: contract.ShareInstance) -> bool:
        """Not known of one that somebody may be resizing at this moment. Raises `Gone`."""
        _, limit_bytes = self._pool.usage(instance.id)
        return instance.is_held and limit_bytes != instance.size_gib * GIB

    # Snapshots

    def create_snapshot(self, snapshot: contract.Snapshot) -> contract.SnapshotOutcome:
        with self._one(snapshot.instance.id):
            self._pool.snapshot(snapshot.id, snapshot.instance.id)
        return contract.SnapshotOutcome(provider_location=f"{SNAPSHOTS}/{snapshot.id}")

    def delete_snapshot(self, snapshot: contract.Snapshot) -> None:
        with self._one(snapshot.instance.id):
            self._pool.holds(SNAPSHOTS, snapshot.id)
            self._ganesha.remove(f"{SNAPSHOTS}/{snapshot.id}")
            self._pool.delete(SNAPSHOTS, snapshot.id)

    def revert(self, snapshot: contract.Snapshot, rules: Sequence[contract.AccessRule]) -> None:
        instance = snapshot.instance
        with self._one(instance.id):
            self._pool.prepare_revert(instance.id, snapshot.id)
            self._ganesha.suspend(f"{SHARES}/{instance.id}")
            self._pool.unmount(SHARES, instance.id)
            self._pool.finish_revert(instance.id, instance.size_gib)
            wanted, _ = clients.from_rules(rules)
            self._serve(SHARES, instance.id, self._pseudo(instance), wanted)

    def export_snapshot(self, snapshot: contract.Snapshot) -> list[contract.Export]:
        with self._one(snapshot.instance.id):
            self._serve(SNAPSHOTS, snapshot.id, _snapshot_pseudo(snapshot.id), None)
        return self._exports(_snapshot_pseudo(snapshot.id))

    def set_snapshot_access(
        self, snapshot: contract.Snapshot, rules: Sequence[contract.AccessRule]
    ) -> dict[str, contract.AccessOutcome]:
        with self._one(snapshot.instance.id):
            wanted, outcomes = clients.from_rules(rules)
            read_only = [clients.Client(network, "ro") for network, _ in wanted]
            self._serve(SNAPSHOTS, snapshot.id, _snapshot_pseudo(snapshot.id), read_only)
            return outcomes

    # Serving

    def _serve(self, kind: str, id: str, pseudo: str, wanted: Sequence[clients.Client] | None) -> bool:
        """Mounted and exported to `wanted`, or to those it has; what the server holds of an older mount is renewed.

        Whether anything had to be done for that.
        """
        name = f"{kind}/{id}"
        if self._pool.mount(kind, id):
            self._ganesha.suspend(name)
        held = self._ganesha.get(name)
        unchanged = held is not None and wanted is None and held.pseudo == pseudo and self._ganesha.is_true(held)
        if not unchanged:
            self._ganesha.put(name, self._pool.mount_point(kind, id), pseudo, wanted)
        return not unchanged

    def _pseudo(self, instance: contract.ShareInstance) -> str:
        return f"/{SHARES}/{safe(instance.mount_point_name or instance.id, most=255)}"

    def _exports(self, pseudo: str) -> list[contract.Export]:
        return [
            contract.Export(path=f"{f'[{address}]' if ':' in address else address}:{pseudo}", preferred=number == 0)
            for number, address in enumerate(self.options.export_ips)
        ]

    @contextlib.contextmanager
    def _one(self, id: str) -> Iterator[None]:
        """Nobody else works on it meanwhile. Raises `Unreachable` while the pool is not mounted."""
        with self._locks[hash(id) % len(self._locks)]:
            self._pool.check_mounted()
            yield


def _snapshot_pseudo(id: str) -> str:
    return f"/{SNAPSHOTS}/{safe(id)}"
