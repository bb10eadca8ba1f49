# SPDX-License-Identifier: Apache-2.0
"""What keeps a run from going on: errors that can pass, waits, and orders of people and of the worker."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import exc

from abaca import errors
from abaca.drivers import contract

# The database is away, restarts, is full of connections, or has just lost its right to write to another server.
DATABASE_AWAY = (exc.OperationalError, exc.InterfaceError, exc.InternalError, exc.TimeoutError)
PASSING = (contract.Busy, contract.Superseded, contract.Unreachable, errors.Unavailable, *DATABASE_AWAY)


class LeaseLost(Exception):
    """Somebody else holds this operation now; whatever is under way here no longer counts."""


class Interrupted(Exception):
    """The worker is being stopped, and this operation can go on from where it is in another life."""


class Paused(Exception):
    """Somebody has asked that it pauses, and nothing is half done."""


class Wait(Exception):
    """Raised by a step that cannot go on yet: the operation is put aside and runs the step again.

    That is no failure: no thread, slot or attempt is held or counted meanwhile. `what` says to people what it waits
    for. It looks again when one of `conditions` is signalled (db/journal/waits.py), and after `look_again_s` seconds at
    the latest. After `within_s` seconds, counted from the first time that the step waited, it fails with
    `error`, or with `WaitedTooLong`. A wait of another `within_s` than the one before is for something else: its time
    is counted anew.
    """

    def __init__(
        self,
        what: str,
        *,
        conditions: Sequence[str] = (),
        look_again_s: float = 60.0,
        within_s: float | None = None,
        error: errors.AbacaError | None = None,
        each_child: bool = False,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.conditions = tuple(conditions)
        self.look_again_s = look_again_s
        self.within_s = within_s
        self.error = error
        # of one that joins its children: whether it looks whenever one of them has ended
        self.each_child = each_child


class WaitedTooLong(errors.AbacaError):
    """It waited for {seconds} seconds, and still waits: {what}"""

    code = "WaitedTooLong"


class ChildFailed(errors.AbacaError):
    """What it had started failed: {kind} of {resource}: {reason}"""

    code = "ChildFailed"


class Cancelled(errors.AbacaError):
    """Cancelled on request."""

    code = "Cancelled"


class NotUnderstood(errors.AbacaError):
    """It waits for a worker of a release that understands it: {reason}"""

    code = "NotUnderstood"
