# SPDX-License-Identifier: Apache-2.0
"""The six errors that a driver raises; the caller tries the last three again, with growing delays.

A `Busy` that is `UnderWay` is none of that: it is waited for.
"""

from __future__ import annotations

from abaca import errors


class Full(errors.BackendError):
    """The back end has no room left: {reason}"""

    code = "Full"


class Gone(errors.BackendError):
    """The back end no longer has it: {reason}"""

    code = "Gone"


class Refused(errors.BackendError):
    """The back end refuses: {reason}"""

    code = "Refused"


class Busy(errors.BackendError):
    """The back end is busy with this: {reason}"""

    code = "Busy"


class UnderWay(Busy):
    """The back end works on it: {reason}"""

    code = "UnderWay"

    def __init__(self, *, reason: str, look_again_s: float = 1.0, within_s: float = 3600.0) -> None:
        """The call is repeated after `look_again_s` seconds, and fails when it says so for `within_s` seconds.

        Where a call waits for one thing after another, each with a `within_s` of its own, each has its time.
        """
        super().__init__(reason=reason)
        self.look_again_s = look_again_s
        self.within_s = within_s


class Superseded(errors.BackendError):
    """The back end has been told something newer of this: {reason}"""

    code = "Superseded"


class Unreachable(errors.BackendError):
    """The back end cannot be reached: {reason}"""

    code = "Unreachable"
