# SPDX-License-Identifier: Apache-2.0
"""From settings to running parts: the only module that knows all of them.

Each function imports what it needs when it is called, because start time and memory are promises: an API process never
loads drivers, and a worker never loads the web framework or policies.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abaca import errors, logs

if TYPE_CHECKING:
    from abaca.compute.contract import Compute
    from abaca.db.engine.database import Database
    from abaca.drivers.contract import Driver
    from abaca.events.contract import Target
    from abaca.journal.journal import Op
    from abaca.journal.wakeup import Listener
    from abaca.journal.worker import PeriodicTask, Worker, WorkQueue
    from abaca.metrics import Metrics
    from abaca.nodes.contract import Machines
    from abaca.settings import Backend, Settings
    from abaca.tracing import Tracing

WsgiApplication = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 2
SYSTEM_CONFIG = Path("/etc/abaca/abaca.conf")


def check(settings: Settings) -> None:
    """Raises `ConfigError` for settings that are each right and together wrong."""
    if settings.auth_strategy == "none" and not _is_loopback(settings.osapi_share_listen):
        raise errors.ConfigError(
            problem=f"auth_strategy = none would make an administrator of all who reach {settings.osapi_share_listen}",
            mend="Set auth_strategy to keystone or http_basic, or osapi_share_listen to 127.0.0.1",
        )
    if settings.auth_strategy == "keystone" and not settings.keystone_authtoken:
        raise errors.ConfigError(
            problem="auth_strategy = keystone needs the section [keystone_authtoken]",
            mend="Add it with www_authenticate_uri, auth_url and the service's credentials",
        )
    if not settings.database_url.startswith(("sqlite:", "postgresql:", "postgresql+psycopg:")):
        raise errors.ConfigError(
            problem="[database] connection is neither SQLite nor PostgreSQL", mend="Write postgresql://user@host/name"
        )
    if settings.log_file is not None and not os.access(settings.log_file.parent, os.W_OK):
        raise errors.ConfigError(
            problem=f"log_file = {settings.log_file} cannot be written",
            mend="Make its directory, writable for this user",
        )
    _check_messaging(settings)
    if settings.service_down_time <= settings.report_interval:
        raise errors.ConfigError(
            problem=f"service_down_time = {settings.service_down_time} is not above report_interval",
            mend=f"Set it to at least {3 * settings.report_interval}",
        )


def _check_messaging(settings: Settings) -> None:
    messaging = settings.oslo_messaging_notifications
    if not messaging.driver:
        return
    if not messaging.transport_url or not messaging.topics:
        raise errors.ConfigError(
            problem="[oslo_messaging_notifications] needs transport_url and topics",
            mend="Add `transport_url = rabbit://user:password@host:5672/`, or take driver out",
        )
    import importlib.util

    if importlib.util.find_spec("oslo_messaging") is None:
        raise errors.ConfigError(
            problem="[oslo_messaging_notifications] is set, but the Python package oslo.messaging is not installed",
            mend="Install it with `pip install abaca[messaging]`, or take driver out",
        )


def set_up_logs(settings: Settings) -> None:
    """Log as the settings say."""
    logs.set_up(**log_options(settings))


def log_options(settings: Settings) -> dict[str, Any]:
    """What `logs.set_up` takes, in plain values."""
    file = str(settings.log_file) if settings.log_file else None
    return {"debug": settings.debug, "file": file, "as_json": settings.use_json}


def open_database(settings: Settings) -> Database:
    """The database, with announcements of work to workers; its revision is not looked at."""
    from abaca.db.engine.database import Database
    from abaca.journal import wakeup

    if settings.uses_sqlite and not settings.state_path.is_dir():
        raise errors.ConfigError(
            problem=f"There is no state directory {settings.state_path}",
            mend="Start `abaca run` once, or set state_path to the one that it uses",
        )
    announce: wakeup.Datagrams | wakeup.Notify = (
        wakeup.Datagrams(settings.state_path) if settings.uses_sqlite else wakeup.Notify()
    )
    try:
        db = Database(settings.database_url, wakeup=announce, pool_size=settings.database.max_pool_size)
    except ImportError as error:
        raise missing(error) from None
    if settings.event_targets:
        from abaca.domain.administration.events import Subscriptions

        db.subscriptions = Subscriptions(settings.event_targets)
    return db


def ready_database(settings: Settings) -> Database:
    """The database at the revision that this code needs; an empty SQLite file is made. Raises `ConfigError`.

    Waits for a database that does not answer yet: after a power cut everything starts at once.
    """
    from abaca.db.engine import schema

    db = open_database(settings)
    if db.is_sqlite:
        schema.create_if_empty(db)
    while True:
        try:
            schema.check(db)
        except errors.Unavailable as error:
            log.warning("%s; looking again in %d s", error.message, LOOK_AGAIN_S)
            time.sleep(LOOK_AGAIN_S)
        else:
            return db


def api(settings: Settings, *, process: str = "api") -> WsgiApplication:
    """The WSGI application. Raises `ConfigError`."""
    from abaca.api import routes
    from abaca.http import doors, health, pipeline

    db = ready_database(settings)
    db.keep_time()
    metrics = open_metrics(settings, f"{process}-{settings.osapi_share_listen_port}") if settings.api.metrics else None
    if metrics is not None:
        metrics.also(health.Queues(db))
        metrics.also(health.Attachments(db))
        if settings.event_targets:
            metrics.also(health.Events(db))
    further = [doors.own(routes.OWN), doors.compute(routes.COMPUTE)]
    application = pipeline.make_app(settings, db, routes.RESOURCES, further=further, compute=compute(settings, db))
    tracing = _tracing(settings)
    traced = tracing.requests(application, health.ROUTE) if tracing is not None else application
    return health.front(traced, health.Health(db), metrics)


def worker(settings: Settings) -> Worker:
    """The worker of this host's back ends, not yet running. Raises `ConfigError`."""
    from abaca.journal import worker as workers
    from abaca.operations.registry import OPERATIONS

    metrics = open_metrics(settings, f"worker-{settings.worker_name}")
    served = [
        workers.WorkQueue(driver(settings, backend, metrics), backend.concurrency or settings.worker.concurrency)
        for backend in settings.backends
    ]
    db = ready_database(settings)
    on_nodes = serve_nodes(settings, db)
    served.append(on_nodes)
    if metrics is not None and settings.worker.metrics_port is not None:
        metrics.serve(settings.worker.metrics_listen, settings.worker.metrics_port)
    timing = workers.Timing(
        lease_s=settings.worker.lease_s, poll_s=settings.worker.poll_s, grace_s=settings.worker.stop_s
    )
    targets = event_targets(settings)
    made = workers.Worker(settings.worker_name, db, served, OPERATIONS, timing=timing, listener=_listener(settings, db))
    if metrics is not None:
        made.on_ended = _counting(metrics, db)
        made.on_part = metrics.ensured
    tracing = _tracing(settings)
    if tracing is not None:
        made.around = lambda op: tracing.span(op.what.kind, _ids(op))
    _give_periodic_tasks(made, settings, db)
    made.periodic_tasks += _see_to_attachments(settings, db, on_nodes)
    _give_events(made, settings, targets, metrics)
    return made


