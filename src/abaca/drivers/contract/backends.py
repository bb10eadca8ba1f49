# SPDX-License-Identifier: Apache-2.0
"""The back end itself: its settings, its pools, and the least that a driver does."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from abaca.domain.networks.share_servers import Limits
from abaca.drivers.contract.access_rules import AccessOutcome, AccessRule
from abaca.drivers.contract.shares import Created, ShareInstance
from abaca.drivers.contract.values import Value


class Backend(Value, frozen=True, kw_only=True):
    """The settings every back end has, whatever its driver. `name` is its section, `host` is `host@backend`.

    `state_dir` belongs to this back end alone.
    """

    name: str
    host: str
    share_backend_name: str
    state_dir: Path

    availability_zone: str = "nova"
    driver_handles_share_servers: bool = False
    reserved_percentage: int = 0
    reserved_snapshot_percentage: int = 0
    reserved_share_extend_percentage: int = 0
    max_over_subscription_ratio: float = 20.0
    server_limits: Limits = Limits()


class PoolStats(Value, frozen=True, kw_only=True):
    """A pool as the back end sees it now; sizes in GiB, None when the back end cannot tell.

    `capabilities` holds what scheduling compares beyond what the driver's base classes already announce.
    """

    name: str
    total_gib: float | None
    free_gib: float | None
    allocated_gib: float | None = None
    capabilities: Mapping[str, Any] = msgspec.field(default_factory=dict)


DEVICES = "devices"
"""The capability by which a pool tells of its devices: a list of `DeviceStats`, as plain values."""


class DeviceStats(Value, frozen=True, kw_only=True):
    """A device that a pool is made of, and the machine that has it; sizes in GiB."""

    node: str
    device: str
    total_gib: float
    free_gib: float
    is_online: bool


class Driver(abc.ABC):
    """A back end. Constructing it only stores; `start` touches the world."""

    class Options(msgspec.Struct, frozen=True, kw_only=True):
        """The driver's own settings: typed fields, each with a default and `msgspec.Meta(description=...)`."""

    vendor: ClassVar[str] = "Open Source"
    version: ClassVar[str] = "1.0"
    # A driver that learns these from its options sets them when constructed: what is announced beyond, or against, what
    # the base classes say, under the names that share types ask for; the protocols that it serves, and the versions of
    # the addresses that clients may come from.
    announces: Mapping[str, Any] = {}
    protocols: tuple[str, ...] = ("NFS",)
    ip_versions: tuple[int, ...] = (4,)
    # Options that may change while it serves; the others wait for the next start.
    changeable: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, backend: Backend, options: Any) -> None:
        self.backend = backend
        self.options = options

    def change(self, options: Any) -> None:
        """Serve by these options, of which only `changeable` ones differ; calls under way end by either."""
        self.options = options

    @abc.abstractmethod
    def start(self) -> None:
        """Make the back end ready; run again after every start of the worker.

        Raises `Unreachable` when it may come later (the worker tries again), `Refused` with the mend when it will not.
        """

    @abc.abstractmethod
    def stop(self) -> None:
        """Let go of connections and threads. What clients use stays up."""

    @abc.abstractmethod
    def pools(self) -> list[PoolStats]:
        """The pools as they are now. Raises `Unreachable`."""

    @abc.abstractmethod
    def create(self, instance: ShareInstance) -> Created:
        """Make the share and export it to nobody yet; a repeated call leaves content and rules as they are.

        Raises `Full`, `Refused`, `Busy`, `Unreachable`.
        """

    @abc.abstractmethod
    def delete(self, instance: ShareInstance) -> None:
        """Take away the export and the data of exactly this instance. Absent is success. Raises `Busy`, `Refused`."""

    @abc.abstractmethod
    def set_access(self, instance: ShareInstance, rules: Sequence[AccessRule]) -> dict[str, AccessOutcome]:
        """Make `rules` the whole set of who may reach the instance; mounted clients see it at once.

        A rule left out of the answer is active. A rule of a type the back end cannot honour is answered `error`; it
        does not fail the others. Raises `Gone`, `Busy`, `Unreachable`.
        """

    def examine(self) -> list[str]:
        """What is missing before it can serve, a sentence with the mend each; asked of a driver that is not started.

        It logs in where the driver will, looks, and changes nothing. What stands in its way it says; it raises nothing.
        """
        return []

    def backend_info(self) -> dict[str, str]:
        """What, when it differs from the last start, makes the back end's shares be ensured again."""
        return {}
