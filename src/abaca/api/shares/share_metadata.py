# SPDX-License-Identifier: Apache-2.0
"""The key-value pairs that users hang on a share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from abaca import errors
from abaca.api.shares.lookups import share_for_change, share_for_look
from abaca.db.engine.database import Tx
from abaca.db.shares import shares
from abaca.domain import metadata
from abaca.http.bodies import Body
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Plain
from abaca.operations.shares import metadata_limits
from abaca.policy import member, reader

RESOURCE = Resource("share metadata", "/shares/{id}/metadata")

GET = reader("share:get_share_metadata", "See a share's metadata.")
UPDATE = member("share:update_share_metadata", "Set a share's metadata.")
DELETE = member("share:delete_share_metadata", "Remove a share's metadata.")

Metadata = Plain("metadata", dict[str, str])


class SetMetadata(Body):
    """All pairs under `metadata`."""

    metadata: dict[str, Any]


class SetItem(Body):
    """One pair under `meta`; clients that send it under `metadata` are understood too."""

    meta: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


@RESOURCE.get(policy=GET, view=Metadata)
def index(call: Call, id: str) -> dict[str, str]:
    """All pairs."""
    with call.db.read() as tx:
        return _seen(call, share_for_look(call, tx, id, ("metadata",)).metadata)


@RESOURCE.get("/{key}", policy=GET, view=Plain("meta", dict[str, str]))
def show(call: Call, id: str, key: str) -> dict[str, str]:
    """One pair."""
    with call.db.read() as tx:
        found = _seen(call, share_for_look(call, tx, id, ("metadata",)).metadata)
    if key not in found:
        raise errors.NotFound(f"Share {id} has no metadata key {key!r}.")
    return {key: found[key]}


@RESOURCE.post(policy=UPDATE, body=SetMetadata, view=Metadata)
def update(call: Call, id: str, body: SetMetadata) -> dict[str, str]:
    """Add and overwrite; the whole is answered."""
    pairs = _checked(call, body.metadata)
    with call.db.write() as tx:
        return _seen(call, _write(call, tx, id, lambda old: {**old, **pairs}))


@RESOURCE.put(policy=UPDATE, body=SetMetadata, view=Metadata)
def replace(call: Call, id: str, body: SetMetadata) -> dict[str, str]:
    """Make these pairs all there are; what only administrators may touch stays."""
    pairs = _checked(call, body.metadata)
    with call.db.write() as tx:
        reserved, is_admin = call.settings.admin_only_metadata, call.caller.is_admin
        return _seen(call, _write(call, tx, id, lambda old: metadata.replaced(old, pairs, reserved, is_admin=is_admin)))


@RESOURCE.post("/{key}", policy=UPDATE, body=SetItem, view=Plain("meta", dict[str, str]))
def set_item(call: Call, id: str, key: str, body: SetItem) -> dict[str, str]:
    """One pair; its key is that of the URL."""
    sent = body.meta if body.meta is not None else body.metadata
    if sent is None or set(sent) != {key}:
        raise errors.Invalid(f"The body must hold exactly the key of the URL, {key!r}, under 'meta'.")
    pair = _checked(call, sent)
    with call.db.write() as tx:
        _write(call, tx, id, lambda old: {**old, **pair})
    return pair


@RESOURCE.delete("/{key}", policy=DELETE)
def delete(call: Call, id: str, key: str) -> None:
    """Remove one pair."""
    metadata.check_admin_only([key], call.settings.admin_only_metadata, is_admin=call.caller.is_admin)

    def without(old: dict[str, str]) -> dict[str, str]:
        if key not in old:
            raise errors.NotFound(f"Share {id} has no metadata key {key!r}.")
        return {name: value for name, value in old.items() if name != key}

    with call.db.write() as tx:
        _write(call, tx, id, without)


def _checked(call: Call, sent: dict[str, object]) -> dict[str, str]:
    pairs = metadata.check(sent)
    metadata.check_admin_only(pairs, call.settings.admin_only_metadata, is_admin=call.caller.is_admin)
    return pairs


def _write(call: Call, tx: Tx, share_id: str, change: Callable[[dict[str, str]], dict[str, str]]) -> dict[str, str]:
    """Change a share's pairs, within the limits; what they have become."""
    old = shares.metadata_for_update(tx, share_id)
    project_id = share_for_change(call, tx, share_id).project_id  # whose it stays until the end
    new = change(old)
    more = metadata_limits.check(call.settings, old, new)
    shares.update(tx, share_id, {"metadata": new})
    metadata_limits.count(tx, call.settings, project_id, more)
    return new


def _seen(call: Call, pairs: Mapping[str, str]) -> dict[str, str]:
    hidden = metadata.hidden(call.settings.admin_only_metadata, is_admin=call.caller.is_admin)
    return dict(metadata.seen(pairs, hidden))
