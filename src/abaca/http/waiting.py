# SPDX-License-Identifier: Apache-2.0
"""What a request can wait for without a thread: its body, or something that is found out elsewhere.

A server that can do so puts a `Waits` into the environment of each request, under `KEY`. The pipeline says there what
the request waits for and answers nothing; the server gives its thread to others, and calls the application once more
with the same environment as soon as that is there, or the time for it is over. Under any other WSGI server a request
waits in its thread.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Mapping
from typing import NamedTuple

from abaca import errors

KEY = "abaca.waits"


class Body(NamedTuple):
    """The rest of the body, which has at most so many bytes."""

    most: int


class Later(NamedTuple):
    """What a handler returns that has to ask: it answers `show` of the future's result, or 503 after `within_s`."""

    future: concurrent.futures.Future[object]
    within_s: float
    show: Callable[..., object]

    def too_late(self) -> errors.Unavailable:
        """What a request is told when it has not come."""
        return errors.Unavailable(f"Nobody has answered within {self.within_s:g} s; try again in some seconds.")


class Waits:
    """What one request waits for, `wanted`; then what it got, or why it did not.

    `call` is the pipeline's own: where to go on.
    """

    __slots__ = ("body", "call", "error", "wanted")

    def __init__(self) -> None:
        self.wanted: Body | Later | None = None
        self.body: bytes | None = None
        self.error: errors.AbacaError | None = None
        self.call: object = None


class NotHereYet(Exception):
    """The request has to wait for this before it can go on; no handler sees it."""

    def __init__(self, wanted: Body | Later) -> None:
        super().__init__()
        self.wanted = wanted


def is_waiting(environ: Mapping[str, object]) -> bool:
    """Whether the application was called and has not answered: it is called again."""
    waits = environ.get(KEY)
    return isinstance(waits, Waits) and waits.wanted is not None
