# SPDX-License-Identifier: Apache-2.0
"""The one place where an error becomes an answer.

Raise an `errors.AbacaError` anywhere below; its status chooses the name of the fault that clients know. Anything else
is a bug of ours: a 500, logged once with the request id.
"""

from __future__ import annotations

import http
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import sqlalchemy.exc

from abaca import errors
from abaca.db.engine import limits, trouble

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
    429: "tooManyRequests",
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
    """The answer to a request that failed with `error`, as OpenStack's services word it."""
    if isinstance(error, NoSuchRoute):
        body = {"code": "404 Not Found", "title": "Not Found", "message": error.message}
        return Fault(404, msgspec.json.encode(body))
    return _named(known(error, request_id))


def one_form(error: BaseException, request_id: str, challenge: str) -> Fault:
    """The same in the one form that all refusals of a door of ours have."""
    told = known(error, request_id)
    body = {"code": told.status, "title": http.HTTPStatus(told.status).phrase, "message": shortened(told.message)}
    more = {"www-authenticate": challenge} if told.status == 401 else headers(told)
    return Fault(told.status, msgspec.json.encode({"error": body}), more)


def known(error: BaseException, request_id: str) -> errors.AbacaError:
    """The error that a caller is told of; what is none of ours is logged."""
    if isinstance(error, errors.AbacaError):
        return error
    if isinstance(error, sqlalchemy.exc.DataError):
        LOG.warning("request=%s a value that the database cannot hold: %s", request_id, error.orig)
        return errors.Invalid("A value in the request is out of range.")
    if isinstance(error, sqlalchemy.exc.IntegrityError):
        LOG.warning("request=%s met another one: %s", request_id, error.orig)
        return errors.Conflict("What the request refers to has just changed; look again, and repeat it.")
    if (problem := trouble.of_disk(error)) is not None:
        LOG.warning("request=%s the database %s", request_id, problem)
        return errors.Unavailable(f"The database {problem} at the moment; try again in some seconds.")
    if limits.is_over(error):
        LOG.warning("request=%s was stopped: a statement took longer than [database] lets requests", request_id)
        return errors.Unavailable(
            "This took the database longer than a request may, so it was stopped, and nothing has changed. "
            "Ask for less at a time, such as a smaller page or no count; or try again in some seconds."
        )
    if _is_away(error):
        LOG.warning("request=%s the database does not answer: %s", request_id, error)
        return errors.Unavailable(part="The database")
    LOG.error("request=%s failed", request_id, exc_info=error)
    return errors.AbacaError(f"Something went wrong here; the operator finds it in the log under {request_id}.")


def unauthorized(message: str, challenge: str) -> Fault:
    """The answer to somebody who is not known, in the form of Keystone's middleware."""
    body = {"error": {"code": 401, "title": "Unauthorized", "message": message}}
    return Fault(401, msgspec.json.encode(body), {"www-authenticate": challenge})


def _named(error: errors.AbacaError) -> Fault:
    said: dict[str, Any] = {"code": error.status, "message": shortened(error.message)}
    if error.status == 413:
        said |= {"message": f"{error.code}: {said['message']}", "retryAfter": "0"}
    body = {NAMES.get(error.status, "computeFault"): said}
    return Fault(error.status, msgspec.json.encode(body), headers(error))


def headers(error: errors.AbacaError) -> dict[str, str]:
    """What the answer says of when to come back."""
    if error.status == 413:
        return {"retry-after": "0"}
    if error.status == 429:
        return {"retry-after": str(error.details.get("retry_after_s", RETRY_AFTER_S))}
    return {"retry-after": str(RETRY_AFTER_S)} if error.status == 503 else {}


def shortened(message: str) -> str:
    """A message of which the middle is left out where it is very long."""
    if len(message) <= LONGEST_MESSAGE:
        return message
    return f"{message[: LONGEST_MESSAGE // 2]} ... {message[-LONGEST_MESSAGE // 4 :]}"


def _is_away(error: BaseException) -> bool:
    if isinstance(error, sqlalchemy.exc.DBAPIError) and error.connection_invalidated:
        return True
    return isinstance(error, sqlalchemy.exc.OperationalError | sqlalchemy.exc.TimeoutError)
