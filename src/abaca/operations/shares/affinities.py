# SPDX-License-Identifier: Apache-2.0
"""Shares that are to be with, or away from, others: what was hinted when one was made stands in the metadata of both.

Each names the others by their ids. Who goes is taken out of what the others name, in the transaction in which it goes;
shares are locked in the order of their ids, here as there.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from abaca import errors
from abaca.db.shares import shares
from abaca.domain import metadata
from abaca.operations.shares import metadata_limits

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.callers import Caller
    from abaca.settings import Settings

HINTS = {"same_host": "__affinity_same_host", "different_host": "__affinity_different_host"}


def hinted(hints: Mapping[str, object], hint: str) -> list[str]:
    """The ids that a hint names, each once. Raises `Invalid`."""
    said = hints.get(hint)
    if said is None:
        return []
    if not isinstance(said, str | list):
        raise errors.Invalid(f"Scheduler hint {hint} must be the ids of shares, with commas between them.")
    ids = [one.strip() for one in said.split(",")] if isinstance(said, str) else said
    for one in ids:
        try:
            uuid.UUID(one)
        except (ValueError, AttributeError, TypeError):
            raise errors.Invalid(f"Scheduler hint {hint}: {one!r} is not the id of a share.") from None
    if len(",".join(ids)) > metadata.MAX_VALUE:
        raise errors.Invalid(f"Scheduler hint {hint} names too many shares: {len(ids)}.")
    return list(dict.fromkeys(ids))


def pairs(hints: Mapping[str, object]) -> dict[str, str]:
    """What the metadata of the new share says of its hints. Raises `Invalid`."""
    return {key: ",".join(ids) for hint, key in HINTS.items() if (ids := hinted(hints, hint))}


def add(tx: Tx, settings: Settings, caller: Caller, share_id: str, hints: Mapping[str, object]) -> Counter[str]:
    """Name the new share at those that its hints name; by project how many characters of metadata more there are.

    Raises `NotFound` where one is not there, or not the caller's, and `Invalid` where one has too much metadata.
    """
    named = {key: hinted(hints, hint) for hint, key in HINTS.items()}
    others = sorted({one for ids in named.values() for one in ids})
    if not others:
        return Counter()
    found = {one.id: one for one in shares.pairs_for_update(tx, others)}
    for one in others:
        if one not in found or not (caller.is_admin or found[one].project_id == caller.project_id):
            raise errors.NotFound(resource="Share", id=one)
    changed = {
        id: {**one.metadata, **{key: _with(one.metadata.get(key), share_id) for key in named if id in named[key]}}
        for id, one in found.items()
    }
    more: Counter[str] = Counter()
    for id, new in changed.items():
        more[found[id].project_id] += metadata_limits.check(settings, found[id].metadata, new)
    shares.set_metadata(tx, changed)
    return more


def lock(tx: Tx, share_id: str, known: Mapping[str, str]) -> list[shares.Pairs]:
    """Lock a share that goes, whose metadata was `known` a moment ago, and those that it names; the latter."""
    named = _named(known)
    found = {one.id: one for one in shares.pairs_for_update(tx, sorted({share_id, *named}))}
    itself = found.pop(share_id, None)
    if itself is not None and (more := _named(itself.metadata) - named):
        # somebody has hinted at it in that moment
        found |= {one.id: one for one in shares.pairs_for_update(tx, sorted(more))}
    return list(found.values())


def forget(tx: Tx, share_id: str, others: Collection[shares.Pairs]) -> Counter[str]:
    """Take a share out of what these name, which are locked; by project how many characters more there are (< 0)."""
    changed = {one.id: new for one in others if (new := _without(one.metadata, share_id)) != one.metadata}
    shares.set_metadata(tx, changed)
    more: Counter[str] = Counter()
    for one in others:
        if one.id in changed:
            more[one.project_id] += metadata.characters(changed[one.id]) - metadata.characters(one.metadata)
    return more


def _named(pairs: Mapping[str, str]) -> set[str]:
    return {one for key in HINTS.values() if key in pairs for one in pairs[key].split(",")}


def _with(named: str | None, share_id: str) -> str:
    return f"{named},{share_id}" if named else share_id


def _without(pairs: Mapping[str, str], share_id: str) -> dict[str, str]:
    kept = dict(pairs)
    for key in HINTS.values():
        if key in kept:
            left = ",".join(one for one in kept.pop(key).split(",") if one != share_id)
            kept |= {key: left} if left else {}
    return kept
