# SPDX-License-Identifier: Apache-2.0
"""Events as lines of the worker's log."""

from __future__ import annotations

import logging

import msgspec

from abaca.domain.administration.events import Event

log = logging.getLogger("abaca.events")


class Log:
    """One line an event, at level INFO of the logger `abaca.events`, with the payload as JSON."""

    name = "log"
    concurrency = 1
    timeout_s = 1.0

    def send(self, event: Event) -> None:
        """Write the event's line."""
        log.info(
            "event=%s id=%s %s=%s project=%s user=%s request=%s payload=%s",
            event.event_type,
            event.id,
            event.resource_type,
            event.resource_id,
            event.project_id or "-",
            event.user_id or "-",
            event.request_id or "-",
            msgspec.json.encode(event.payload).decode(),
        )

    def close(self) -> None:
        """There are no connections to give back."""
