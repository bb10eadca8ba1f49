# SPDX-License-Identifier: Apache-2.0
"""Whether back ends could give their share servers of a network one exact subnet more, as they last said."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping

import sqlalchemy as sa

from abaca.db.engine.database import Tx
from abaca.db.engine.statements import planned_for_values
from abaca.db.tables.networks import share_network_checks as t


def begin(tx: Tx, network_id: str, subject: str, hosts: Iterable[str]) -> None:
    """These back ends are asked now."""
    rows = [
        {"share_network_id": network_id, "subject": subject, "host": host, "is_compatible": None, "created_at": tx.now}
        for host in hosts
    ]
    if rows:
        tx.execute(_BEGIN, rows)


_BEGIN = sa.insert(t).inline()


def answers(tx: Tx, network_id: str, subject: str) -> Mapping[str, bool | None]:
    """By back end what it said; None: it has not yet."""
    found = tx.rows(_ANSWERS, {"network": network_id, "about": subject})
    return {row.host: row.is_compatible for row in found}


_ANSWERS = (
    sa.select(t.c.host, t.c.is_compatible)
    .where(t.c.share_network_id == sa.bindparam("network"), t.c.subject == sa.bindparam("about"))
    .order_by(t.c.host)
)


def answer(tx: Tx, network_id: str, subject: str, host: str, *, is_compatible: bool) -> None:
    """A back end has said so; nothing where nobody wants to know any more."""
    named = {"network": network_id, "about": subject, "on_host": host}
    tx.execute(_ANSWER, {**named, "is_compatible_now": is_compatible})


_ANSWER = (
    sa.update(t)
    .where(
        t.c.share_network_id == sa.bindparam("network"),
        t.c.subject == sa.bindparam("about"),
        t.c.host == sa.bindparam("on_host"),
    )
    .values(is_compatible=sa.bindparam("is_compatible_now"))
)


def forget(tx: Tx, network_id: str, subject: str) -> None:
    """Nobody has been asked."""
    tx.execute(_FORGET, {"network": network_id, "about": subject})


_FORGET = sa.delete(t).where(t.c.share_network_id == sa.bindparam("network"), t.c.subject == sa.bindparam("about"))


def forget_all(tx: Tx, network_id: str) -> None:
    """The share network has changed: what was said of what it was counts no more."""
    tx.execute(_FORGET_ALL, {"network": network_id})


_FORGET_ALL = sa.delete(t).where(t.c.share_network_id == sa.bindparam("network"))


def purge(tx: Tx, asked_before: datetime.datetime, most: int) -> int:
    """Forget up to `most` that were asked before then, answered or not; how many."""
    return tx.execute(_PURGE, {"before": asked_before, "most": most}).rowcount


_OLD = sa.select(*t.primary_key).where(t.c.created_at < sa.bindparam("before")).limit(sa.bindparam("most"))
_PURGE = planned_for_values(sa.delete(t).where(sa.tuple_(*t.primary_key).in_(_OLD)))
