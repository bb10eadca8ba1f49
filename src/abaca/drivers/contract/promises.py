# SPDX-License-Identifier: Apache-2.0
"""Which promises a driver class makes: the abstract classes it inherits, and their methods."""

from __future__ import annotations

import inspect

from abaca.drivers import contract


def every() -> tuple[type, ...]:
    """All promises that there are, those of a whole driver included."""
    return tuple(value for value in vars(contract).values() if inspect.isclass(value) and inspect.isabstract(value))


def of(driver_class: type) -> tuple[type, ...]:
    """The abstract classes among its ancestors, each a promise; `contract.Driver` is always one of them."""
    return tuple(c for c in driver_class.__mro__ if inspect.isabstract(c))


def methods(driver_class: type) -> tuple[str, ...]:
    """The names of all methods that its promises name, sorted."""
    names = set()
    for interface in of(driver_class):
        names |= {name for name, value in vars(interface).items() if inspect.isfunction(value) and name[0] != "_"}
    return tuple(sorted(names))
