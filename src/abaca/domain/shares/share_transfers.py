# SPDX-License-Identifier: Apache-2.0
"""The offer of a share to whoever has its key."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import secrets

import msgspec

# Hexadecimal digits: somebody may have to type them.
KEY_BYTES, SALT_BYTES = 16, 8


class ShareTransfer(msgspec.Struct, frozen=True, gc=False):
    """A share that its project has offered; `key_hash` is what the key is known by. Times are naive UTC."""

    id: str
    project_id: str
    share_id: str
    salt: str
    key_hash: str
    expires_at: datetime.datetime

    def opens(self, key: str) -> bool:
        """Whether that is the key; it takes as long whatever is wrong with it."""
        return hmac.compare_digest(hashed(key, self.salt), self.key_hash)


def new_key() -> tuple[str, str, str]:
    """A key, and by which salt and hash it is known."""
    key, salt = secrets.token_hex(KEY_BYTES), secrets.token_hex(SALT_BYTES)
    return key, salt, hashed(key, salt)


def hashed(key: str, salt: str) -> str:
    """What is kept of a key. It is random and long, so that one round of a fast hash does."""
    return hmac.new(salt.encode(), key.encode(), hashlib.sha256).hexdigest()
