# SPDX-License-Identifier: Apache-2.0
"""How a worker starts what it depends on: the database and its queues, each tried again until it works."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from sqlalchemy import exc

from abaca import errors
from abaca.journal.queues import WorkQueue

log = logging.getLogger(__name__)


def until_it_works(
    stopping: threading.Event, delays_s: Sequence[float], attempt: Callable[[], None], what: str
) -> None:
    """Return when `attempt` has succeeded, or when `stopping` is set; the last of the delays is repeated."""
    tries = 0
    while not stopping.is_set():
        try:
            return attempt()
        except (exc.DBAPIError, errors.AbacaError) as error:
            problem = str(error).split("\n")[0]
        except Exception as error:
            log.exception("%s stumbled over a bug", what)
            problem = f"unexpected {type(error).__name__}"
        delay_s = delays_s[min(tries, len(delays_s) - 1)]
        log.warning("%s is not there yet (%s); again in %g s", what, problem, delay_s)
        tries += 1
        stopping.wait(delay_s)
    return None


def start(
    one: WorkQueue[object],
    on_started: Callable[[WorkQueue[object]], None],
    on_problem: Callable[[WorkQueue[object], str], None],
) -> None:
    """Start the queue. Raises `AbacaError`, which is the queue's problem until it has started."""
    try:
        one.start()
        on_started(one)
    except errors.AbacaError as error:
        one.problem = error.message
        on_problem(one, one.problem)
        raise
    except OSError as error:
        one.problem = str(error)
        on_problem(one, one.problem)
        raise errors.Unavailable(str(error)) from error
