# SPDX-License-Identifier: Apache-2.0
"""What ensuring a back end's shares has found, counted; with examples, so that its size does not grow with theirs."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

# How many of those skipped, and of those failed, are named.
NAMED = 50
# How many of an operation are listed in rows of their own.
LISTED = 10_000
WHY_LENGTH = 200

Kind = Literal["unchanged", "updated", "repaired", "skipped", "failed", "unknown"]


class Named(msgspec.Struct, frozen=True):
    """One share instance, and why it is named."""

    share_id: str
    instance_id: str
    why: str


class Findings(msgspec.Struct):
    """How many share instances were found so.

    `updated`: its users see something new, such as an export location. `repaired`: something on the back end was not
    so, or its access rules are applied again. `skipped`: it was busy or broken. `failed`: the back end cannot serve
    it, and it is in error; or it could not be ensured, and is as it was. `unknown`: the back end has it, and nobody
    here knows it, which only reconciling finds. `listed`: how many have a row of their own.
    """

    unchanged: int = 0
    updated: int = 0
    repaired: int = 0
    skipped: int = 0
    failed: int = 0
    unknown: int = 0
    listed: int = 0
    some_skipped: list[Named] = msgspec.field(default_factory=list)
    some_failed: list[Named] = msgspec.field(default_factory=list)

    @property
    def done(self) -> int:
        """How many were looked at."""
        return self.unchanged + self.updated + self.repaired + self.skipped + self.failed

    def more_than(self, earlier: Findings) -> dict[str, int]:
        """How many of each kind have come since; kinds of which there are none are left out."""
        more = {kind: getattr(self, kind) - getattr(earlier, kind) for kind in get_args(Kind)}
        return {kind: number for kind, number in more.items() if number}

    def count(self, kind: Kind, number: int = 1) -> None:
        """So many more of a kind that needs no reason."""
        setattr(self, kind, getattr(self, kind) + number)

    def skip(self, share_id: str, instance_id: str, why: str) -> None:
        """One that was left as it is."""
        self.skipped += 1
        _name(self.some_skipped, share_id, instance_id, why)

    def fail(self, share_id: str, instance_id: str, why: str) -> None:
        """One that the back end cannot serve."""
        self.failed += 1
        _name(self.some_failed, share_id, instance_id, why)


def _name(some: list[Named], share_id: str, instance_id: str, why: str) -> None:
    if len(some) < NAMED:
        some.append(Named(share_id, instance_id, why[:WHY_LENGTH]))
