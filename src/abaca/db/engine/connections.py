# SPDX-License-Identifier: Apache-2.0
"""Connections that go from one look at the database to the next without a detour through the engine's pool."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING, cast

import sqlalchemy as sa
from sqlalchemy import exc

if TYPE_CHECKING:
    from sqlalchemy.pool import QueuePool


class Connections:
    """Connections of an engine in autocommit. Of as many as its pool holds none is given back to it between two looks.

    To take one from the pool and to give it back costs as much as asking the database for a row.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._idle: list[sa.Connection] = []

    @property
    def _pool(self) -> QueuePool:
        """The engine's, which gets another when all connections are given back."""
        return cast("QueuePool", self._engine.pool)

    def take(self) -> sa.Connection:
        """One that nobody else uses. Raises SQLAlchemyError."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:
                break
            if not is_dead(connection.connection.dbapi_connection):
                return connection
            connection.invalidate()
            connection.close()
        return connect(self._engine)

    def give_back(self, connection: sa.Connection) -> None:
        """For the next one; what is more than the pool holds goes back to it, since somebody may wait there."""
        if connection.in_transaction() or connection.invalidated or self._pool.overflow() > 0:
            connection.close()
        else:
            self._idle.append(connection)

    def close(self) -> None:
        """Give all back that nobody uses."""
        while self._idle:
            self._idle.pop().close()


def connect(engine: sa.Engine) -> sa.Connection:
    """As the engine does it; when connections die as fast as they are made, that is the database being away."""
    try:
        return engine.connect()
    except exc.InvalidRequestError as error:
        raise exc.OperationalError(None, None, error) from error


def refuse_a_dead_one(dbapi_connection: object, _record: object, _proxy: object) -> None:
    """For when one is taken from a pool of PostgreSQL."""
    if is_dead(dbapi_connection):
        raise exc.DisconnectionError("the database closed the connection")


def is_dead(dbapi_connection: object) -> bool:
    """An idle server has nothing to say: a readable socket is a closed one. Costs no round trip."""
    fileno = getattr(dbapi_connection, "fileno", None)
    if fileno is None:  # of SQLite
        return False
    if getattr(dbapi_connection, "closed", False):
        return True
    poll = select.poll()
    poll.register(fileno(), select.POLLIN)
    return bool(poll.poll(0))
