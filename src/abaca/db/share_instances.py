# SPDX-License-Identifier: Apache-2.0
"""The copies of a share on back ends. `move` is the only writer of a status in all of Abaca."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from abaca import errors
from abaca.db.engine import Tx
from abaca.db.tables import access_rules, operations, share_instances, share_types, shares
from abaca.db.tables import share_instances as t
from abaca.domain.shares import RESETTABLE, SHARE_INSTANCE, status_rank


def add(tx: Tx, values: Mapping[str, Any], event: str = "create") -> None:
    """A new instance, born by `event`: `create`, or `refuse` when no pool can hold it."""
    status = SHARE_INSTANCE.after("none", event)
    row = {"access_rules_status": "active", "cast_rules_to_readonly": False, "created_at": tx.now, **values}
    tx.execute(_ADD, {**row, "status": status, "status_rank": status_rank(status)})


_ADD = sa.insert(t).inline()


@functools.cache
def _move(event: str) -> Any:
    sources = SHARE_INSTANCE.sources(event)
    targets = set(sources.values())
    to: Any = sa.case(sources, value=t.c.status)
    rank: Any = sa.case({at: status_rank(then) for at, then in sources.items()}, value=t.c.status)
    if len(targets) == 1:
        to = targets.pop()
        rank = status_rank(to)
    return (
        sa.update(t)
        .where(t.c.id == sa.bindparam("instance"), t.c.status.in_(list(sources)))
        .values(status=to, status_rank=rank, updated_at=sa.bindparam("at"))
        .returning(t.c.status)
    )


def try_move(tx: Tx, instance_id: str, event: str) -> bool:
    """Let `event` happen to an instance; False, with nothing changed, where its status does not allow it."""
    return tx.row(_move(event), {"instance": instance_id, "at": tx.now}) is not None


def finish_create(tx: Tx, instance_id: str) -> None:
    """`created`, with nothing left to copy; nothing where an operator has set another status meanwhile."""
    tx.execute(_move("created").values(progress="100%"), {"instance": instance_id, "at": tx.now})


def move(tx: Tx, instance_id: str, event: str) -> None:
    """Let `event` happen. Raises `Conflict` where the status does not allow it, `NotFound` where nothing is left."""
    if try_move(tx, instance_id, event):
        return
    row = tx.row(sa.select(t.c.status, t.c.share_id).where(t.c.id == instance_id))
    if row is None:
        raise errors.NotFound(resource="Share instance", id=instance_id)
    raise errors.Conflict(resource="Share", id=row.share_id, event=event.replace("_", " "), status=row.status)


def reset(tx: Tx, instance_id: str, status: str) -> None:
    """An operator's word: set the status by hand. Raises `Invalid` for one that cannot be set."""
    if status not in RESETTABLE:
        raise errors.Invalid(f"Status {status!r} cannot be set; choose one of: {', '.join(RESETTABLE)}.")
    tx.execute(sa.update(t).where(t.c.id == instance_id).values(status=status, status_rank=status_rank(status), updated_at=tx.now))


def update(tx: Tx, instance_id: str, values: Mapping[str, Any]) -> None:
    """Change anything but the status."""
    tx.execute(sa.update(t).where(t.c.id == instance_id).values(updated_at=tx.now, **values))


def delete(tx: Tx, instance_id: str) -> None:
    """The row, its export locations with it."""
    tx.execute(sa.delete(t).where(t.c.id == instance_id))


COLUMNS: dict[str, sa.ColumnElement[Any]] = {column.name: column for column in t.c}


@functools.lru_cache(maxsize=64)
def _select(names: tuple[str, ...]) -> sa.Select[Any]:
    return sa.select(*[COLUMNS[name] for name in names])


def show(tx: Tx, instance_id: str, names: tuple[str, ...]) -> sa.Row[Any] | None:
    """The columns `names` of one instance, or None."""
    return tx.row(_select(names).where(t.c.id == instance_id))


def find(
    tx: Tx,
    names: tuple[str, ...],
    *,
    share_id: str | None = None,
    instance_ids: Sequence[str] | None = None,
    is_soft_deleted: bool | None = None,
) -> Sequence[sa.Row[Any]]:
    """Instances, newest first."""
    statement = _select(names).order_by(t.c.created_at.desc(), t.c.id.desc())
    if share_id is not None:
        statement = statement.where(t.c.share_id == share_id)
    if instance_ids is not None:
        statement = statement.where(t.c.id.in_(instance_ids))
    if is_soft_deleted is not None:
        statement = statement.join(shares, shares.c.id == t.c.share_id).where(shares.c.is_soft_deleted.is_(is_soft_deleted))
    return tx.rows(statement)


_WHOLE = (
    sa.select(
        t,
        shares.c.project_id,
        shares.c.user_id,
        shares.c.size,
        shares.c.share_proto,
        shares.c.mount_point_name,
        shares.c.metadata,
        share_types.c.extra_specs,
    )
    .join(shares, shares.c.id == t.c.share_id)
    .outerjoin(share_types, share_types.c.id == t.c.share_type_id)
)


def whole(tx: Tx, instance_id: str) -> sa.Row[Any] | None:
    """An instance with what its driver is told of the share."""
    return tx.row(_WHOLE.where(t.c.id == instance_id))


def busy_without_operation(tx: Tx, service_host: str, most: int = 500) -> Sequence[sa.Row[Any]]:
    """Instances of a back end in a busy status that no live operation explains."""
    live = sa.exists().where(
        operations.c.key == share_instances.c.share_id, operations.c.state.in_(("queued", "running"))
    )
    statement = (
        sa.select(t.c.id, t.c.share_id, t.c.status)
        .where(
            t.c.status.in_(sorted(SHARE_INSTANCE.busy)), t.c.host.startswith(service_host + "#", autoescape=True), ~live
        )
        .limit(most)
    )
    return tx.rows(statement)


def rules_without_operation(tx: Tx, service_host: str, pending: Sequence[str], most: int = 500) -> Sequence[sa.Row[Any]]:
    """Instances of a back end whose share has rules on their way that no live operation carries."""
    live = sa.exists().where(operations.c.key == t.c.share_id, operations.c.state.in_(("queued", "running")))
    statement = (
        sa.select(t.c.id, t.c.share_id)
        .distinct()
        .join(access_rules, access_rules.c.share_id == t.c.share_id)
        .where(access_rules.c.state.in_(pending), t.c.host.startswith(service_host + "#", autoescape=True), ~live)
        .limit(most)
    )
    return tx.rows(statement)