def _counting(metrics: Metrics, db: Database) -> Callable[[Op, str, float], None]:
    """Counts every run of an operation, and those that end it by what they have changed."""
    from abaca.db.journal import operations

    def count(op: Op, outcome: str, seconds: float) -> None:
        metrics.operation(op.what.kind, outcome, seconds)
        if op.what.notifies is not None and outcome in operations.ENDED:
            name = op.what.notifies.called(op.args)
            metrics.change(name, outcome, (db.now() - op.accepted_at).total_seconds())

    return count


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


def _give_events(made: Worker, settings: Settings, targets: Iterable[Target], metrics: Metrics | None) -> None:
    """One dispatcher for each target: one that is away holds up nobody else."""
    from abaca.domain.administration.events import QUEUE
    from abaca.journal.worker import PeriodicTask
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


def serve_nodes(settings: Settings, db: Database) -> WorkQueue:
    """The queue of what is done on servers, with the tools for it. Raises `ConfigError`."""
    from abaca.journal.worker import WorkQueue
    from abaca.operations.attachments.attachment_tools import Tools

    tools = Tools(compute(settings, db), nodes(settings), longest_pause_s=settings.nodes.longest_pause_s)
    return WorkQueue(tools, settings.nodes.max_connections, is_backend=False)


def _see_to_attachments(settings: Settings, db: Database, on_nodes: WorkQueue) -> list[PeriodicTask]:
    """That attachments stay true."""
    from abaca.journal.worker import PeriodicTask
    from abaca.reconcile.attachments import Attachments
    from abaca.reconcile.orphaned_mounts import OrphanedMounts

    tools: Any = on_nodes.driver
    interval_s = settings.nodes.verify_interval_s
    attachments = Attachments(db, tools, verify_interval_s=interval_s)
    often_s = min(15.0, settings.nodes.longest_pause_s)
    return [
        PeriodicTask("attachments", often_s, attachments.heal),
        PeriodicTask("attachments of servers that were off", often_s, attachments.wake),
        PeriodicTask("mounts that were given up", often_s, OrphanedMounts(db, tools).sweep),
        PeriodicTask("verifying attachments", min(60.0, interval_s), attachments.verify),
    ]


