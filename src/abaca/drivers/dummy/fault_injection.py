# SPDX-License-Identifier: Apache-2.0
"""Delays and failures that an operator orders of a back end, by method.

A delay is spent half before and half after the effect, so that a worker killed at a random moment dies on either side.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from abaca import errors
from abaca.drivers import contract

_ERRORS: dict[str, type[errors.BackendError]] = {
    error.__name__: error
    for error in (
        contract.Busy,
        contract.Full,
        contract.Gone,
        contract.Refused,
        contract.UnderWay,
        contract.Unreachable,
    )
}


class Failure(msgspec.Struct, frozen=True):
    """One ordered failure: `times` None is always; `late` raises after the effect, as when an answer gets lost."""

    method: str
    error: str
    times: int | None = None
    late: bool = False

    @property
    def key(self) -> str:
        return f"{self.method}:{self.error}:{'after' if self.late else 'before'}"


def parse_failures(orders: Iterable[str], methods: Sequence[str]) -> tuple[Failure, ...]:
    """`method:Error[:times][:after]` for each order. Raises ValueError that says what is wrong."""
    failures = []
    for order in orders:
        method, *rest = order.split(":")
        check_method(method, methods)
        late = bool(rest) and rest[-1] == "after"
        rest = rest[:-1] if late else rest
        if not rest or rest[0] not in _ERRORS:
            raise ValueError(f"'{order}' names no error: one of {', '.join(_ERRORS)} follows the method")
        if len(rest) > 2 or (len(rest) == 2 and not rest[1].isdigit()):
            raise ValueError(f"'{order}' is not method:Error, method:Error:times or method:Error:times:after")
        failures.append(Failure(method, rest[0], int(rest[1]) if len(rest) == 2 else None, late))
    return tuple(failures)


def check_method(method: str, methods: Sequence[str]) -> None:
    """Raises ValueError, with the nearest method, when there is none of that name."""
    if method not in methods:
        near = difflib.get_close_matches(method, methods, n=1)
        raise ValueError(f"no method '{method}'" + (f", the nearest is '{near[0]}'" if near else ""))


class FaultInjection:
    """What is ordered for one back end. `countdown(key, times)` says whether a limited failure is still due."""

    def __init__(
        self, delays_s: Mapping[str, float], failures: Sequence[Failure], countdown: Callable[[str, int], bool]
    ) -> None:
        self._delays_s = delays_s
        self._failures = failures
        self._countdown = countdown

    def before(self, method: str) -> None:
        if self._delays_s:
            self._spend(method)
        self._fail(method, late=False)

    def after(self, method: str) -> None:
        self._fail(method, late=True)
        if self._delays_s:
            self._spend(method)

    def _spend(self, method: str) -> None:
        delay_s = self._delays_s.get(method, self._delays_s.get("all", 0.0))
        if delay_s > 0:
            time.sleep(delay_s / 2)

    def _fail(self, method: str, *, late: bool) -> None:
        for failure in self._failures:
            if failure.method != method or failure.late != late:
                continue
            if failure.times is None or self._countdown(failure.key, failure.times):
                raise _ERRORS[failure.error](reason=f"{method} was ordered to fail")
