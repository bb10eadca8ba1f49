# SPDX-License-Identifier: Apache-2.0
"""Keys of their users that shares are encrypted with: whether a share can be, on which servers, and how they count.

A key is one in the project's quota, of however many shares it is. The key itself is the key manager's and the back
end's business: nobody here asks for it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from abaca import errors
from abaca.db.catalog import quotas
from abaca.db.shares import shares
from abaca.domain.catalog import extra_specs
from abaca.domain.catalog.quotas import KEYS

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.catalog.quotas import Counts

_ONE = {KEYS: 1}


def check(key_ref: str | None, specs: Mapping[str, str]) -> None:
    """Raises `Invalid` where a share of a type with these extra specs cannot be encrypted with that key."""
    if key_ref is None:
        return
    try:
        uuid.UUID(key_ref)
    except ValueError:
        raise errors.Invalid(f"'encryption_key_ref' must be the id of a secret, a UUID; it was {key_ref!r}.") from None
    if "encryption_support" not in specs:
        raise errors.Invalid("The share type does not support encryption with a key of one's own.")
    if not extra_specs.is_true(specs, "driver_handles_share_servers"):
        raise errors.Invalid("Only shares on share servers are encrypted with a key of one's own: use such a type.")


def count(tx: Tx, project_id: str, share_id: str, key_ref: str, defaults: Counts) -> None:
    """That new share has the key: one more in use, where no other of the project has it. Raises `OverLimit`."""
    quotas.hold(tx, project_id)
    if not shares.is_encrypted_with(tx, project_id, key_ref, but=share_id):
        quotas.take(tx, project_id, None, None, _ONE, defaults)


def count_without(tx: Tx, project_id: str, share_id: str, key_ref: str) -> None:
    """That share has gone: one less in use, where no other of the project has the key."""
    quotas.hold(tx, project_id)
    if not shares.is_encrypted_with(tx, project_id, key_ref, but=share_id):
        quotas.give_back(tx, project_id, None, None, _ONE)
