# SPDX-License-Identifier: Apache-2.0
"""The worker: what it serves, what it does beside operations, and how it is watched."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from abaca.app.backends import driver
from abaca.app.databases import listener, ready_database
from abaca.app.events import event_targets, give_dispatchers
from abaca.app.networks import network_of, see_to_addresses
from abaca.app.observability import open_metrics, tracing
from abaca.app.servers import see_to_attachments, serve_nodes

if TYPE_CHECKING:
    from abaca.db.engine.database import Database
    from abaca.journal.op import Op
    from abaca.journal.periodic_tasks import PeriodicTask
    from abaca.journal.queues import WorkQueue
    from abaca.journal.worker import Worker
    from abaca.metrics import Metrics
    from abaca.operations.parts import BackEnd
    from abaca.settings import Settings


def worker(settings: Settings) -> Worker:
    """The worker of this host's back ends, not yet running. Raises `ConfigError`."""
    from abaca.journal import worker as workers
    from abaca.operations.parts import queue_of
    from abaca.operations.registry import OPERATIONS

    metrics = open_metrics(settings, f"worker-{settings.worker_name}")
    drivers = [(backend, driver(settings, backend, metrics)) for backend in settings.backends]
    db = ready_database(settings)
    of_backends = [
        queue_of(one, backend.concurrency or settings.worker.concurrency, network_of(settings, db, backend))
        for backend, one in drivers
    ]
    on_nodes = serve_nodes(settings, db)
    if metrics is not None and settings.worker.metrics_port is not None:
        metrics.serve(settings.worker.metrics_listen, settings.worker.metrics_port)
    timing = workers.Timing(
        lease_s=settings.worker.lease_s, poll_s=settings.worker.poll_s, grace_s=settings.worker.stop_s
    )
    targets = event_targets(settings)
    queues = [*of_backends, on_nodes]
    hearing = listener(settings, db, settings.worker_name)
    made = workers.Worker(settings.worker_name, db, queues, OPERATIONS, timing=timing, listener=hearing)
    if metrics is not None:
        made.on_ended = _counting(metrics, db)
        seen = metrics.ensured
        made.on_part = lambda queue, counts, seconds: seen(queue.parts.backend.name, counts, seconds)
    spans = tracing(settings)
    if spans is not None:
        made.around = lambda op: spans.span(op.what.kind, _ids(op))
    _give_periodic_tasks(made, settings, db)
    made.periodic_tasks += see_to_attachments(settings, db, on_nodes) + see_to_addresses(settings, db)
    give_dispatchers(made, settings, targets, metrics)
    return made


def _give_periodic_tasks(made: Worker, settings: Settings, db: Database) -> None:
    """What the worker does beside operations, and how often."""
    from abaca.journal.periodic_tasks import PeriodicTask
    from abaca.operations.administration.backend_ensure import Manner
    from abaca.operations.administration.late_calls import LateCalls
    from abaca.operations.parts import backends_of
    from abaca.reconcile.backends import LEFT, Backends
    from abaca.reconcile.comparison import Comparison
    from abaca.reconcile.expiry import Expiry
    from abaca.reconcile.stuck_states import StuckStates

    of_backends = backends_of(made.queues.values())
    backends = Backends(db, of_backends.values(), Manner(**settings.ensure_manner))
    expiry = Expiry(
        db,
        of_backends,
        keep_messages_s=settings.message_ttl,
        keep_operations_s=settings.worker.keep_operations_s,
        keep_events_s=settings.events.keep_s,
        keep_export_locations_s=settings.worker.keep_export_locations_s,
    )
    stuck = StuckStates(db, of_backends)
    late_calls = LateCalls(of_backends)
    comparison = Comparison(db, of_backends.values(), settings.worker.reconcile_every_s, settings.reconcile_pace)

    def report(one: WorkQueue[BackEnd]) -> PeriodicTask:
        """One for each: a back end that does not answer holds up nobody else's."""
        return PeriodicTask(
            f"report of {one.parts.backend.name}", 3 * settings.report_interval, lambda: backends.report(one)
        )

    made.on_begun = lambda: backends.expect(settings.service_down_time)
    made.on_started = backends.announce
    made.on_stopped.append(backends.leave)
    made.on_problem = backends.record_problem
    made.on_late, made.on_taken = late_calls.returned, late_calls.taken
    made.periodic_tasks = [
        PeriodicTask("heartbeat", settings.report_interval, backends.beat, LEFT),
        *(report(one) for one in of_backends.values()),
        PeriodicTask("stuck states", 60, stuck.heal),
        PeriodicTask("comparison", 60, comparison.begin),
        PeriodicTask("message expiry", 3600, expiry.messages),
        PeriodicTask("operation expiry", 3600, expiry.operations),
        PeriodicTask("event expiry", 3600, expiry.events),
        PeriodicTask("export location expiry", 3600, expiry.export_locations),
        PeriodicTask("counts of nothing", 60, expiry.counts),
        *_share_server_tasks(settings, db, of_backends),
        PeriodicTask("share transfers", 60, expiry.share_transfers),
        PeriodicTask("recycle bin", settings.check_for_expired_shares_in_recycle_bin_interval, expiry.recycle_bin),
    ]


def _share_server_tasks(settings: Settings, db: Database, served: Iterable[str]) -> list[PeriodicTask]:
    """What is done again and again for back ends that make share servers; nothing where none does."""
    from abaca.journal.periodic_tasks import PeriodicTask
    from abaca.reconcile.share_servers import UnusedShareServers

    if not settings.automatic_share_server_cleanup or not any(
        one.driver_handles_share_servers for one in settings.backends
    ):
        return []
    unused = UnusedShareServers(db, served, unused_for_s=60 * settings.unused_share_server_cleanup_interval)
    return [PeriodicTask("unused share servers", 60, unused.delete)]


def _counting(metrics: Metrics, db: Database) -> Callable[[Op[object], str, float], None]:
    """Counts every run of an operation, and those that end it by what they have changed."""
    from abaca.db.journal import operations

    def count(op: Op[object], outcome: str, seconds: float) -> None:
        metrics.operation(op.what.kind, outcome, seconds)
        if op.what.notifies is not None and outcome in operations.ENDED:
            name = op.what.notifies.called(op.args)
            metrics.change(name, outcome, (db.now() - op.accepted_at).total_seconds())

    return count


def _ids(op: Op[object]) -> dict[str, str]:
    """What a span of an operation says of it, to be found beside the request's."""
    return {"abaca.operation": op.id, "abaca.resource": op.resource_id, "abaca.request_id": op.request_id or ""}
