# SPDX-License-Identifier: Apache-2.0
"""The database that the settings name, and who is told of new work in it."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from abaca import errors
from abaca.app.checks import missing

if TYPE_CHECKING:
    from abaca.db.engine.database import Database
    from abaca.journal.wakeup import Listener
    from abaca.settings import Settings

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 2


def open_database(settings: Settings, *, for_requests: bool = False) -> Database:
    """The database, with announcements of work to workers; its revision is not looked at.

    With `for_requests` no statement takes longer than the settings let requests.
    """
    from abaca.db.engine.database import Database
    from abaca.db.engine.limits import Limits
    from abaca.journal import wakeup

    if settings.uses_sqlite and not settings.state_path.is_dir():
        raise errors.ConfigError(
            problem=f"There is no state directory {settings.state_path}",
            mend="Start `abaca run` once, or set state_path to the one that it uses",
        )
    announce: wakeup.Datagrams | wakeup.Notify = (
        wakeup.Datagrams(settings.state_path) if settings.uses_sqlite else wakeup.Notify()
    )
    said = settings.database
    # of two threads one stays for those who ask for little
    waiting = 1 if settings.api_threads > 2 else 0
    most = Limits(said.look_limit_s, said.change_limit_s, waiting) if for_requests else None
    try:
        db = Database(settings.database_url, wakeup=announce, pool_size=said.max_pool_size, most=most)
    except ImportError as error:
        raise missing(error) from None
    if settings.event_targets:
        from abaca.domain.administration.events import Subscriptions

        db.subscriptions = Subscriptions(settings.event_targets)
    return db


def listener(settings: Settings, db: Database, name: str) -> Listener:
    """What hears of new work, and of answers, in a process of that name."""
    from abaca.journal import wakeup

    if settings.uses_sqlite:
        return wakeup.DatagramListener(settings.state_path, name)
    return wakeup.NotifyListener(db.url)


def ready_database(settings: Settings, *, for_requests: bool = False) -> Database:
    """The database at the revision that this code needs; an empty SQLite file is made. Raises `ConfigError`.

    Waits for a database that does not answer yet: after a power cut everything starts at once.
    """
    from abaca.db.engine import schema

    db = open_database(settings, for_requests=for_requests)
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
