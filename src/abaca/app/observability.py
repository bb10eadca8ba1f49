# SPDX-License-Identifier: Apache-2.0
"""How a program is watched: its log, its figures, its spans."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from abaca import errors, logs

if TYPE_CHECKING:
    from abaca.metrics import Metrics
    from abaca.settings import Settings
    from abaca.tracing import Tracing

log = logging.getLogger(__name__)


def set_up_logs(settings: Settings) -> None:
    """Log as the settings say."""
    logs.set_up(**log_options(settings))


def log_options(settings: Settings) -> dict[str, Any]:
    """What `logs.set_up` takes, in plain values."""
    file = str(settings.log_file) if settings.log_file else None
    return {"debug": settings.debug, "file": file, "as_json": settings.use_json}


def open_metrics(settings: Settings, process: str) -> Metrics | None:
    """The part of the host's figures that this process keeps; None, and a line in the log, when it cannot."""
    from abaca.metrics import Metrics

    try:
        return Metrics(settings.state_path / "metrics", process)
    except OSError as error:
        log.warning("no metrics are kept: %s", error)
        return None


def tracing(settings: Settings) -> Tracing | None:
    """What writes spans, or None where the settings want none. Raises `ConfigError`."""
    if not settings.tracing:
        return None
    from abaca.tracing import Tracing

    try:
        return Tracing()
    except ImportError:
        raise errors.ConfigError(
            problem="tracing needs the Python package opentelemetry-api",
            mend="Install it beside Abaca, or take tracing out",
        ) from None
