# SPDX-License-Identifier: Apache-2.0
"""The dummy driver's shares and snapshots, and its options."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import msgspec

from abaca.drivers import contract
from abaca.drivers.contract import promises
from abaca.drivers.dummy import copies, fault_injection, share_servers, state_file
from abaca.drivers.dummy.storage import INSTANCE, SNAPSHOT, rehearsed

Percent = Annotated[int, msgspec.Meta(ge=1, le=100)]


class Rehearsal(
    copies.Copies,
    share_servers.Servers,
    contract.Driver,
    contract.Resizes,
    contract.Inspects,
    contract.Snapshots,
    contract.ClonesSnapshots,
    contract.Reverts,
    contract.MountsSnapshots,
):
    """Every capability without storage but a way to ensure shares, which there are two of."""

    vendor: ClassVar[str] = "Abaca"
    protocols: ClassVar[tuple[str, ...]] = ("NFS", "CIFS", "CEPHFS", "GLUSTERFS")
    announces: ClassVar[dict[str, Any]] = {"mount_point_name_support": True, "qos": True, "dedupe": True}
    changeable: ClassVar[frozenset[str]] = frozenset(
        {
            "access_types",
            "admin_export_ips",
            "delays",
            "ensured_metadata",
            "export_ips",
            "failures",
            "progress_percent",
            "revision",
        }
    )

    class Options(msgspec.Struct, frozen=True, kw_only=True):
        pool_count: Annotated[
            contract.Positive, msgspec.Meta(description="How many pools there are: pool1, pool2 and so on.")
        ] = 1
        pool_size_gib: Annotated[contract.Positive, msgspec.Meta(description="Size of each pool in GiB.")] = 1_000_000
        thin_provisioning: Annotated[
            bool, msgspec.Meta(description="More may be claimed than there is, up to max_over_subscription_ratio.")
        ] = True
        export_ips: Annotated[
            tuple[str, ...], msgspec.Meta(description="Addresses in export locations; the first is preferred.")
        ] = ("127.0.0.1",)
        admin_export_ips: Annotated[
            tuple[str, ...], msgspec.Meta(description="Addresses in export locations that only administrators see.")
        ] = ()
        access_types: Annotated[
            tuple[contract.AccessType, ...],
            msgspec.Meta(description="Access rule types it honours; others are errors."),
        ] = ("ip", "user", "cert", "cephx")
        delays: Annotated[
            dict[str, float],
            msgspec.Meta(
                description="Seconds a method takes, half before and half after its effect: `create:0.2,all:0.01`."
            ),
        ] = {}
        failures: Annotated[
            tuple[str, ...],
            msgspec.Meta(
                description="Methods that fail, counted over all workers: `create:Unreachable:3` the first three "
                "times, `delete:Refused` always, `extend:Busy:1:after` once, after the effect."
            ),
        ] = ()
        progress_percent: Annotated[
            Percent, msgspec.Meta(description="How much further a migration, backup or restore is at each look.")
        ] = 100
        ensured_metadata: Annotated[
            dict[str, str], msgspec.Meta(description="Metadata that ensuring gives every share: `place:here`.")
        ] = {}
        revision: Annotated[str, msgspec.Meta(description="Change it, and shares are ensured at the next start.")] = ""

        def __post_init__(self) -> None:
            methods = sorted({*promises.methods(Rehearsal), "ensure", "ensure_share"})
            fault_injection.parse_failures(self.failures, methods)
            for method in self.delays:
                fault_injection.check_method(method, (*methods, "all"))
            for address in (*self.export_ips, *self.admin_export_ips):
                ipaddress.ip_address(address)

    def __init__(self, backend: contract.Backend, options: Options) -> None:
        super().__init__(backend, options)
        self.ledger = state_file.Ledger(backend.state_dir / f"{backend.name}.sqlite")
        self.change(options)

    def change(self, options: Options) -> None:
        super().change(options)
        self.ip_versions = tuple(sorted({ipaddress.ip_address(address).version for address in options.export_ips}))
        failures = fault_injection.parse_failures(options.failures, promises.methods(type(self)))
        self.script = fault_injection.Script(options.delays, failures, self._is_due)

    def _is_due(self, key: str, times: int) -> bool:
        with self.ledger.change() as books:
            failed = (books.get("failure", key) or {"times": 0})["times"]
            if failed < times:
                books.put("failure", key, {"times": failed + 1})
            return bool(failed < times)

    def contents(self) -> dict[str, dict[str, state_file.Entry]]:
        """Everything held, by kind and id: what a test compares with the database."""
        with self.ledger.change() as books:
            return {kind: books.all(kind) for kind in books.kinds() if kind != "failure"}

    def use(self, instance_id: str, *, used_gib: int, content: str = "") -> None:
        """Pretend that users have written so much. Raises `Gone`."""
        with self.ledger.change() as books:
            entry = books.need(INSTANCE, instance_id)
            books.put(INSTANCE, instance_id, entry | {"used_gib": used_gib, "content": content})

    def start(self) -> None:
        self.ledger.open()
        self.script.before("start")
        self.script.after("start")

    def stop(self) -> None:
        self.ledger.close()

    @rehearsed
    def backend_info(self) -> dict[str, str]:
        return {
            "revision": self.options.revision,
            "export_ips": ",".join((*self.options.export_ips, *self.options.admin_export_ips)),
        }

    @rehearsed
    def pools(self) -> list[contract.PoolStats]:
        size_gib = float(self.options.pool_size_gib)
        with self.ledger.change() as books:
            allocated = {name: float(books.allocated_gib(name)) for name in self.pool_names()}
        return [
            contract.PoolStats(
                name=name,
                total_gib=size_gib,
                free_gib=size_gib if self.options.thin_provisioning else size_gib - allocated_gib,
                allocated_gib=allocated_gib,
                capabilities={"thin_provisioning": self.options.thin_provisioning},
            )
            for name, allocated_gib in allocated.items()
        ]

    @rehearsed
    def create(self, instance: contract.ShareInstance) -> list[contract.Export]:
        with self.ledger.change() as books:
            return self.exports(self.hold(books, instance), instance.server)

    @rehearsed
    def delete(self, instance: contract.ShareInstance) -> None:
        with self.ledger.change() as books:
            self.release(books, instance.id)

    @rehearsed
    def set_access(
        self, instance: contract.ShareInstance, rules: Sequence[contract.AccessRule]
    ) -> dict[str, contract.AccessOutcome]:
        held, outcomes = self.admit(rules)
        with self.ledger.change() as books:
            books.put(INSTANCE, instance.id, books.need(INSTANCE, instance.id) | {"rules": held})
        return outcomes

    @rehearsed
    def extend(self, instance: contract.ShareInstance, new_size_gib: int) -> None:
        with self.ledger.change() as books:
            self._resize(books, instance.id, new_size_gib)

    @rehearsed
    def shrink(self, instance: contract.ShareInstance, new_size_gib: int) -> None:
        with self.ledger.change() as books:
            used_gib = books.need(INSTANCE, instance.id)["used_gib"]
            if used_gib > new_size_gib:
                raise contract.Refused(reason=f"{used_gib} GiB are in use")
            self._resize(books, instance.id, new_size_gib)

    def _resize(self, books: state_file.Books, instance_id: str, new_size_gib: int) -> None:
        entry = books.need(INSTANCE, instance_id)
        self.claim(books, entry["pool"], new_size_gib - entry["size_gib"])
        books.put(INSTANCE, instance_id, entry | {"size_gib": new_size_gib})

    @rehearsed
    def inspect(self, instances: Sequence[contract.ShareInstance]) -> dict[str, contract.EnsureOutcome]:
        return self.looked_at(instances)

    def looked_at(
        self, instances: Sequence[contract.ShareInstance], *, mends: bool = False
    ) -> dict[str, contract.EnsureOutcome]:
        """What is not so as the database says; whether that is mended makes no difference to the answer."""
        found = {}
        with self.ledger.change() as books:
            for one in instances:
                entry = books.get(INSTANCE, one.id)
                outcome = self._difference(entry, one)
                if outcome is not None:
                    found[one.id] = outcome
                    if mends and entry is not None and outcome.repairs:
                        self._resize(books, one.id, one.size_gib)
        return found

    def _difference(
        self, entry: state_file.Entry | None, instance: contract.ShareInstance
    ) -> contract.EnsureOutcome | None:
        if entry is None:
            return contract.EnsureOutcome(status="error", reason="the back end has no such share")
        exports = self.exports(entry, instance.server)
        moved = exports if set(exports) != set(instance.exports) else None
        pairs = self.options.ensured_metadata
        is_marked = all(instance.share_metadata.get(key) == value for key, value in pairs.items())
        is_sized = not instance.is_held or entry["size_gib"] == instance.size_gib
        repairs = [] if is_sized else [f"its size was {entry['size_gib']} GiB instead of {instance.size_gib}"]
        if moved is None and is_marked and not repairs:
            return None
        return contract.EnsureOutcome(exports=moved, share_metadata=None if is_marked else pairs, repairs=repairs)

    @rehearsed
    def create_snapshot(self, snapshot: contract.Snapshot) -> str | None:
        with self.ledger.change() as books:
            return self.hold_snapshot(books, snapshot)

    @rehearsed
    def delete_snapshot(self, snapshot: contract.Snapshot) -> None:
        with self.ledger.change() as books:
            books.drop(SNAPSHOT, snapshot.id)

    @rehearsed
    def create_from_snapshot(
        self, instance: contract.ShareInstance, snapshot: contract.Snapshot
    ) -> list[contract.Export]:
        with self.ledger.change() as books:
            return self.exports(self.hold_copy(books, instance, snapshot.id), instance.server)

    @rehearsed
    def revert(self, snapshot: contract.Snapshot, rules: Sequence[contract.AccessRule]) -> None:
        held, _ = self.admit(rules)
        with self.ledger.change() as books:
            self.bring_back(books, snapshot, rules=held)

    @rehearsed
    def export_snapshot(self, snapshot: contract.Snapshot) -> list[contract.Export]:
        with self.ledger.change() as books:
            books.need(SNAPSHOT, snapshot.id)
        return self.exports({"mount": snapshot.id}, snapshot.instance.server)

    @rehearsed
    def set_snapshot_access(
        self, snapshot: contract.Snapshot, rules: Sequence[contract.AccessRule]
    ) -> dict[str, contract.AccessOutcome]:
        held, outcomes = self.admit(rules)
        with self.ledger.change() as books:
            books.put(SNAPSHOT, snapshot.id, books.need(SNAPSHOT, snapshot.id) | {"rules": held})
        return outcomes