def nodes(settings: Settings) -> Machines:
    """The hands on servers, as `[nodes] plugin` says. Raises `ConfigError`."""
    said = settings.nodes
    if said.plugin == "rehearsal":
        from abaca.nodes.rehearsal import Rehearsal

        path = settings.state_path / "nodes" / "rehearsal.sqlite"
        try:
            return Rehearsal(path, delays=said.rehearsal_delays, failures=said.rehearsal_failures)
        except ValueError as error:
            raise errors.ConfigError(
                problem=f"[nodes] rehearsal_failures: {error}", mend="Name a method and an error"
            ) from None
    from abaca.nodes.mounts import Nodes
    from abaca.nodes.nfs import Nfs
    from abaca.nodes.shell import Limits

    limits = Limits(
        connect_s=said.connect_timeout_s, command_s=said.command_timeout_s, install_s=said.install_timeout_s
    )
    return Nodes([Nfs(port=said.nfs_port)], limits=limits, max_connections=said.max_connections)


def _give_periodic_tasks(made: Worker, settings: Settings, db: Database) -> None:
    """What the worker does beside operations, and how often."""
    from abaca.journal.worker import PeriodicTask
    from abaca.operations.administration.backend_ensure import Manner
    from abaca.reconcile.backends import LEFT, Backends
    from abaca.reconcile.expiry import Expiry
    from abaca.reconcile.stuck_states import StuckStates

    of_backends = {queue: one for queue, one in made.served.items() if one.is_backend}
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

    def report(one: WorkQueue) -> PeriodicTask:
        """One for each: a back end that does not answer holds up nobody else's."""
        return PeriodicTask(f"report of {one.backend.name}", 3 * settings.report_interval, lambda: backends.report(one))

    made.on_begun = lambda: backends.expect(settings.service_down_time)
    made.on_started = backends.announce
    made.on_stopped.append(backends.leave)
    made.on_problem = backends.tell
    made.periodic_tasks = [
        PeriodicTask("heartbeat", settings.report_interval, backends.beat, LEFT),
        *(report(one) for one in of_backends.values()),
        PeriodicTask("stuck states", 60, stuck.heal),
        PeriodicTask("message expiry", 3600, expiry.messages),
        PeriodicTask("operation expiry", 3600, expiry.operations),
        PeriodicTask("event expiry", 3600, expiry.events),
        PeriodicTask("export location expiry", 3600, expiry.export_locations),
        PeriodicTask("recycle bin", settings.check_for_expired_shares_in_recycle_bin_interval, expiry.recycle_bin),
    ]


def reload(made: Worker, started: Settings, now: Settings) -> None:
    """Its back ends serve on by the drivers' options that stand in `now`; `started` is what it was started with.

    Raises `ConfigError` when one of them cannot be taken before the next start; then all are as before.
    """
    from abaca.drivers import load
    from abaca.operations.administration.backend_ensure import Manner
    from abaca.reconcile.backends import Backends

    if _without_options(started) != _without_options(now):
        log.warning("what changed beside the options of drivers is taken at the next start")
    sections = {one.name: one for one in now.backends}
    drivers = {one.name: one.driver for one in started.backends}
    changed = []
    for one in made.served.values():
        section = sections.get(one.backend.name)
        if section is None:
            continue
        if section.driver != drivers[section.name]:
            raise errors.ConfigError(
                problem=f"[{section.name}] driver cannot change while the back end serves",
                mend="Restart the worker, or set it back.",
            )
        options = load.options(type(one.driver), section.options, where=section.name)
        load.check_change(one.driver, options, where=section.name)
        if options != one.driver.options:
            changed.append((one, options))
    backends = Backends(made.db, made.served.values(), Manner(**now.ensure_manner))
    for one, options in changed:
        backends.change(one, options)
        log.info("back end %s serves by its changed options", one.backend.name)


