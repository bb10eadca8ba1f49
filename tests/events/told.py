# SPDX-License-Identifier: Apache-2.0
"""The events that the database holds, for tests that ask what was told."""

from abaca.db.administration.events import EVENTS
from abaca.db.engine.lists import Page
from abaca.domain.administration.events import Event


def newest_first(tx, **equal):
    """All events whose columns equal what is given."""
    return EVENTS.entities(tx, Event, equal, Page(10_000, sort_key="seq"))
