# SPDX-License-Identifier: Apache-2.0
"""What would keep a program from starting, or from doing its work: found by making each of its parts, and letting go.

`config check` asks all of it at once. The programs refuse the same by the same words when they make the part.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from abaca import errors
from abaca.app import exposure
from abaca.app.backends import driver
from abaca.app.databases import open_database
from abaca.app.events import event_targets
from abaca.app.networks import check_networks
from abaca.app.observability import tracing
from abaca.app.servers import compute, nodes

if TYPE_CHECKING:
    from abaca.settings import Settings


class Finding(NamedTuple):
    """Something that is not well; a program starts all the same unless it is `grave`."""

    text: str
    is_grave: bool


def examine(settings: Settings, looks: tuple[Callable[[Settings], None], ...] = ()) -> Iterator[Finding]:
    """All that is wrong, in the order in which a start would meet it; `looks` are the command line's own."""
    for look in (*looks, *_LOOKS):
        try:
            look(settings)
        except errors.ConfigError as error:
            yield Finding(error.message, is_grave=True)
        except errors.Unavailable as error:
            yield Finding(error.message, is_grave=False)
    yield from _storage(settings)
    for text in exposure.exposed(settings):
        yield Finding(text, is_grave=False)


def _storage(settings: Settings) -> Iterator[Finding]:
    """What back ends miss; a worker starts without them, and serves them when they have it."""
    for backend in settings.backends:
        with contextlib.suppress(errors.ConfigError):  # that has been said
            for text in driver(settings, backend).examine():
                yield Finding(f"[{backend.name}] {text}", is_grave=False)


def refuse_database(settings: Settings) -> None:
    """Raises `ConfigError` for a database that only a person can mend. One that is away may come."""
    with contextlib.suppress(errors.Unavailable):
        _database(settings)


def refuse_callers(settings: Settings) -> None:
    """Raises `ConfigError` for what no API of these settings could know its callers by: users, Keystone, policy.

    Nobody is asked, and what is as it comes is not loaded, since a start waits for this.
    """
    if settings.auth_strategy == "http_basic":
        from abaca.http import users_file

        users_file.read(settings.http_basic_auth_user_file)
    elif settings.auth_strategy == "keystone":
        from abaca.http import auth

        auth.strategy(settings)
    dirs = (settings.policy_file.parent / name for name in settings.oslo_policy.policy_dirs)
    if any(path.exists() for path in (settings.policy_file, *dirs)):
        _policy(settings)


def _database(settings: Settings) -> None:
    from abaca.db.engine import schema, trouble
    from abaca.db.migrations import HEAD

    if settings.uses_sqlite and not settings.sqlite_file.exists():
        return  # made at the first start
    db = open_database(settings)
    with contextlib.closing(db):
        if db.is_sqlite:
            with trouble.explained(db.url):
                found = schema.revision(db)
            if found is None or (found.isdecimal() and found <= HEAD):
                return  # made or upgraded by whoever starts first
        schema.check(db)


def _policy(settings: Settings) -> None:
    from abaca.api import doors
    from abaca.http import pipeline

    pipeline.make_policy(settings, doors.every())


def _callers(settings: Settings) -> None:
    from abaca.http import auth

    strategy = auth.strategy(settings)
    if isinstance(strategy, auth.Keystone):
        strategy.reach()


def _back_ends(settings: Settings) -> None:
    for backend in settings.backends:
        driver(settings, backend)


def _servers(settings: Settings) -> None:
    nodes(settings)
    if settings.compute.plugin != "inventory":
        compute(settings, None)


def _events(settings: Settings) -> None:
    for target in event_targets(settings):
        target.close()


def _spans(settings: Settings) -> None:
    tracing(settings)


_LOOKS: tuple[Callable[[Settings], None], ...] = (
    _database,
    _policy,
    _callers,
    _back_ends,
    _servers,
    check_networks,
    _events,
    _spans,
)