def _without_options(settings: Settings) -> Settings:
    import msgspec

    sections = (msgspec.structs.replace(section, options={}) for section in settings.backends)
    return settings.changed(backends=tuple(sections))


def driver(settings: Settings, backend: Backend, metrics: Metrics | None = None) -> Driver:
    """A back end's driver, constructed but not started. Raises `ConfigError` for options that it does not take."""
    from abaca.drivers import contract, load, wrappers

    told = contract.Backend(
        name=backend.name,
        host=f"{settings.host}@{backend.name}",
        share_backend_name=backend.share_backend_name,
        state_dir=settings.state_path / "backends" / backend.name,
        availability_zone=backend.backend_availability_zone,
        driver_handles_share_servers=backend.driver_handles_share_servers,
        reserved_percentage=backend.reserved_share_percentage,
        reserved_snapshot_percentage=backend.reserved_share_from_snapshot_percentage,
        reserved_share_extend_percentage=backend.reserved_share_extend_percentage,
        max_over_subscription_ratio=backend.max_over_subscription_ratio,
    )
    try:
        made = load.driver(told, backend.driver, backend.options)
    except ImportError as error:
        raise missing(error) from None
    arounds = [wrappers.logging_slow(backend.name)]
    if metrics is not None:
        seen = metrics.driver_call
        arounds.insert(0, wrappers.measuring(lambda call, took_s, error: seen(backend.name, call, took_s, error)))
    tracing = _tracing(settings)
    if tracing is not None:
        arounds.append(tracing.driver_calls(backend.name))
    return wrappers.wrap(made, *arounds)


def compute(settings: Settings, db: Database) -> Compute:
    """Where servers come from, as `[compute] plugin` says. Raises `ConfigError`."""
    if settings.compute.plugin == "inventory":
        from abaca.compute.inventory import Inventory

        return Inventory(db)
    from abaca.compute.nova import Nova

    try:
        return Nova(settings.compute)
    except ImportError:
        raise errors.ConfigError(
            problem="[compute] plugin = nova needs openstacksdk", mend="Install it: pip install 'abaca[nova]'"
        ) from None


def open_metrics(settings: Settings, process: str) -> Metrics | None:
    """The part of the host's figures that this process keeps; None, and a line in the log, when it cannot."""
    from abaca.metrics import Metrics

    try:
        return Metrics(settings.state_path / "metrics", process)
    except OSError as error:
        log.warning("no metrics are kept: %s", error)
        return None


def _tracing(settings: Settings) -> Tracing | None:
    if not settings.tracing:
        return None
    from abaca.tracing import Tracing

    return Tracing()


def _ids(op: Op) -> dict[str, str]:
    """What a span of an operation says of it, to be found beside the request's."""
    return {"abaca.operation": op.id, "abaca.resource": op.resource_id, "abaca.request_id": op.request_id or ""}


def missing(error: ImportError) -> errors.ConfigError:
    """A package that is not installed, as the operator should read it."""
    return errors.ConfigError(
        problem=f"The Python package {error.name} is not installed",
        mend=f"Install it beside Abaca: pip install {error.name}",
    )


def wsgi() -> WsgiApplication:
    """The application for any WSGI server that takes a factory: `abaca.app:wsgi()`, with the system's configuration."""
    from abaca import settings

    named = os.environ.get("ABACA_CONFIG")
    loaded = settings.read([named] if named else [SYSTEM_CONFIG] if SYSTEM_CONFIG.is_file() else []).settings
    check(loaded)
    set_up_logs(loaded)
    return api(loaded, process=f"api-{os.getpid()}")


def _listener(settings: Settings, db: Database) -> Listener:
    from abaca.journal import wakeup

    if settings.uses_sqlite:
        return wakeup.DatagramListener(settings.state_path, settings.worker_name)
    return wakeup.NotifyListener(db.url)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
