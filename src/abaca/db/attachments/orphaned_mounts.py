# SPDX-License-Identifier: Apache-2.0
"""What forced detaching gave up on machines that could not be entered, until it is taken away there.

A row has the id of the attachment that it was, which marks on the machine whose it is.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Mapping

import sqlalchemy as sa

from abaca.db.engine import lists
from abaca.db.engine.database import Tx, insert_into
from abaca.db.engine.statements import columns_of
from abaca.db.tables.attachments import orphaned_mounts as t
from abaca.domain.attachments.attachments import OrphanedMount

ORPHANED_MOUNTS = lists.Listing(t, filters={name: lists.equal(t.c[name]) for name in ("server_id", "machine_id")})


def add(tx: Tx, values: Mapping[str, object]) -> None:
    """Remember one: all columns but those of its tries; it is no error if it is known."""
    tx.execute(_add(tx.dialect), {**values, "attempts": 0, "retry_at": tx.now, "created_at": tx.now})


@functools.cache
def _add(dialect: str) -> sa.Executable:
    insert: sa.Executable = insert_into(t, dialect).on_conflict_do_nothing()
    return insert


def of_server(tx: Tx, server_id: str) -> list[OrphanedMount]:
    """Those on one server, the oldest first."""
    return tx.entities(OrphanedMount, _OF_SERVER, {"of_server": server_id})


_ALL = sa.select(*columns_of(OrphanedMount, t))
_OF_SERVER = _ALL.where(t.c.server_id == sa.bindparam("of_server")).order_by(t.c.created_at, t.c.id)


def due(tx: Tx, most: int) -> list[OrphanedMount]:
    """Those whose next try has come."""
    return tx.entities(OrphanedMount, _ALL.where(t.c.retry_at <= tx.now).order_by(t.c.retry_at, t.c.id).limit(most))


def put_off(tx: Tx, orphan: OrphanedMount, delay_s: float, *, has_failed: bool) -> None:
    """The next try of one comes after so many seconds."""
    values = {"attempts": orphan.attempts + has_failed, "retry_at": tx.now + datetime.timedelta(seconds=delay_s)}
    tx.execute(sa.update(t).where(t.c.id == orphan.id).values(values))


def remove(tx: Tx, attachment_id: str) -> None:
    """It is gone from its machine, or its machine is."""
    tx.execute(sa.delete(t).where(t.c.id == attachment_id))
