# SPDX-License-Identifier: Apache-2.0
"""What goes wrong at the data processing door, in the form that its clients read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec

from abaca import errors
from abaca.db.clusters.clusters import NameTaken
from abaca.domain import ids
from abaca.http import faults

# What an error is called that has no name of its own.
NAMES = {
    400: "VALIDATION_ERROR",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    406: "NOT_ACCEPTABLE",
    408: "REQUEST_TIMEOUT",
    409: "CONFLICT",
    413: "REQUEST_TOO_LARGE",
    429: "TOO_MANY_REQUESTS",
    503: "SERVICE_UNAVAILABLE",
}


class InvalidData(errors.Invalid):
    """What is said cannot be: {reason}"""

    code = "INVALID_DATA"


class InvalidReference(errors.Invalid):
    """{what} does not exist."""

    code = "INVALID_REFERENCE"


class NoFileService(errors.Invalid):
    """The catalog of your token names no shared file system service, so nothing can be mounted for you.

    Have an administrator enter one, of type shared-file-system.
    """

    code = "SERVICE_NOT_FOUND"


class Protected(errors.Conflict):
    """{what} is protected; set is_protected to false before you change or delete it."""

    code = "UPDATE_FAILED"


class NotDeleted(errors.Conflict):
    """{what} is protected; set is_protected to false before you delete it."""

    code = "DELETION_FAILED"


@contextlib.contextmanager
def as_data() -> Iterator[None]:
    """What breaks a rule of clusters in this block is told as data that cannot be."""
    try:
        yield
    except errors.Invalid as wrong:
        if type(wrong) is not errors.Invalid:
            raise
        raise InvalidData(wrong.message) from None


def fault(error: BaseException, request_id: str, challenge: str) -> faults.Fault:
    """The answer to a request that failed."""
    told = faults.known(error, request_id)
    if isinstance(told, errors.Unauthorized):
        return faults.unauthorized(told.message, challenge)
    name = "NAME_ALREADY_EXISTS" if isinstance(told, NameTaken) else told.code
    name = name if name.isupper() else NAMES.get(told.status, "INTERNAL_SERVER_ERROR")
    message = f"{faults.shortened(told.message)}\nError ID: {request_id.removeprefix('req-') or ids.random_id()}"
    said = {"error_code": told.status, "error_message": message, "error_name": name}
    return faults.Fault(told.status, msgspec.json.encode(said), faults.headers(told))
