# SPDX-License-Identifier: Apache-2.0
"""Making shares true again: after a restart, or whenever an administrator asks for it."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from abaca.drivers.contract.shares import Export, ShareInstance
from abaca.drivers.contract.values import DriverData, Value


class EnsureOutcome(Value, frozen=True, kw_only=True):
    """What ensuring found for one instance; None means unchanged.

    `repairs` says in a few words each what was not so on the back end, and now is. With `is_failed` it could not be
    ensured for `reason`, and stays as it was. With `is_superseded` something newer has been done with it, and it was
    left alone (fencing.py).
    """

    exports: Sequence[Export] | None = None
    status: Literal["available", "error"] | None = None
    reason: str | None = None
    share_metadata: Mapping[str, str] | None = None
    reapply_access_rules: bool = False
    repairs: Sequence[str] = ()
    # Of its snapshots, by id: those whose exports are others than `ShareInstance.snapshot_exports` said.
    snapshot_exports: Mapping[str, Sequence[Export]] = msgspec.field(default_factory=dict)
    driver_data: DriverData | None = None
    is_failed: bool = False
    is_superseded: bool = False


class Ensures(abc.ABC):
    """The back end can make many shares true again in one call."""

    @abc.abstractmethod
    def ensure(self, instances: Sequence[ShareInstance]) -> dict[str, EnsureOutcome]:
        """Repair what is missing; an instance left out of the answer is unchanged. Raises `Unreachable`.

        The size of one that is not `is_held` is left alone: somebody may be changing it. One whose rules differ from
        `instance.rules`, where these are told, is answered with `reapply_access_rules`; they are not set here.
        """


class EnsuresEach(abc.ABC):
    """The back end makes shares true again one by one: for those that have no way to do many in one call."""

    @abc.abstractmethod
    def ensure_share(self, instance: ShareInstance) -> EnsureOutcome | None:
        """As `Ensures.ensure` for one; None when it is unchanged. Called from several threads at once.

        Raises `Gone` when the back end does not have it. Whatever else it raises fails this one alone.
        """


class Enumerates(abc.ABC):
    """The back end can say which instances it has, those that nobody asked for included."""

    @abc.abstractmethod
    def instances_after(self, after: str, most: int) -> list[str]:
        """The ids of up to `most` instances, in order, of those that follow `after`. Raises `Unreachable`."""


class Inspects(abc.ABC):
    """What ensuring would do can be seen before it is done."""

    @abc.abstractmethod
    def inspect(self, instances: Sequence[ShareInstance]) -> dict[str, EnsureOutcome]:
        """What `ensure` would answer now, with nothing changed at all. Raises `Unreachable`."""
