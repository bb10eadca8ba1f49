# SPDX-License-Identifier: Apache-2.0
"""The five errors that a driver raises; the caller tries `Busy` and `Unreachable` again, with growing delays."""

from __future__ import annotations

from abaca import errors


class Busy(errors.BackendError):
    """The back end is busy with this: {reason}"""

    code = "Busy"


class Full(errors.BackendError):
    """The back end has no room left: {reason}"""

    code = "Full"


class Gone(errors.BackendError):
    """The back end no longer has it: {reason}"""

    code = "Gone"


class Refused(errors.BackendError):
    """The back end refuses: {reason}"""

    code = "Refused"


class Unreachable(errors.BackendError):
    """The back end cannot be reached: {reason}"""

    code = "Unreachable"
