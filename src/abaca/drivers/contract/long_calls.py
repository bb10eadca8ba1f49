# SPDX-License-Identifier: Apache-2.0
"""Calls that would hold a thread for too long: each is a start, looks, an end and a cancel, of one request.

The request is a frozen value; all four methods get the same one, and the caller keeps it. A worker may die between any
two calls, and inside each: another one goes on with the call that did not return, by the same request. For a long call
`clone` of the request `Clone`:

- `start_clone(request) -> None` begins it on the back end and returns. Repeated, it succeeds and begins nothing twice,
  whether the work still goes on or is done. After a cancel it begins anew.
- `look_at_clone(request) -> Progress` says how far it is. It may push the work on, and may be called as often as one
  likes. The end follows when it says 100 percent. It raises `Gone` when it knows that nothing of the kind is
  under way, and `Refused` when the back end has given up: then the caller cancels.
- `end_clone(request)` makes the outcome what users see, and returns it. Repeated, it returns the same. It raises `Busy`
  as long as the work goes on.
- `cancel_clone(request) -> None` takes back whatever the start and a failed end have left. Nothing to take back is
  success. It is never called once the end has returned.

A back end that does the work at once inherits the class `...AtOnce` of the promise where there is one, and writes a
single method.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from abaca.drivers.contract.values import Value

VERBS = ("start", "look_at", "end", "cancel")


class Progress(Value, frozen=True, kw_only=True):
    """How far a long call is: whole percent, 100 when only its end is left, and what is going on in a few words."""

    percent: Annotated[int, msgspec.Meta(ge=0, le=100)]
    details: str = ""

    @property
    def is_done(self) -> bool:
        return self.percent >= 100


DONE = Progress(percent=100)


class LongCall(msgspec.Struct, frozen=True):
    """The four methods of one long call of a driver, each taking the request."""

    start: Callable[[Any], None]
    look_at: Callable[[Any], Progress]
    end: Callable[[Any], Any]
    cancel: Callable[[Any], None]


def long_call(driver: object, name: str) -> LongCall:
    """The long call `name` of a driver that promises it, such as `clone`. Raises AttributeError for another driver."""
    return LongCall(*(getattr(driver, f"{verb}_{name}") for verb in VERBS))


def long_call_names(promise: type) -> list[str]:
    """The names of the long calls that a class promises itself, sorted."""
    own = {name for name, value in vars(promise).items() if inspect.isfunction(value)}
    names = {name.removeprefix("look_at_") for name in own if name.startswith("look_at_")}
    return sorted(names)
