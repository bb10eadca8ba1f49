# SPDX-License-Identifier: Apache-2.0
"""What is meant where an id is taken: whoever asks may say it by its id, its name, or the beginning of its id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from abaca import errors
from abaca.db.engine.database import Tx
from abaca.db.engine.lists import Listing, Page
from abaca.domain import ids
from abaca.http.pipeline import Call

# Where a name or the beginning of an id means several things, so many of them are told.
MOST_MEANT = 5


class Kind(NamedTuple):
    """Things of one kind: what errors call one, the list of them, and what is asked of that always."""

    what: str
    listing: Listing
    is_named: bool = True
    always: Mapping[str, object] = {}


def id_of(call: Call, tx: Tx, kind: Kind, said: str) -> str:
    """The id of the thing that is meant. A name is one of the caller's project, the beginning of an id one that the
    caller may see; what means nothing is taken for an id. Raises Conflict where several are meant.
    """
    if ids.is_id(said):
        return said
    own = {"project_id": call.caller.project_id}
    if kind.is_named and (found := _found(tx, kind, {"name": said, **own})):
        return the_one(kind.what, said, found)
    if (beginning := ids.beginning(said)) is not None:
        seen = {} if call.caller.is_admin else own
        if found := _found(tx, kind, {"id_prefix": beginning, **seen}):
            return the_one(kind.what, said, found)
    return said


def the_one(what: str, said: str, found: Sequence[str]) -> str:
    """The only one of the ids that are meant. Raises Conflict for several."""
    if len(found) > 1:
        several = ", ".join(found[:MOST_MEANT])
        raise errors.Conflict(f"{what} {said[:64]!r} could be any of {several}; say which one by its id.")
    return found[0]


def _found(tx: Tx, kind: Kind, asked: Mapping[str, object]) -> list[str]:
    rows = kind.listing.rows(tx, ("id",), {**kind.always, **asked}, Page(MOST_MEANT))
    return [str(row[0]) for row in rows]
