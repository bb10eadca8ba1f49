# SPDX-License-Identifier: Apache-2.0
"""The key-value pairs that users hang on a subnet of a share network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from abaca import errors
from abaca.api.networks.lookups import share_network_for_change
from abaca.api.networks.share_network_subnets import subnet_of
from abaca.db.networks import share_network_subnets as db
from abaca.domain import metadata
from abaca.http.bodies import Body, Object
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Feature, Plain
from abaca.operations.networks import share_server_update_subnet
from abaca.policy import member, reader

RESOURCE = Resource("share network subnet metadata", "/share-networks/{id}/subnets/{subnet_id}/metadata", since="2.78")

REACHES_SERVERS = Feature(
    "subnet_metadata_reaches_servers", "2.89", "Share servers hear of metadata of their subnets that drivers know."
)

GET = reader("share_network_subnet:get_metadata", "See a subnet's metadata.")
UPDATE = member("share_network_subnet:update_metadata", "Set a subnet's metadata.")
DELETE = member("share_network_subnet:delete_metadata", "Remove a subnet's metadata.")

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
def index(call: Call, id: str, subnet_id: str) -> dict[str, str]:
    """All pairs."""
    with call.db.read() as tx:
        return subnet_of(call, tx, id, subnet_id)[1].metadata


@RESOURCE.get("/{key}", policy=GET, view=ITEM)
def show(call: Call, id: str, subnet_id: str, key: str) -> dict[str, str]:
    """One pair."""
    with call.db.read() as tx:
        return {key: _value(subnet_of(call, tx, id, subnet_id)[1].metadata, subnet_id, key)}


@RESOURCE.post(policy=UPDATE, body=SetMetadata, view=ALL)
def update(call: Call, id: str, subnet_id: str, body: SetMetadata) -> dict[str, str]:
    """Add and overwrite; the whole is answered."""
    pairs = metadata.check(body.metadata)
    return _write(call, id, subnet_id, lambda old: {**old, **pairs}, pairs)


@RESOURCE.put(policy=UPDATE, body=SetMetadata, view=ALL)
def replace(call: Call, id: str, subnet_id: str, body: SetMetadata) -> dict[str, str]:
    """Make these pairs all there are."""
    pairs = metadata.check(body.metadata)
    return _write(call, id, subnet_id, lambda _old: pairs, pairs)


@RESOURCE.post("/{key}", policy=UPDATE, body=SetItem, view=ITEM)
def set_item(call: Call, id: str, subnet_id: str, key: str, body: SetItem) -> dict[str, str]:
    """One pair; its key is that of the URL."""
    sent = body.meta if body.meta is not None else body.metadata
    if sent is None or set(sent) != {key}:
        raise errors.Invalid(f"The body must hold exactly the key of the URL, {key!r}, under 'meta'.")
    pair = metadata.check(sent)
    _write(call, id, subnet_id, lambda old: {**old, **pair}, pair)
    return pair


@RESOURCE.delete("/{key}", policy=DELETE)
def delete(call: Call, id: str, subnet_id: str, key: str) -> None:
    """Remove one pair."""

    def without(old: Pairs) -> Pairs:
        _value(old, subnet_id, key)
        return {name: value for name, value in old.items() if name != key}

    _write(call, id, subnet_id, without)


def _value(pairs: Pairs, subnet_id: str, key: str) -> str:
    if key not in pairs:
        raise errors.NotFound(f"Share network subnet {subnet_id} has no metadata key {key!r}.")
    return pairs[key]


def _write(
    call: Call, network_id: str, subnet_id: str, change: Callable[[Pairs], Pairs], sent: Iterable[str] = ()
) -> dict[str, str]:
    """Change a subnet's pairs, within the limits; what they have become.

    Share servers hear of what was sent, though it was so already: it may not have reached them.
    """
    limits = call.settings.limits
    with call.db.write() as tx:
        network = share_network_for_change(call, tx, network_id)
        old = subnet_of(call, tx, network_id, subnet_id)[1].metadata
        new = dict(change(old))
        if metadata.characters(new) > metadata.characters(old) or len(new) > len(old):
            metadata.check_size(new, most_items=limits.metadata_items, most_characters=limits.metadata_characters)
        db.update(tx, subnet_id, {"metadata": new})
        said = {*sent, *(old.keys() - new.keys())}
        if call.has(REACHES_SERVERS) and not said.isdisjoint(call.settings.driver_updatable_subnet_metadata):
            share_server_update_subnet.start_all(tx, subnet_id, network.project_id, call.caller)
        return new
