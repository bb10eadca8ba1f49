# SPDX-License-Identifier: Apache-2.0
"""A state machine is one table, and the only thing that may say how a status changes.

Illegal events raise `Conflict`. The writer is db/engine/moving.py: one UPDATE that compares and sets.
"""

from __future__ import annotations

from collections.abc import Iterable

from abaca import errors


class StateMachine:
    """The rows `(at, event, to)` of one resource. `at` is a status, or several; `none` is "does not exist".

    An operator may set those that are `resettable` by hand, at any status.
    """

    def __init__(
        self,
        name: str,
        *rows: tuple[str | tuple[str, ...], str, str],
        busy: Iterable[str] = (),
        resettable: Iterable[str] = (),
    ) -> None:
        self.name = name
        self.busy = frozenset(busy)
        self.resettable = tuple(resettable)
        self.rows: list[tuple[str, str, str]] = []
        for at, event, to in rows:
            self.rows += [(one, event, to) for one in ([at] if isinstance(at, str) else at)]
        self._to: dict[tuple[str, str], str] = {}
        for at, event, to in self.rows:
            if (at, event) in self._to:
                raise ValueError(f"{name}: two rows for {event} at {at}")
            self._to[at, event] = to

    @property
    def states(self) -> frozenset[str]:
        """Every status but `none` and `gone`."""
        return frozenset(s for at, _, to in self.rows for s in (at, to)) - {"none", "gone"}

    @property
    def events(self) -> frozenset[str]:
        """Every event."""
        return frozenset(event for _, event, _ in self.rows)

    @property
    def values(self) -> frozenset[str]:
        """Every status that its column may hold."""
        return self.states | frozenset(self.resettable)

    def sources(self, event: str) -> dict[str, str]:
        """From which status to which one `event` leads."""
        found = {at: to for at, e, to in self.rows if e == event}
        if not found:
            raise ValueError(f"{self.name} knows no event {event}")
        return found

    def after(self, status: str, event: str) -> str:
        """The status that follows. Raises `Conflict` when the event is not allowed at `status`."""
        try:
            return self._to[status, event]
        except KeyError:
            raise errors.Conflict(resource=self.name, id="", event=event, status=status) from None

    def allows(self, status: str, event: str) -> bool:
        """Whether `event` may happen at `status`."""
        return (status, event) in self._to
