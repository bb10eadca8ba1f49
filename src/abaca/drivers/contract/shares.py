# SPDX-License-Identifier: Apache-2.0
"""Shares on a back end: what names one, and what most back ends can do with it."""

from __future__ import annotations

import abc
import datetime
from collections.abc import Mapping, Sequence

import msgspec

from abaca.drivers.contract.access_rules import AccessRule
from abaca.drivers.contract.values import DriverData, Value


class Export(Value, frozen=True, kw_only=True):
    """A place where a share can be mounted from: `path` as clients write it, e.g. `10.0.0.5:/shares/x`."""

    path: str
    is_admin_only: bool = False
    preferred: bool = False


class ShareServer(Value, frozen=True, kw_only=True):
    """Who serves an instance when the driver handles share servers; `details` is what set-up returned."""

    id: str
    details: Mapping[str, str] = msgspec.field(default_factory=dict)
    # In which order calls that change it were begun (fencing.py); None: this one changes nothing, or cannot tell.
    generation: int | None = None


class ShareInstance(Value, frozen=True, kw_only=True):
    """One copy of a share on one back end. `id` is what names it there; `pool` is the pool's name alone."""

    id: str
    share_id: str
    project_id: str
    size_gib: int
    protocol: str
    pool: str
    mount_point_name: str | None = None
    share_metadata: Mapping[str, str] = msgspec.field(default_factory=dict)
    extra_specs: Mapping[str, str] = msgspec.field(default_factory=dict)
    exports: Sequence[Export] = ()
    server: ShareServer | None = None
    # The exports of its snapshots that have any, by snapshot id, as last known; told where shares are ensured.
    snapshot_exports: Mapping[str, Sequence[Export]] = msgspec.field(default_factory=dict)
    # Which key of the key manager its data is encrypted with; None for none of the user's.
    encryption_key_ref: str | None = None
    # The specs of its quality-of-service type, such as {"max_iops": "500"}; None where it has no such type.
    qos_specs: Mapping[str, str] | None = None
    driver_data: DriverData = msgspec.field(default_factory=dict)
    # Who shall reach it, told where shares are ensured and inspected; None: that is on its way, and not compared.
    rules: Sequence[AccessRule] | None = None
    # False: somebody else may be changing it, and its size, at this moment
    is_held: bool = True
    # In which order calls that change it were begun, for those that can tell (fencing.py); None: this one cannot tell.
    generation: int | None = None


class Created(Value, frozen=True, kw_only=True):
    """What came out of making a share: where it can be mounted from, the preferred place first."""

    exports: Sequence[Export]
    driver_data: DriverData | None = None


class Resizes(abc.ABC):
    """Shares grow and shrink while they are in use."""

    @abc.abstractmethod
    def extend(self, instance: ShareInstance, new_size_gib: int) -> None:
        """Grow to `new_size_gib`; that size already is success. Raises `Full`, `Gone`."""

    @abc.abstractmethod
    def shrink(self, instance: ShareInstance, new_size_gib: int) -> None:
        """Shrink to `new_size_gib`; raises `Refused`, with nothing changed, when more GiB than that are in use."""


class Managed(Value, frozen=True, kw_only=True):
    """What was found where a share is taken over."""

    size_gib: int
    exports: Sequence[Export] = ()
    driver_data: DriverData | None = None


class Manages(abc.ABC):
    """A share that exists on the back end can be taken over, and given up again without harm."""

    @abc.abstractmethod
    def manage(self, instance: ShareInstance, options: Mapping[str, str]) -> Managed:
        """Take over what `instance.exports` names.

        Raises `Gone` when nothing is there, `Refused` when it does not fit.
        """

    @abc.abstractmethod
    def unmanage(self, instance: ShareInstance) -> None:
        """Forget it; its data and its export stay. Absent is success."""


class Usage(Value, frozen=True, kw_only=True):
    """What a share really takes, in GiB, and when that was seen."""

    used_gib: float
    gathered_at: datetime.datetime


class MeasuresUsage(abc.ABC):
    """The back end knows how much of a share is used."""

    @abc.abstractmethod
    def measure_usage(self, instances: Sequence[ShareInstance]) -> dict[str, Usage]:
        """In GiB by instance id; one that is not known is left out. Changes nothing. Raises `Unreachable`."""


class AcceptsTransfers(abc.ABC):
    """The back end must know when a share passes to another project."""

    @abc.abstractmethod
    def accept_transfer(self, instance: ShareInstance, project_id: str) -> None:
        """The instance belongs to `project_id` from now on. Raises `Gone`, `Refused`."""


class UpdatesMetadata(abc.ABC):
    """Metadata of a share reaches the back end."""

    @abc.abstractmethod
    def update_metadata(self, instance: ShareInstance, metadata: Mapping[str, str]) -> None:
        """Make `metadata`, the whole set of keys meant for the driver, true. Raises `Gone`, `Refused`."""
