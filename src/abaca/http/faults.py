# SPDX-License-Identifier: Apache-2.0
"""The one place where an error becomes an answer.

Raise an `errors.AbacaError` anywhere below; its status chooses the name of the fault that clients know. Anything else
is a bug of ours: a 500, logged once with the request id.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import sqlalchemy.exc

from abaca import errors

LOG = logging.getLogger(__name__)

# What a status is called in the body; all others are a computeFault.
NAMES = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    409: "conflictingRequest",
    413: "overLimit",
    415: "badMediaType",
    501: "notImplemented",
    503: "serviceUnavailable",
}
RETRY_AFTER_S = 5
# What a caller sent may be part of a message; all of it need not come back.
LONGEST_MESSAGE = 1000


class Fault(NamedTuple):
    """An answer that says what went wrong."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}


class NoSuchRoute(errors.NotFound):
    """The resource could not be found."""


class NoSuchMethod(errors.NotFound):
    """The resource could not be found."""


def fault(error: BaseException, request_id: str) -> Fault:
    """The answer to a request that failed with `error`."""
    if isinstance(error, NoSuchRoute):
        body = {"code": "404 Not Found", "title": "Not Found", "message": error.message}
        return Fault(404, msgspec.json.encode(body))
    if isinstance(error, errors.AbacaError):
        return _named(error)
    if isinstance(error, sqlalchemy.exc.DataError):
        LOG.warning("request=%s a value that the database cannot hold: %s", request_id, error.orig)
        return _named(errors.Invalid("A value in the request is out of range."))
    if isinstance(error, sqlalchemy.exc.IntegrityError):
        LOG.warning("request=%s met another one: %s", request_id, error.orig)
        return _named(errors.Conflict("What the request refers to has just changed; look again, and repeat it."))
    if _is_away(error):
        LOG.warning("request=%s the database does not answer: %s", request_id, error)
        return _named(errors.Unavailable(part="The database"))
    LOG.error("request=%s failed", request_id, exc_info=error)
    return _named(errors.AbacaError(f"Something went wrong here; the operator finds it in the log under {request_id}."))


def unauthorized(message: str, challenge: str) -> Fault:
    """The answer to somebody who is not known, in the form of Keystone's middleware."""
    body = {"error": {"code": 401, "title": "Unauthorized", "message": message}}
    return Fault(401, msgspec.json.encode(body), {"www-authenticate": challenge})


def _named(error: errors.AbacaError) -> Fault:
    message = error.message
    if len(message) > LONGEST_MESSAGE:
        message = f"{message[: LONGEST_MESSAGE // 2]} ... {message[-LONGEST_MESSAGE // 4 :]}"
    said: dict[str, Any] = {"code": error.status, "message": message}
    headers: dict[str, str] = {}
    if error.status == 413:
        said |= {"message": f"{error.code}: {message}", "retryAfter": "0"}
        headers["retry-after"] = "0"
    elif error.status == 503:
        headers["retry-after"] = str(RETRY_AFTER_S)
    return Fault(error.status, msgspec.json.encode({NAMES.get(error.status, "computeFault"): said}), headers)


def _is_away(error: BaseException) -> bool:
    if isinstance(error, sqlalchemy.exc.DBAPIError) and error.connection_invalidated:
        return True
    return isinstance(error, sqlalchemy.exc.OperationalError | sqlalchemy.exc.TimeoutError)
