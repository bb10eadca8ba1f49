# SPDX-License-Identifier: Apache-2.0
"""The six errors that a driver raises; the caller tries the last three again, with growing delays."""

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


class Superseded(errors.BackendError):
    """The back end has been told something newer of this: {reason}"""

    code = "Superseded"


class Unreachable(errors.BackendError):
    """The back end cannot be reached: {reason}"""

    code = "Unreachable"
