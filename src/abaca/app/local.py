# SPDX-License-Identifier: Apache-2.0
"""The API inside of the process that asks: for commands on a host that may open the database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from abaca.app.databases import open_database
from abaca.app.servers import compute

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from abaca.db.engine.database import Database
    from abaca.domain.callers import Caller, Identity
    from abaca.http.doors import Door
    from abaca.settings import Settings

# What operations and attachments that a command asked for say of their user.
USER_ID = "abaca"


class Operator:
    """Whoever may open the database is an administrator: the file's or the database's own permissions decide that."""

    challenge = "none"

    def __init__(self) -> None:
        from abaca.domain.callers import Identity, with_implied
        from abaca.http.auth import NoAuth

        self._identity = Identity(USER_ID, NoAuth.PROJECT_ID, with_implied(frozenset({"admin"})), "all")

    def identify(self, environ: Mapping[str, object]) -> Identity:
        return self._identity


class Everything:
    """The operator may do everything, whatever policy files say: they could write to the database as well."""

    def is_admin(self, _identity: Identity, /) -> bool:
        return True

    def allows(
        self, _rule: str, _caller: Caller, /, *, project_id: str | None = None, user_id: str | None = None
    ) -> bool:
        return True


class OnDemand:
    """A WSGI application (PEP 3333) that imports and makes what answers a path when that is asked for."""

    def __init__(self, make: Callable[[tuple[Door, ...]], WSGIApplication]) -> None:
        self._make = make
        self._made: dict[str, WSGIApplication] = {}

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """The answer."""
        from abaca.api import own_door

        path = str(environ["PATH_INFO"])
        is_own = path.startswith(own_door.PREFIX)
        collection = path.removeprefix(own_door.PREFIX).split("/")[1] if is_own else ""
        if collection not in self._made:
            self._made[collection] = self._make(_doors(collection))
        return self._made[collection](environ, start_response)


def _doors(collection: str) -> tuple[Door, ...]:
    """Our own door with one collection, or that of servers, which is asked for some of their names."""
    if not collection:
        from abaca.api import doors

        return (doors.compute(),)
    from abaca.api import own_door
    from abaca.http.routing import Table

    return (own_door.door(Table(own_door.resources(collection))),)


def local_api(settings: Settings) -> tuple[WSGIApplication, Database]:
    """The WSGI application whose every caller is an administrator, and its database, which the caller closes.

    Nothing listens. Raises `ConfigError`, also for a database at another revision, and `Unavailable`.
    """
    from abaca.db.engine import schema
    from abaca.http import pipeline
    from abaca.journal import questions, wakeup
    from abaca.scheduler.known_pools import KnownPools

    db = open_database(settings)
    try:
        schema.check(db)
        parts = {
            "compute": compute(settings, db),
            "questions": questions.Questions(db, wakeup.NoListener),
            "known_pools": KnownPools(),
        }

        def make(doors: tuple[Door, ...]) -> WSGIApplication:
            return pipeline.make_app(settings, db, doors, strategy=Operator(), policy=Everything(), **parts)

        return OnDemand(make), db
    except BaseException:
        db.close()
        raise
