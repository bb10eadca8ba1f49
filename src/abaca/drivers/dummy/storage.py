# SPDX-License-Identifier: Apache-2.0
"""What all parts of the dummy driver stand on: the ledger, the script, and how instances are held and exported."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from abaca.drivers import contract
from abaca.drivers.dummy.fault_injection import Script
from abaca.drivers.dummy.state_file import Books, Entry, Ledger

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Stage")

INSTANCE, SNAPSHOT = "instance", "snapshot"


def rehearsed(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """The method with the delays and failures that the script has for it."""
    name = method.__name__

    @functools.wraps(method)
    def played(self: S, *args: P.args, **kwargs: P.kwargs) -> R:
        self.script.before(name)
        result = method(self, *args, **kwargs)
        self.script.after(name)
        return result

    return cast("Callable[Concatenate[S, P], R]", played)


class Stage:
    """Pools of any size without storage behind them."""

    backend: contract.Backend
    options: Any
    ledger: Ledger
    script: Script

    def pool_names(self) -> list[str]:
        return [f"pool{number}" for number in range(1, self.options.pool_count + 1)]

    def limit_gib(self) -> float:
        """How much may be claimed in a pool."""
        ratio = self.backend.max_over_subscription_ratio if self.options.thin_provisioning else 1.0
        return float(self.options.pool_size_gib) * ratio

    def claim(self, books: Books, pool: str, gib: int) -> None:
        """Raises `Refused` for an unknown pool, `Full` when it cannot take so much more."""
        if pool not in self.pool_names():
            raise contract.Refused(reason=f"no pool {pool}")
        if gib > 0 and books.allocated_gib(pool) + gib > self.limit_gib():
            raise contract.Full(reason=f"pool {pool} cannot take {gib} GiB more")
        books.claim(pool, gib)

    def hold(self, books: Books, instance: contract.ShareInstance, **more: Any) -> Entry:
        """The instance's entry, made now when there is none."""
        entry = books.get(INSTANCE, instance.id)
        if entry is not None:
            return entry
        self.claim(books, instance.pool, instance.size_gib)
        entry = {
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
        books.put(INSTANCE, instance.id, entry)
        return entry

    def release(self, books: Books, instance_id: str) -> Entry | None:
        """Forget the instance and its claim; what it was, None when it was absent."""
        entry = books.get(INSTANCE, instance_id)
        if entry is not None:
            books.drop(INSTANCE, instance_id)
            books.claim(entry["pool"], -entry["size_gib"])
        return entry

    def exports(self, entry: Entry, server: contract.ShareServer | None) -> list[contract.Export]:
        """One export location an address, the first preferred, and those for administrators."""
        addresses = server.details.get("addresses", "").split(",") if server else list(self.options.export_ips)
        usual = [
            contract.Export(path=f"{bracketed(address)}:/dummy/{entry['mount']}", preferred=number == 0)
            for number, address in enumerate(filter(None, addresses))
        ]
        return usual + [
            contract.Export(path=f"{bracketed(address)}:/dummy/{entry['mount']}", is_admin_only=True)
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
