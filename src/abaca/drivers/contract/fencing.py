# SPDX-License-Identifier: Apache-2.0
"""Refusing changes that come too late: for back ends that can.

A worker can be frozen inside a call, or be cut off from the database, for longer than its lease. Another one then does
the work, users go on, and the call of the first must not have its effect any more. So every call that changes an
instance or a share server says its `generation`, which is greater than that of every call for this one that was begun
before. A back end that fences keeps with each the greatest generation that it has seen, also when it is gone, and
compares and keeps it under the lock under which it makes the change.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from abaca.drivers.contract import share_servers, shares

if TYPE_CHECKING:
    from abaca.drivers.contract.shares import ShareInstance


class Fences(abc.ABC):
    """The back end refuses changes of an instance, or of a share server, that come too late.

    Every method that is given one with a `generation` raises `Superseded`, with nothing changed, when the back
    end has seen a greater one for it; otherwise that is the one it has seen from then on. An equal one passes, since
    calls are repeated. Ensuring and inspecting raise nothing and are not remembered: of an instance of which the back
    end has seen a greater generation, ensuring answers `is_superseded` and leaves it alone. Instances without a
    generation are not compared. What was seen of an instance that is gone may be forgotten after a month.
    """

    @abc.abstractmethod
    def fence(self, instance: ShareInstance) -> None:
        """Change nothing, and refuse what is older than the instance's generation from now on.

        It need not exist, and is not made. Raises `Superseded`, `Busy`, `Unreachable`.
        """


def generations(given: object) -> dict[str, int]:
    """The generations, by id, of all instances and share servers in the arguments of a call, however deep they lie."""
    found: dict[str, int] = {}
    _collect(given, found)
    return found


def _collect(given: object, found: dict[str, int]) -> None:
    if isinstance(given, shares.ShareInstance | shares.ShareServer | share_servers.ServerSetup):
        if given.generation is not None:
            found[given.id] = max(given.generation, found.get(given.id, 0))
    elif isinstance(given, msgspec.Struct):
        for name in given.__struct_fields__:
            _collect(getattr(given, name), found)
    elif isinstance(given, Mapping):
        _collect(given.values(), found)
    elif isinstance(given, Iterable) and not isinstance(given, str | bytes):
        for one in given:
            _collect(one, found)
