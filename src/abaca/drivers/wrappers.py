# SPDX-License-Identifier: Apache-2.0
"""What is the same for every driver - measuring, logging what is slow - written once, around any of them.

`wrap(driver, ...)` has the driver's interface and its capabilities: isinstance against every class that it inherits
still holds, and what it does not promise still is not there. An `Around` gets the method's name and the call, and
makes it; the first one given is the outermost. Trying again is no such thing: the journal does it, and shows it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, ClassVar

from abaca.drivers import contract
from abaca.drivers.contract import promises

log = logging.getLogger(__name__)

Call = Callable[[], Any]
Around = Callable[[str, Call], Any]


def wrap(driver: contract.Driver, *arounds: Around) -> contract.Driver:
    """The driver with `arounds` about each of its methods."""
    cls = type(driver)
    made = promises.of(cls)
    body: dict[str, Any] = {name: _forward(name) for name in promises.methods(cls)}
    for promise in made:
        for name in vars(promise).get("__annotations__", {}):
            if hasattr(driver, name):
                body.setdefault(name, _look(name))
    body |= {"__module__": __name__, "Options": cls.Options, "__doc__": cls.__doc__}
    wrapped = type(f"Wrapped{cls.__name__}", (Wrapped, *made), body)
    result = wrapped(driver, arounds)
    return result if isinstance(result, contract.Driver) else driver


class Wrapped:
    """A driver inside arounds; what is no promise (a driver's own extras) is reached without them."""

    # Named here so that a class made by `wrap` never shadows a driver's attribute by accident.
    inner: contract.Driver
    arounds: tuple[Around, ...]
    _own: ClassVar[frozenset[str]] = frozenset({"inner", "arounds"})

    def __init__(self, inner: contract.Driver, arounds: tuple[Around, ...]) -> None:
        self.inner = inner
        self.arounds = arounds
        self.backend = inner.backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def _forward(name: str) -> Callable[..., Any]:
    def method(self: Wrapped, *args: Any, **kwargs: Any) -> Any:
        target = getattr(self.inner, name)

        def call() -> Any:
            return target(*args, **kwargs)

        for around in reversed(self.arounds):
            call = _bind(around, name, call)
        return call()

    method.__name__ = name
    return method


def _look(name: str) -> property:
    """The driver's attribute as it is now: some follow the options, which may change."""
    return property(lambda self: getattr(self.inner, name))


def _bind(around: Around, name: str, call: Call) -> Call:
    return lambda: around(name, call)


def measuring(
    seen: Callable[[str, float, BaseException | None], object], clock: Callable[[], float] = time.perf_counter
) -> Around:
    """Tells `seen` of each call: the method, how many seconds it took, and its error; `UnderWay` is none."""

    def around(name: str, call: Call) -> Any:
        started = clock()
        try:
            result = call()
        except contract.UnderWay:
            seen(name, clock() - started, None)
            raise
        except BaseException as error:
            seen(name, clock() - started, error)
            raise
        seen(name, clock() - started, None)
        return result

    return around


def logging_slow(backend: str, threshold_s: float = 5.0) -> Around:
    """Logs calls that took longer than `threshold_s`."""

    def seen(name: str, took_s: float, error: BaseException | None) -> None:
        if took_s > threshold_s:
            end = f"raised {type(error).__name__}" if error else "returned"
            log.warning("backend=%s %s took %.1f s and %s", backend, name, took_s, end)

    return measuring(seen)
