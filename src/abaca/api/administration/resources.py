# SPDX-License-Identifier: Apache-2.0
"""Finding what operations and events are about, of whatever kind it is."""

from __future__ import annotations

import importlib

from abaca import errors
from abaca.api import naming
from abaca.db.engine.database import Tx
from abaca.domain import ids
from abaca.http.pipeline import Call

# By the types of resources where their kinds are: most requests say an id, and load none of them.
PLACES = {
    "share": "shares.lookups:SHARE",
    "snapshot": "shares.lookups:SNAPSHOT",
    "share-network": "networks.lookups:NETWORK",
    "share-server": "networks.lookups:A_SHARE_SERVER",
    "cluster": "clusters.reading:CLUSTER",
    "attachment": "attachments.lookups:ATTACHMENT",
}


def resource_id_of(call: Call, tx: Tx, said: str, resource_type: object = None) -> str:
    """The id of what is meant, of that type or of any, as `naming.id_of` says. What goes by no name is not looked for.

    Raises Conflict where things of several types are meant.
    """
    if ids.is_id(said):
        return said
    found: dict[str, str] = {}
    for one in PLACES if resource_type is None else PLACES.keys() & {resource_type}:
        module, _, name = PLACES[str(one)].partition(":")
        kind = getattr(importlib.import_module(f"abaca.api.{module}"), name)
        if (meant := naming.id_of(call, tx, kind, said)) != said:
            found[str(one)] = meant
    if len(found) > 1:
        several = ", ".join(f"{kind} {meant}" for kind, meant in found.items())
        raise errors.Conflict(f"{said[:64]!r} could be {several}; say 'resource_type' too, or the id.")
    return next(iter(found.values()), said)
