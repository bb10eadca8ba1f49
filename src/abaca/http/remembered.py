# SPDX-License-Identifier: Apache-2.0
"""Callers that were known a moment ago, under hashes of what they showed."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from abaca.domain.callers import Identity

REMEMBERED = 4096


class Memory:
    """What was found lately under a secret, without the secret."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._salt = secrets.token_bytes(32)
        self._found: OrderedDict[bytes, tuple[float, Identity]] = OrderedDict()
        self._lock = threading.Lock()

    def key(self, secret: str) -> bytes:
        """What a secret is remembered by."""
        return hashlib.blake2b(secret.encode(), key=self._salt, digest_size=32).digest()

    def get(self, key: bytes) -> Identity | None:
        """The identity, unless its time is over."""
        found = self._found.get(key)
        return found[1] if found is not None and found[0] > self._clock() else None

    def put(self, key: bytes, identity: Identity, until: float) -> None:
        """Remember an identity until a time in seconds since the epoch."""
        with self._lock:
            self._found[key] = (until, identity)
            self._found.move_to_end(key)
            while len(self._found) > REMEMBERED:
                self._found.popitem(last=False)

    def clear(self) -> None:
        """Forget everybody."""
        with self._lock:
            self._found.clear()
