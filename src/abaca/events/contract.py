# SPDX-License-Identifier: Apache-2.0
"""What a target of events promises."""

from __future__ import annotations

from typing import Protocol

from abaca import errors
from abaca.domain.administration.events import Event


class Away(errors.AbacaError):
    """{reason}"""

    code = "EventTargetAway"


class Refused(errors.AbacaError):
    """{reason}"""

    code = "EventRefused"


class Target(Protocol):
    """Takes events, each at least once and those of one resource in their order."""

    # under which it is known in the database, in figures and to operators
    name: str
    # how many resources' events it takes at once
    concurrency: int
    # within which a `send` has ended
    timeout_s: float

    def send(self, event: Event) -> None:
        """Send one event; returns when the target has it.

        Raises `Away` when the target cannot take any event now, `Refused` when it does not take this one.
        """

    def close(self) -> None:
        """Give the connections to the target back."""
