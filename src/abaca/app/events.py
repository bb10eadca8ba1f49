# SPDX-License-Identifier: Apache-2.0
"""Who is told of events, and by whom."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from abaca.events.contract import Target
    from abaca.journal.worker import Worker
    from abaca.metrics import Metrics
    from abaca.settings import Settings


def event_targets(settings: Settings) -> list[Target]:
    """Who is told of events. Raises `ConfigError` for secrets that cannot be read."""
    found: list[Target] = []
    if settings.events.log:
        from abaca.events.log import Log

        found.append(Log())
    for webhook in settings.receivers:
        from abaca.events import webhooks

        found.append(
            webhooks.Webhook(
                webhook.name,
                webhook.url,
                webhooks.read_secret(webhook.secret_file, f"secret_file in [webhook_{webhook.name}]"),
                timeout_s=webhook.timeout_s,
                concurrency=webhook.concurrency,
                ca_file=str(webhook.ca_file) if webhook.ca_file else None,
            )
        )
    bus = settings.oslo_messaging_notifications
    if bus.driver and bus.transport_url:
        import warnings

        with warnings.catch_warnings():  # what it imports complains about itself
            warnings.simplefilter("ignore")
            from abaca.events import messaging
        found.append(messaging.Messaging(bus.transport_url, bus.topics, f"share.{settings.host}"))
    return found


def give_dispatchers(made: Worker, settings: Settings, targets: Iterable[Target], metrics: Metrics | None) -> None:
    """One dispatcher for each target: one that is away holds up nobody else."""
    from abaca.domain.administration.events import QUEUE
    from abaca.journal.periodic_tasks import PeriodicTask
    from abaca.reconcile.events import Dispatcher, Timing

    dispatchers = [
        Dispatcher(
            made.db,
            target,
            settings.worker_name,
            Timing.bounded(longest_s=settings.events.longest_pause_s, send_s=target.timeout_s),
        )
        for target in targets
    ]
    for one in dispatchers:
        if metrics is not None:
            one.on_sent = metrics.events
        made.periodic_tasks.append(PeriodicTask(f"events for {one.target.name}", 30, one.deliver, QUEUE))
        made.on_stopped.append(one.leave)
