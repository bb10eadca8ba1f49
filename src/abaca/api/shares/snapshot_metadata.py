# SPDX-License-Identifier: Apache-2.0
"""The key-value pairs that users hang on a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from abaca import errors
from abaca.api.shares.snapshots import snapshot_for_change, snapshot_for_look
from abaca.db.shares import snapshots as db
from abaca.domain import metadata
from abaca.http.bodies import Body, Object
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Plain
from abaca.operations.shares import metadata_limits
from abaca.policy import member, reader

RESOURCE = Resource("snapshot metadata", "/snapshots/{id}/metadata", since="2.73")

GET = reader("share_snapshot:get_metadata", "See a snapshot's metadata.")
UPDATE = member("share_snapshot:update_metadata", "Set a snapshot's metadata.")
DELETE = member("share_snapshot:delete_metadata", "Remove a snapshot's metadata.")

ALL = Plain("metadata", dict[str, str])
ITEM = Plain("meta", dict[str, str])
Pairs = Mapping[str, str]


class SetMetadata(Body):
    """All pairs under `metadata`."""

    metadata: Object


class SetItem(Body):
    """One pair under `meta`; clients that send it under `metadata` are understood too."""

    meta: Object | None = None
    metadata: Object | None = None


@RESOURCE.get(policy=GET, view=ALL)
def index(call: Call, id: str) -> dict[str, str]:
    """All pairs."""
    with call.db.read() as tx:
        return dict(snapshot_for_look(call, tx, id, ("metadata",)).metadata)


@RESOURCE.get("/{key}", policy=GET, view=ITEM)
def show(call: Call, id: str, key: str) -> dict[str, str]:
    """One pair."""
    with call.db.read() as tx:
        return {key: _value(snapshot_for_look(call, tx, id, ("metadata",)).metadata, id, key)}


@RESOURCE.post(policy=UPDATE, body=SetMetadata, view=ALL)
def update(call: Call, id: str, body: SetMetadata) -> dict[str, str]:
    """Add and overwrite; the whole is answered."""
    pairs = metadata.check(body.metadata)
    return _write(call, id, lambda old: {**old, **pairs})


@RESOURCE.put(policy=UPDATE, body=SetMetadata, view=ALL)
def replace(call: Call, id: str, body: SetMetadata) -> dict[str, str]:
    """Make these pairs all there are."""
    pairs = metadata.check(body.metadata)
    return _write(call, id, lambda _old: pairs)


@RESOURCE.post("/{key}", policy=UPDATE, body=SetItem, view=ITEM)
def set_item(call: Call, id: str, key: str, body: SetItem) -> dict[str, str]:
    """One pair; its key is that of the URL."""
    sent = body.meta if body.meta is not None else body.metadata
    if sent is None or set(sent) != {key}:
        raise errors.Invalid(f"The body must hold exactly the key of the URL, {key!r}, under 'meta'.")
    pair = metadata.check(sent)
    _write(call, id, lambda old: {**old, **pair})
    return pair


@RESOURCE.delete("/{key}", policy=DELETE)
def delete(call: Call, id: str, key: str) -> None:
    """Remove one pair."""

    def without(old: Pairs) -> Pairs:
        _value(old, id, key)
        return {name: value for name, value in old.items() if name != key}

    _write(call, id, without)


def _value(pairs: Pairs, snapshot_id: str, key: str) -> str:
    if key not in pairs:
        raise errors.NotFound(f"Snapshot {snapshot_id} has no metadata key {key!r}.")
    return pairs[key]


def _write(call: Call, snapshot_id: str, change: Callable[[Pairs], Pairs]) -> dict[str, str]:
    """Change a snapshot's pairs, within the limits; what they have become."""
    with call.db.write() as tx:
        old = db.metadata_for_update(tx, snapshot_id)
        project_id = snapshot_for_change(call, tx, snapshot_id).project_id  # whose it stays until the end
        new = dict(change(old))
        more = metadata_limits.check(call.settings, old, new)
        db.update(tx, snapshot_id, {"metadata": new})
        metadata_limits.count(tx, call.settings, project_id, more)
        return new
