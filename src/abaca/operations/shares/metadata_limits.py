# SPDX-License-Identifier: Apache-2.0
"""How much metadata one thing, and one project, may have.

Whoever changes metadata in a transaction checks the thing with `check`, and tells `count` what that makes more or less
when all else is written: the project's count is where its requests queue up (db/catalog/quotas.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from abaca.db.catalog import quotas
from abaca.db.engine.database import Tx
from abaca.domain import metadata
from abaca.domain.catalog.quotas import METADATA
from abaca.settings import Settings


def check(settings: Settings, old: Mapping[str, str], new: Mapping[str, str]) -> int:
    """How many characters more there are of a thing; below 0: fewer. Nothing is refused that makes metadata fewer.

    Raises Invalid for what one thing cannot have.
    """
    more = metadata.characters(new) - metadata.characters(old)
    if more > 0 or len(new) > len(old):
        limits = settings.limits
        metadata.check_size(new, most_items=limits.metadata_items, most_characters=limits.metadata_characters)
    return more


def count(tx: Tx, settings: Settings, project_id: str, more: int) -> None:
    """Count what a user's change makes more or less. Raises OverLimit for more than a project can have."""
    if more > 0:
        most = {METADATA: settings.limits.project_metadata_characters}
        quotas.take(tx, project_id, None, None, {METADATA: more}, most)
    else:
        count_anyway(tx, {project_id: more})


def count_anyway(tx: Tx, more: Mapping[str, int]) -> None:
    """Count by project what no user has asked for, and what goes."""
    for project_id, characters in sorted(more.items()):
        if characters:
            quotas.give_back(tx, project_id, None, None, {METADATA: -characters})
