# SPDX-License-Identifier: Apache-2.0
"""Shares on a back end: what names one, and what most back ends can do with it."""

from __future__ import annotations

import abc
import datetime
from collections.abc import Mapping, Sequence

import msgspec

from abaca.drivers.contract.values import Value


class Export(Value, frozen=True, kw_only=True):
    """A place where a share can be mounted from: `path` as clients write it, e.g. `10.0.0.5:/shares/x`."""

    path: str
    is_admin_only: bool = False
    preferred: bool = False


class ShareServer(Value, frozen=True, kw_only=True):
    """Who serves an instance when the driver handles share servers; `details` is what set-up returned."""

    id: str
    details: Mapping[str, str] = msgspec.field(default_factory=dict)


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
    # False: somebody else may be changing it, and its size, at this moment
    is_held: bool = True


class Resizes(abc.ABC):
    """Shares grow and shrink while they are in use."""

    @abc.abstractmethod
    def extend(self, instance: ShareInstance, new_size_gib: int) -> None:
        """Grow to `new_size_gib`. Raises `Full`."""

    @abc.abstractmethod
    def shrink(self, instance: ShareInstance, new_size_gib: int) -> None:
        """Shrink to `new_size_gib`; raises `Refused`, with nothing changed, when more than that is in use."""


class Managed(Value, frozen=True, kw_only=True):
    """What was found where a share is taken over."""

    size_gib: int
    exports: Sequence[Export] = ()


class Manages(abc.ABC):
    """A share that exists on the back end can be taken over, and given up again without harm."""

    @abc.abstractmethod
    def manage(self, instance: ShareInstance, options: Mapping[str, str]) -> Managed:
        """Take over what `instance.exports` names.

        Raises `Gone` when nothing is there, `Refused` when it does not fit.
        """

    @abc.abstractmethod
    def unmanage(self, instance: ShareInstance) -> None:
        """Forget it; its data and its export stay."""


class Usage(Value, frozen=True, kw_only=True):
    """What a share really takes, in GiB, and when that was seen."""

    used_gib: float
    gathered_at: datetime.datetime


class MeasuresUsage(abc.ABC):
    """The back end knows how much of a share is used."""

    @abc.abstractmethod
    def measure_usage(self, instances: Sequence[ShareInstance]) -> dict[str, Usage]:
        """By instance id; one that is not known is left out. Raises `Unreachable`."""


class AcceptsTransfers(abc.ABC):
    """The back end must know when a share passes to another project."""

    @abc.abstractmethod
    def accept_transfer(self, instance: ShareInstance, project_id: str) -> None:
        """The instance belongs to `project_id` from now on. Raises `Refused`."""


class UpdatesMetadata(abc.ABC):
    """Metadata of a share reaches the back end."""

    @abc.abstractmethod
    def update_metadata(self, instance: ShareInstance, metadata: Mapping[str, str]) -> None:
        """Make `metadata`, the whole set of keys meant for the driver, true. Raises `Refused`."""
