# SPDX-License-Identifier: Apache-2.0
"""Events as signed HTTP requests."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import http.cookiejar
import ssl
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import requests

from abaca import __version__, errors
from abaca.domain.administration.events import Event
from abaca.events import bounded
from abaca.events.contract import Away, Refused

_SHORTEST = 16
# answers whose length has so many digits are read to their end
_READ_DIGITS = 4
# Answers that say nothing of the event: the receiver is busy, or its way is closed.
_PASSING = frozenset((401, 403, 404, 407, 408, 410, 425, 429))


def signature(secret: bytes, timestamp: str, body: bytes) -> str:
    """What `X-Abaca-Signature` says: HMAC-SHA256 of the timestamp, a dot and the body."""
    return "sha256=" + hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def read_secret(file: Path, option: str) -> bytes:
    """The secret in a file, without space around it. Raises `ConfigError` that names `option`."""
    try:
        secret = file.read_bytes().strip()
    except OSError as error:
        raise errors.ConfigError(
            problem=f"{option}: {file} cannot be read: {error.strerror}", mend="Make it readable for this user"
        ) from None
    if len(secret) < _SHORTEST:
        raise errors.ConfigError(
            problem=f"{option}: {file} holds fewer than {_SHORTEST} characters",
            mend=f"Write a secret into it, for example `openssl rand -hex 32 > {file}`",
        )
    return secret


class Webhook:
    """One receiver. `secret` signs; it is never sent, logged or shown."""

    def __init__(
        self, name: str, url: str, secret: bytes, *, timeout_s: float, concurrency: int, ca_file: str | None = None
    ) -> None:
        self.name = f"webhook_{name}"
        self.concurrency = concurrency
        # connecting and answering are bounded one by one
        self.timeout_s = 2 * timeout_s
        self._each_s = timeout_s
        self._url = url
        self._secret = secret
        session = requests.Session()
        # neither proxies nor passwords of the process's environment
        session.trust_env = False
        session.cookies.set_policy(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))
        session.verify = ca_file or True
        _check(name, url, ca_file)
        pool = bounded.adapter(concurrency)
        session.mount("http://", pool)
        session.mount("https://", pool)
        self._session = session

    def send(self, event: Event) -> None:
        """Post the event to the receiver; only an answer of 2xx counts."""
        body = msgspec.json.encode(event)
        timestamp = str(int(time.time()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"abaca/{__version__}",
            "X-Abaca-Event": event.event_type,
            "X-Abaca-Delivery": event.id,
            "X-Abaca-Timestamp": timestamp,
            "X-Abaca-Signature": signature(self._secret, timestamp, body),
        }
        with bounded.within(self.timeout_s) as deadline:
            try:
                # streamed: nobody reads the answer's body, however long it is
                answer = self._session.post(
                    self._url, data=body, headers=headers, timeout=self._each_s, allow_redirects=False, stream=True
                )
            except (requests.RequestException, ValueError) as error:  # of names that cannot be one it is a ValueError
                why = "did not answer in time" if deadline.is_over else _reason(error)
                raise Away(reason=f"{self._where} {why}") from None
            _finish(answer)
        if 200 <= answer.status_code < 300:
            return
        told = f"{self._where} answered {answer.status_code}"
        if answer.status_code >= 500 or answer.status_code < 400 or answer.status_code in _PASSING:
            raise Away(reason=told)
        raise Refused(reason=told)

    @property
    def _where(self) -> str:
        """The receiver, without what may be secret in the path and the query."""
        parts = urlsplit(self._url)
        return f"{parts.scheme}://{parts.netloc}"

    def close(self) -> None:
        """Close the connections to the receiver."""
        self._session.close()


def _check(name: str, url: str, ca_file: str | None) -> None:
    """Raises `ConfigError` for what could never reach a receiver; the URL is not shown."""
    try:
        is_right = urlsplit(url).port != 0
    except ValueError:
        is_right = False
    if not is_right:
        raise errors.ConfigError(problem=f"url in [webhook_{name}] has no port of 1 to 65535", mend="Mend the url")
    if ca_file is None:
        return
    try:
        ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise errors.ConfigError(
            problem=f"ca_file in [webhook_{name}]: {ca_file} holds no certificates ({error.strerror})",
            mend="Write the authority's certificate into it, in PEM",
        ) from None


def _finish(answer: requests.Response) -> None:
    """Read a short answer to its end, so that the connection can be used again; the event has arrived without it."""
    length = answer.headers.get("content-length", "")
    with contextlib.suppress(requests.RequestException):
        if length.isdecimal() and len(length) <= _READ_DIGITS:
            _ = answer.content
    answer.close()


def _reason(error: Exception) -> str:
    """What went wrong in words of our own: those of the library quote the URL."""
    if isinstance(error, requests.Timeout):
        return "did not answer in time"
    if isinstance(error, requests.exceptions.SSLError):
        return "cannot prove who it is (TLS)"
    seen: Any = error
    for _ in range(8):
        if isinstance(seen, OSError) and seen.strerror:
            return f"cannot be reached: {seen.strerror}"
        inner = [one for one in getattr(seen, "args", ()) if isinstance(one, BaseException)]
        seen = getattr(seen, "reason", None) or seen.__cause__ or seen.__context__ or (inner[0] if inner else None)
        if not isinstance(seen, BaseException):
            break
    return f"cannot be reached ({type(error).__name__})"
