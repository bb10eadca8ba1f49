# SPDX-License-Identifier: Apache-2.0
"""Every error that Abaca tells a user or an operator about.

AbacaError
├── Invalid              400  the request cannot be understood or breaks a rule
├── Unauthorized         401  who is asking is not known
├── Forbidden            403  known, but may not do this (or not now)
├── NotFound             404  no such thing, or not visible to the asker
├── NotAllowed           405  the path exists, the method does not
├── NotAcceptable        406  a microversion out of range
├── TooSlow              408  the request did not come in time
├── Conflict             409  the thing is in a state that does not allow it
├── OverLimit            413  a quota or a size limit is reached
├── Unprocessable        422  the body lacks its entity
├── TooMany              429  too many wrong passwords, or too many to check at once
├── Unavailable          503  a part Abaca needs is away for the moment
└── BackendError              what drivers raise (drivers/contract/)

A class carries the HTTP `status` and a stable `code`: one symbol a meaning, never changed. Its docstring is the
message template. Raise below the API, translate only in http/faults.py.
"""

from __future__ import annotations


class AbacaError(Exception):
    """Something went wrong."""

    status = 500
    code = "Error"

    def __init__(self, message: str | None = None, **details: object) -> None:
        """The text is `message`, or the class docstring filled in with `details`."""
        self.message = message if message is not None else (type(self).__doc__ or "").strip().format(**details)
        self.details = details
        super().__init__(self.message)


class Invalid(AbacaError):
    """The request is malformed: {reason}"""

    status, code = 400, "Invalid"


class Unauthorized(AbacaError):
    """The request you have made requires authentication."""

    status, code = 401, "Unauthorized"


class Forbidden(AbacaError):
    """Your roles do not allow this request."""

    status, code = 403, "Forbidden"


class NotFound(AbacaError):
    """{resource} {id} could not be found."""

    status, code = 404, "NotFound"


class NotAllowed(AbacaError):
    """The method is not allowed here."""

    status, code = 405, "NotAllowed"


class NotAcceptable(AbacaError):
    """Version {version} is not supported by the API: the minimum is {minimum}, the maximum {maximum}."""

    status, code = 406, "NotAcceptable"


class TooSlow(AbacaError):
    """The body of the request has not come within {seconds} seconds."""

    status, code = 408, "RequestTimeout"


class Conflict(AbacaError):
    """{resource} {id} cannot {event} while it is {status}."""

    status, code = 409, "Conflict"


class OverLimit(AbacaError):
    """A limit is exceeded; `code` names which one, as Manila's clients know it."""

    status, code = 413, "OverLimit"

    def __init__(self, message: str, *, code: str, **details: object) -> None:
        super().__init__(message, **details)
        self.code = code


class Unprocessable(AbacaError):
    """The body must hold one object under the key '{key}'."""

    status, code = 422, "Unprocessable"


class TooMany(AbacaError):
    """Too many logins have failed, or are checked at the moment; try again in {retry_after_s} seconds."""

    status, code = 429, "TooMany"


class Unavailable(AbacaError):
    """{part} does not answer at the moment; try again in some seconds."""

    status, code = 503, "Unavailable"


class BackendError(AbacaError):
    """The back end failed: {reason}"""

    status, code = 500, "BackendError"


class ConfigError(AbacaError):
    """{problem}. {mend}"""

    code = "ConfigError"
