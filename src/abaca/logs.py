# SPDX-License-Identifier: Apache-2.0
"""How Abaca logs: one line an event, in the form operators of OpenStack know, with the ids of what it is about.

The standard library does it: oslo.log costs 25 MiB in every process, and its option names and line form are kept. What
looks like a secret is masked on the way out, whoever wrote the line.
"""

from __future__ import annotations

import contextlib
import contextvars
import json
import logging
import re
import sys
import time
from collections.abc import Iterator, Mapping

_ids: contextvars.ContextVar[Mapping[str, str]] = contextvars.ContextVar("ids", default={})  # noqa: B039 - never changed

_is_quiet: contextvars.ContextVar[bool] = contextvars.ContextVar("is_quiet", default=False)

_OURS = "abaca"

# Parts of words, and of the rest of the word no more than names have: a long text costs no more than its length.
_NAMES = r"(?:passw(?:or)?d|passphrase|secret|auth-token|subject-token|authorization|credential|access_key)[\w-]{0,64}"
_SECRETS = (
    # anything called a password or so, up to the end of its quotes, as JSON and Python write it: `'password': 'x, y'`
    (re.compile(rf"(?i)({_NAMES}[\"']?\s{{0,8}}[=:]\s{{0,8}}b?)([\"'])(?:\\.|(?!\2)[^\\\n])*\2?"), r"\1\2***\2"),
    # without quotes: `admin_password = x`, `Authorization: Basic x`
    (
        re.compile(rf"(?i)({_NAMES}[\"']?\s{{0,8}}[=:]\s{{0,8}}(?![\"'\s])(?:(?:basic|bearer)\s+)?)[^\s\"',;&)}}\]]+"),
        r"\1***",
    ),
    # the password in a URL
    (re.compile(r"(://[^:/@\s]*:)[^@/\s]+@"), r"\1***@"),
    # Fernet tokens, wherever they stand
    (re.compile(r"gAAAA[\w=-]{16,}"), "***"),
)


@contextlib.contextmanager
def bind(**ids: str) -> Iterator[None]:
    """Every line logged in this block carries these ids, e.g. `bind(request_id=...)`."""
    before = _ids.set({**_ids.get(), **ids})
    try:
        yield
    finally:
        _ids.reset(before)


def begin(**ids: str) -> None:
    """Every line of this thread carries these ids, and no others, until it begins something else."""
    _ids.set(ids)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What this thread logs in this block is left out: it would speak of things that nobody asked for."""
    before = _is_quiet.set(True)
    try:
        yield
    finally:
        _is_quiet.reset(before)


def masked(text: str) -> str:
    """The text without what looks like a secret."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


class Line(logging.Formatter):
    """`2026-11-21 10:00:00.123 4242 INFO abaca.x [req-...] share=... text`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback below it where there is one."""
        ids = _ids.get()
        request_id = ids.get("request_id", "-")
        others = "".join(f"{name}={value} " for name, value in ids.items() if name != "request_id")
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        head = f"{at}.{int(record.msecs):03d} {record.process} {record.levelname} {record.name} [{request_id}] "
        text = f"{head}{others}{record.getMessage()}"
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        return masked(text)


class Json(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The object; the traceback is one of its values."""
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {
            "time": f"{at}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            **_ids.get(),
            "message": masked(record.getMessage()),
        }
        if record.exc_info:
            fields["exception"] = masked(self.formatException(record.exc_info))
        return json.dumps(fields)


def set_up(*, debug: bool = False, file: str | None = None, as_json: bool = False) -> None:
    """Log to `file`, which may be rotated under us, or to standard error. Calling it again starts over."""
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if file:
        from logging.handlers import WatchedFileHandler  # brings half of the network library with it

        handler = WatchedFileHandler(file, delay=True)
    handler.setFormatter(Json() if as_json else Line())
    handler.set_name(_OURS)
    handler.addFilter(lambda _record: not _is_quiet.get())
    root = logging.getLogger()
    for old in [one for one in root.handlers if one.get_name() == _OURS]:
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("abaca").setLevel(logging.DEBUG if debug else logging.INFO)
