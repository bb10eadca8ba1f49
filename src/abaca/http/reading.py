# SPDX-License-Identifier: Apache-2.0
"""The body of a request: JSON of a reasonable size, without control characters, or nothing."""

from __future__ import annotations

import re
from typing import Any

import falcon
import msgspec

from abaca import errors
from abaca.http import bodies, waiting

JSON = "application/json"
# Also by the names that the version documents give it.
_IS_JSON = re.compile(r"application/(vnd\.openstack\.(compute|share)\+)?json\b", re.IGNORECASE)
_NO_BODY = f"The request needs a JSON body, and the header that says so: Content-Type: {JSON}."
CONTROL = bodies.CONTROL
# In an address they are none.
CONTROL_OR_BREAK = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
# How many objects and lists may stand in each other.
DEEPEST = 32
# JSON has no raw control characters, so only these can bring one in.
_SUSPICIOUS = re.compile(rb"\\u00[01]|\\[bf]|\\u007[fF]|\x7f")


def json_body(request: falcon.Request, most: int) -> Any:
    """The decoded body of at most so many bytes; None when there is none or it is not JSON by its own account.

    Raises Invalid, OverLimit; and NotHereYet, where the request can wait for it.
    """
    length = _length(request)
    is_there = length if length is not None else request.env.get("HTTP_TRANSFER_ENCODING")
    if not is_there or not _IS_JSON.match(request.content_type or ""):
        return None
    raw = _raw(request, length, most)
    if not raw:
        return None
    try:
        sent = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise errors.Invalid("The body of the request is not valid JSON.") from None
    if raw.count(b"{") + raw.count(b"[") > DEEPEST or _SUSPICIOUS.search(raw):
        _look_into(sent)
    return sent


def _length(request: falcon.Request) -> int | None:
    try:
        length: int | None = request.content_length
    except falcon.HTTPInvalidHeader:
        raise errors.Invalid("The header Content-Length must be a whole number of bytes.") from None
    return length


def _raw(request: falcon.Request, said: int | None, most: int) -> bytes:
    if said is not None and said > most:
        raise too_large()
    waits: waiting.Waits | None = request.env.get(waiting.KEY)
    if waits is None:
        raw: bytes = request.env["wsgi.input"].read(most + 1 if said is None else said)
    elif waits.body is None:
        raise waiting.NotHereYet(waiting.Body(most))
    else:
        raw = waits.body
    if len(raw) > most:
        raise too_large()
    if said is not None and len(raw) < said:
        raise cut_off()
    return raw


def cut_off() -> errors.Invalid:
    """What a request is told whose body ended before its end."""
    return errors.Invalid("The body of the request was cut off.")


def too_large() -> errors.OverLimit:
    """What a request is told whose body has more bytes than are taken."""
    return errors.OverLimit("The body of the request is too large.", code="RequestTooLarge")


def action(request: falcon.Request, most: int) -> tuple[str, Any]:
    """The name of the one action in the body, and what is said to it. Raises Invalid, OverLimit."""
    sent = json_body(request, most)
    if sent is None:
        raise errors.Invalid(_NO_BODY)
    if not isinstance(sent, dict) or len(sent) != 1:
        raise errors.Invalid('The body must hold one action and nothing else: {"NAME": {...}}.')
    return next(iter(sent.items()))


def entity(request: falcon.Request, most: int, body: type[bodies.Body]) -> Any:
    """What stands under the body's key. Raises Invalid, OverLimit, or Unprocessable where the body's class says so."""
    sent = json_body(request, most)
    if not body.KEYS:
        return sent
    if sent is None:
        raise errors.Invalid(_NO_BODY)
    for key in body.KEYS:
        if isinstance(sent, dict) and isinstance(sent.get(key), dict):
            beside = sorted(sent.keys() - {key})
            if beside and body.ALONE:
                raise errors.Invalid(f"Nothing is known of {', '.join(map(repr, beside[:5]))} beside '{key}'.")
            return sent[key]
    kind = errors.Unprocessable if body.MISSING == 422 else errors.Invalid
    raise kind(f"The body must hold an object under '{body.KEYS[0]}'.")


def _look_into(sent: object) -> None:
    """Raises Invalid for what is nested too deeply, and for control characters."""
    level: list[object] = [sent]
    for _ in range(DEEPEST + 1):
        following: list[object] = []
        for value in level:
            if isinstance(value, str):
                if CONTROL.search(value):
                    raise errors.Invalid("Text must not hold control characters.")
            elif isinstance(value, dict):
                following += [*value, *value.values()]
            elif isinstance(value, list):
                following += value
        level = following
    if level:
        raise errors.Invalid(f"The body of the request is nested more than {DEEPEST} levels deep.")
