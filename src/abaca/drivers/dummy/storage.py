# SPDX-License-Identifier: Apache-2.0
"""What all parts of the dummy driver stand on: state file, injected faults, how instances are held and exported."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from abaca.drivers import contract
from abaca.drivers.dummy.fault_injection import FaultInjection
from abaca.drivers.dummy.state_file import Record, Records, StateFile

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Storage")

INSTANCE, SNAPSHOT = "instance", "snapshot"
CONTENT = ("used_gib", "content")  # What of a record users have written.
NOT_FENCED = ("ensure", "ensure_share", "inspect")  # These look at each instance by itself.


def with_faults(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """The method with the delays and failures that were ordered for it, which refuses to come too late."""
    name = method.__name__

    @functools.wraps(method)
    def faulty(self: S, *args: P.args, **kwargs: P.kwargs) -> R:
        self.faults.before(name)
        with self.state_file.expecting(self.fenced(name, args)):
            result = method(self, *args, **kwargs)
        self.faults.after(name)
        return result

    return cast("Callable[Concatenate[S, P], R]", faulty)


class Storage:
    """Pools of any size without storage behind them."""

    backend: contract.Backend
    options: Any
    state_file: StateFile
    faults: FaultInjection

    def pool_names(self) -> list[str]:
        return [f"pool{number}" for number in range(1, self.options.pool_count + 1)]

    def fenced(self, method: str, given: object) -> dict[str, int]:
        """The instances that a call with these arguments must not come too late for, with its generations."""
        if not isinstance(self, contract.Fences) or method in NOT_FENCED:
            return {}
        return contract.generations(given)

    def limit_gib(self) -> float:
        """How much may be claimed in a pool."""
        ratio = self.backend.max_over_subscription_ratio if self.options.thin_provisioning else 1.0
        return float(self.options.pool_size_gib) * ratio

    def claim(self, records: Records, pool: str, gib: int) -> None:
        """Raises `Refused` for an unknown pool, `Full` when it cannot take so much more."""
        if pool not in self.pool_names():
            raise contract.Refused(reason=f"no pool {pool}")
        if gib > 0 and records.allocated_gib(pool) + gib > self.limit_gib():
            raise contract.Full(reason=f"pool {pool} cannot take {gib} GiB more")
        records.claim(pool, gib)

    def hold(self, records: Records, instance: contract.ShareInstance, **more: Any) -> Record:
        """The instance's record, made now when there is none."""
        record = records.get(INSTANCE, instance.id)
        if record is not None:
            return record
        self.claim(records, instance.pool, instance.size_gib)
        record = {
            "share_id": instance.share_id,
            "project_id": instance.project_id,
            "protocol": instance.protocol,
            "pool": instance.pool,
            "size_gib": instance.size_gib,
            "used_gib": 0,
            "content": "",
            "rules": [],
            "mount": instance.mount_point_name or instance.id,
            "server": instance.server.id if instance.server else None,
            "metadata": dict(instance.share_metadata),
        } | more
        records.put(INSTANCE, instance.id, record)
        return record

    def release(self, records: Records, instance_id: str) -> Record | None:
        """Forget the instance and its claim; what it was, None when it was absent."""
        record = records.get(INSTANCE, instance_id)
        if record is not None:
            records.drop(INSTANCE, instance_id)
            records.claim(record["pool"], -record["size_gib"])
        return record

    def hold_snapshot(self, records: Records, snapshot: contract.Snapshot) -> None:
        """Take it unless it is held. Raises `Gone`."""
        if records.get(SNAPSHOT, snapshot.id) is None:
            source = records.need(INSTANCE, snapshot.instance.id)
            kept = {key: source[key] for key in ("size_gib", *CONTENT)}
            records.put(SNAPSHOT, snapshot.id, {"instance_id": snapshot.instance.id, "rules": [], **kept})

    def hold_copy(self, records: Records, instance: contract.ShareInstance, snapshot_id: str) -> Record:
        """The instance's record, made from the snapshot unless it is held. Raises `Gone`."""
        held = records.get(INSTANCE, instance.id)
        if held is not None:
            return held
        taken = records.need(SNAPSHOT, snapshot_id)
        return self.hold(records, instance, content=taken["content"], used_gib=taken["used_gib"])

    def bring_back(self, records: Records, snapshot: contract.Snapshot, **more: Any) -> None:
        """Make the instance's content the snapshot's. Raises `Gone`."""
        taken = records.need(SNAPSHOT, snapshot.id)
        record = records.need(INSTANCE, snapshot.instance.id)
        content = {key: taken[key] for key in CONTENT}
        records.put(INSTANCE, snapshot.instance.id, record | content | more)

    def begin(self, records: Records, call: str, id: str, **more: Any) -> None:
        """Remember that the long call is under way, unless it is."""
        if records.get(call, id) is None:
            records.put(call, id, {"percent": 0} | more)

    def advance(self, records: Records, call: str, id: str) -> contract.Progress:
        """One look further. Raises `Gone` when the call is not under way."""
        record = records.need(call, id)
        record["percent"] = min(100, record["percent"] + self.options.progress_percent)
        records.put(call, id, record)
        return contract.Progress(percent=record["percent"], details=f"{call.replace('_', ' ')} of {id}")

    def finish(self, records: Records, call: str, id: str) -> Record | None:
        """The record of the long call, which is over; None when it was over before. Raises `Busy` too early."""
        record = records.get(call, id)
        if record is not None and record["percent"] < 100:
            raise contract.Busy(reason=f"the {call.replace('_', ' ')} of {id} is at {record['percent']} percent")
        records.drop(call, id)
        return record

    def created(self, record: Record, server: contract.ShareServer | None) -> contract.Created:
        """What is told of a share that was made."""
        return contract.Created(exports=self.exports(record, server), driver_data=self.options.driver_data or None)

    def exports(self, record: Record, server: contract.ShareServer | None) -> list[contract.Export]:
        """One export location an address, the first preferred, and those for administrators."""
        addresses = server.details.get("addresses", "").split(",") if server else list(self.options.export_ips)
        usual = [
            contract.Export(path=f"{bracketed(address)}:/dummy/{record['mount']}", preferred=number == 0)
            for number, address in enumerate(filter(None, addresses))
        ]
        return usual + [
            contract.Export(path=f"{bracketed(address)}:/dummy/{record['mount']}", is_admin_only=True)
            for address in self.options.admin_export_ips
        ]

    def admit(self, rules: Sequence[contract.AccessRule]) -> tuple[list[list[str]], dict[str, contract.AccessOutcome]]:
        """The rules as held, and what became of those that need saying."""
        held, outcomes = [], {}
        for rule in rules:
            if rule.type not in self.options.access_types:
                outcomes[rule.id] = contract.AccessOutcome(state="error", reason=f"no access by {rule.type} here")
            elif rule.type == "ip" and not is_network(rule.to):
                outcomes[rule.id] = contract.AccessOutcome(state="error", reason=f"{rule.to} is no address or network")
            else:
                held.append([rule.type, rule.to, rule.level])
                if rule.type == "cephx":
                    outcomes[rule.id] = contract.AccessOutcome(key=f"key-of-{rule.to}")
        return sorted(held), outcomes


def snapshot_outcome(id: str) -> contract.SnapshotOutcome:
    """What is told of a snapshot that was taken."""
    return contract.SnapshotOutcome(provider_location=f"dummy/{id}")


def bracketed(address: str) -> str:
    """The address as it stands in an export location."""
    return f"[{address}]" if ":" in address else address


def is_network(text: str) -> bool:
    """Whether it is an IPv4 or IPv6 address or network."""
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True
