# SPDX-License-Identifier: Apache-2.0
"""How much metadata one thing, and one project, may have."""

from __future__ import annotations

from collections.abc import Mapping

from abaca import errors
from abaca.db.engine.database import Tx
from abaca.db.shares import metadata_figures
from abaca.domain import metadata
from abaca.settings import Settings


def check(tx: Tx, settings: Settings, project_id: str, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Nothing is refused that makes metadata fewer. The project's are added up as they are: two at once may pass.

    Raises Invalid for what one thing cannot have, OverLimit for what the project cannot.
    """
    more = metadata.characters(new) - metadata.characters(old)
    if more <= 0 and len(new) <= len(old):
        return
    limits = settings.limits
    metadata.check_size(new, most_items=limits.metadata_items, most_characters=limits.metadata_characters)
    most = limits.project_metadata_characters
    if most < 0 or more <= 0:
        return
    if metadata_figures.of_project(tx, project_id) + more > most:
        raise errors.OverLimit(
            f"Metadata of a project have at most {most} characters in all; remove some of its shares first.",
            code="MetadataLimitExceeded",
        )
