# SPDX-License-Identifier: Apache-2.0
"""Every capability without any storage: the back end to rehearse with.

It remembers exactly what it was told to hold, in a file that survives and is shared by all workers of the back end, and
takes the time and fails the way its options say.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from abaca.drivers import contract
from abaca.drivers.contract import promises
from abaca.drivers.dummy import (
    backups,
    certificates,
    copying,
    fault_injection,
    groups,
    managing,
    migrations,
    replicas,
    share_servers,
    shares,
    snapshots,
    state_file,
)
from abaca.drivers.dummy.options import DummyOptions
from abaca.drivers.dummy.storage import INSTANCE, with_faults

# Kinds of records that are about calls, and not held for anybody.
APART = ("failure", state_file.SEEN)


class DummyParts(
    backups.Backups,
    certificates.Certificates,
    copying.Copying,
    groups.Groups,
    managing.Managing,
    migrations.Migrations,
    replicas.Replicas,
    share_servers.ShareServers,
    shares.Shares,
    snapshots.Snapshots,
    contract.Driver,
):
    """Every capability without storage but a way to ensure shares, which there are two of, and fencing."""

    Options = DummyOptions

    vendor: ClassVar[str] = "Abaca"
    protocols: tuple[str, ...] = ("NFS", "CIFS", "CEPHFS", "GLUSTERFS")
    announces: Mapping[str, Any] = {
        "mount_point_name_support": True,
        "encryption_support": ["share", "share_server"],
        "qos": True,
        "dedupe": True,
    }
    changeable: ClassVar[frozenset[str]] = frozenset(
        {
            "access_types",
            "admin_export_ips",
            "delays",
            "driver_data",
            "ensured_metadata",
            "export_ips",
            "failures",
            "progress_percent",
            "revision",
        }
    )

    def __init__(self, backend: contract.Backend, options: DummyOptions) -> None:
        super().__init__(backend, options)
        self.protocols = options.protocols
        self.replication_type = options.replication_type
        self.state_file = state_file.StateFile(backend.state_dir / f"{backend.name}.sqlite")
        self.change(options)

    def change(self, options: DummyOptions) -> None:
        super().change(options)
        versions = {ipaddress.ip_address(address).version for address in options.export_ips}
        # share servers have whatever addresses their subnets have
        self.ip_versions = (4, 6) if self.backend.driver_handles_share_servers else tuple(sorted(versions))
        failures = fault_injection.parse_failures(options.failures, promises.methods(type(self)))
        self.faults = fault_injection.FaultInjection(options.delays, failures, self._is_due)

    def _is_due(self, key: str, times: int) -> bool:
        with self.state_file.change() as records:
            failed = (records.get("failure", key) or {"times": 0})["times"]
            if failed < times:
                records.put("failure", key, {"times": failed + 1})
            return bool(failed < times)

    def contents(self) -> dict[str, dict[str, state_file.Record]]:
        """Everything held, by kind and id: what a test compares with the database."""
        with self.state_file.change() as records:
            return {kind: records.all(kind) for kind in records.kinds() if kind not in APART}

    def use(self, instance_id: str, *, used_gib: int, content: str = "") -> None:
        """Pretend that users have written so much. Raises `Gone`."""
        with self.state_file.change() as records:
            record = records.need(INSTANCE, instance_id)
            records.put(INSTANCE, instance_id, record | {"used_gib": used_gib, "content": content})

    def start(self) -> None:
        self.state_file.open()
        self.faults.before("start")
        self.faults.after("start")

    def stop(self) -> None:
        self.state_file.close()

    @with_faults
    def backend_info(self) -> dict[str, str]:
        return {
            "revision": self.options.revision,
            "export_ips": ",".join((*self.options.export_ips, *self.options.admin_export_ips)),
        }

    @with_faults
    def pools(self) -> list[contract.PoolStats]:
        size_gib = float(self.options.pool_size_gib)
        with self.state_file.change() as records:
            allocated = {name: float(records.allocated_gib(name)) for name in self.pool_names()}
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


class Dummy(DummyParts, contract.Ensures, contract.Fences):
    """Every capability without storage, with delays and failures to order."""

    @with_faults
    def fence(self, instance: contract.ShareInstance) -> None:
        with self.state_file.change():
            """The generation is kept."""

    @with_faults
    def ensure(self, instances: Sequence[contract.ShareInstance]) -> dict[str, contract.EnsureOutcome]:
        return self.looked_at(instances, mends=True)
