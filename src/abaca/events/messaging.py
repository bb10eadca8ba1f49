# SPDX-License-Identifier: Apache-2.0
"""Events on the message bus of an OpenStack cloud, in the envelope and under the names that Manila's consumers know.

oslo.messaging's `Notifier` logs what it cannot send and forgets it, and gives every try another id. So the messages
are made here and handed to its transport, which says whether the bus has taken them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import msgspec
import oslo_messaging
from oslo_config import cfg

from abaca import errors
from abaca.domain.administration.events import Event
from abaca.events.contract import Away

# Seconds of silence after which RabbitMQ's driver gives up, once for the message and once for connecting anew; its own
# minute is longer than the lease on the target. The URL's query may say another.
_SILENT_S = 10
# The format with an envelope, which driver `messagingv2` stands for.
_VERSION = 2.0


class Messaging:
    """One bus. `publisher` is `share.<host>`; each event goes to all `topics`. Raises `ConfigError`."""

    name = "messaging"
    # the bus takes messages one after another as fast as beside each other
    concurrency = 1
    timeout_s = 30.0

    def __init__(self, url: str, topics: Sequence[str], publisher: str) -> None:
        self._topics = tuple(topics)
        self._publisher = publisher
        conf = cfg.ConfigOpts()
        conf([], project="abaca", default_config_files=[], default_config_dirs=[])
        try:
            self._transport: Any = oslo_messaging.get_notification_transport(conf, url=url)
        except Exception as error:  # noqa: BLE001 - drivers of buses fail in their own ways, and may quote the password
            raise errors.ConfigError(
                problem=f"transport_url in [oslo_messaging_notifications] is refused ({type(error).__name__})",
                mend="Write rabbit://user:password@host:5672/ or what the bus's driver wants",
            ) from None
        with contextlib.suppress(cfg.NoSuchOptError, cfg.NoSuchGroupError):  # another bus
            conf.set_default("heartbeat_timeout_threshold", _SILENT_S, "oslo_messaging_rabbit")

    def send(self, event: Event) -> None:
        """Hand the event to the bus, which confirms it."""
        priority = "ERROR" if event.is_error else "INFO"
        asked = {"request_id": event.request_id, "project_id": event.project_id, "user_id": event.user_id}
        for topic in self._topics:
            message = {
                "message_id": event.id,
                "publisher_id": self._publisher,
                "event_type": event.event_type,
                "priority": priority,
                "payload": msgspec.to_builtins(event.payload),
                "timestamp": str(event.created_at),
            }
            target = oslo_messaging.Target(topic=f"{topic}.{priority.lower()}")
            try:
                self._transport._send_notification(target, dict(asked), message, version=_VERSION, retry=0)
            except Exception as error:  # noqa: BLE001 - as above
                raise Away(reason=f"the message bus does not take it ({type(error).__name__})") from None

    def close(self) -> None:
        """Close the connections."""
        self._transport.cleanup()
