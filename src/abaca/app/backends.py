# SPDX-License-Identifier: Apache-2.0
"""The drivers of back ends, and their options while they serve."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from abaca import errors
from abaca.app.checks import missing
from abaca.app.observability import tracing

if TYPE_CHECKING:
    from abaca.drivers.contract import Driver
    from abaca.journal.worker import Worker
    from abaca.metrics import Metrics
    from abaca.settings import Backend, Settings

log = logging.getLogger(__name__)


def driver(settings: Settings, backend: Backend, metrics: Metrics | None = None) -> Driver:
    """A back end's driver, constructed but not started. Raises `ConfigError` for options that it does not take."""
    from abaca.domain.networks.share_servers import Limits
    from abaca.drivers import contract, load, wrappers

    told = contract.Backend(
        name=backend.name,
        host=f"{settings.host}@{backend.name}",
        share_backend_name=backend.share_backend_name,
        state_dir=settings.backends_path / backend.name,
        availability_zone=backend.backend_availability_zone,
        driver_handles_share_servers=backend.driver_handles_share_servers,
        reserved_percentage=backend.reserved_share_percentage,
        reserved_snapshot_percentage=backend.reserved_share_from_snapshot_percentage,
        reserved_share_extend_percentage=backend.reserved_share_extend_percentage,
        max_over_subscription_ratio=backend.max_over_subscription_ratio,
        server_limits=Limits(shares=backend.max_shares_per_share_server, gib=backend.max_share_server_size),
    )
    try:
        made = load.driver(told, backend.driver, backend.options)
    except ImportError as error:
        raise missing(error) from None
    arounds = [wrappers.logging_slow(backend.name)]
    if metrics is not None:
        seen = metrics.driver_call
        arounds.insert(0, wrappers.measuring(lambda call, took_s, error: seen(backend.name, call, took_s, error)))
    spans = tracing(settings)
    if spans is not None:
        arounds.append(spans.driver_calls(backend.name, no_errors=(contract.UnderWay,)))
    return wrappers.wrap(made, *arounds)


def reload(made: Worker, started: Settings, now: Settings) -> None:
    """Its back ends serve on by the drivers' options that stand in `now`; `started` is what it was started with.

    Raises `ConfigError` when one of them cannot be taken before the next start; then all are as before.
    """
    from abaca.drivers import load
    from abaca.operations.administration.backend_ensure import Manner
    from abaca.operations.parts import backends_of
    from abaca.reconcile.backends import Backends

    if _without_options(started) != _without_options(now):
        log.warning("what changed beside the options of drivers is taken at the next start")
    sections = {one.name: one for one in now.backends}
    drivers = {one.name: one.driver for one in started.backends}
    changed = []
    served = backends_of(made.queues.values()).values()
    for one in served:
        driver = one.parts.driver
        section = sections.get(driver.backend.name)
        if section is None:
            continue
        if section.driver != drivers[section.name]:
            raise errors.ConfigError(
                problem=f"[{section.name}] driver cannot change while the back end serves",
                mend="Restart the worker, or set it back.",
            )
        options = load.options(type(driver), section.options, where=section.name)
        load.check_change(driver, options, where=section.name)
        if options != driver.options:
            changed.append((one, options))
    backends = Backends(made.db, served, Manner(**now.ensure_manner))
    for one, options in changed:
        backends.change(one, options)
        log.info("back end %s serves by its changed options", one.parts.backend.name)


def _without_options(settings: Settings) -> Settings:
    import msgspec

    sections = (msgspec.structs.replace(section, options={}) for section in settings.backends)
    return settings.changed(backends=tuple(sections))
