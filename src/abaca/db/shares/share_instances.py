# SPDX-License-Identifier: Apache-2.0
"""The copies of a share on back ends: what they are, and how their states move."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import sqlalchemy as sa

from abaca.db.engine import lists, moving
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Column, Select, columns_of, joined, planned_for_values
from abaca.db.journal import keys
from abaca.db.journal.operations import ACTIVE
from abaca.db.tables.catalog import share_types
from abaca.db.tables.journal import operations
from abaca.db.tables.networks import share_servers
from abaca.db.tables.shares import (
    RULE_NOT_ACTIVE,
    RULES_SYNCING,
    driver_data,
    export_locations,
    instance_access_rules,
    shares,
)
from abaca.db.tables.shares import share_instances as t
from abaca.domain.shares.access_rules import PENDING
from abaca.domain.shares.share_instances import InstanceStatus, InstanceThere, PlacedInstance, ShareInstance
from abaca.domain.shares.shares import SHARE_INSTANCE

# What operations on one instance hold: keys of this kind.
INSTANCE_KEY = "share-instance"

STATUS = moving.Mover(t.c.status, "Share instance", conflict=("Share", t.c.share_id))
REPLICA_STATE = moving.Mover(t.c.replica_state, "Share replica")
RULES_STATUS = moving.Mover(t.c.access_rules_status, "Share instance")

move, try_move, move_many, reset = STATUS.move, STATUS.try_move, STATUS.move_many, STATUS.reset


def add(tx: Tx, values: Mapping[str, object], event: str = "create") -> Mapping[str, object]:
    """A new instance, which is being made or is there (`manage`); what its row says."""
    row = {"cast_rules_to_readonly": False, "created_at": tx.now, **values}
    moving.add(tx, t, row, _BORN[event])
    return {**row, **_STATES[event]}


_BORN = {event: {"status": event, "access_rules_status": "create"} for event in ("create", "manage")}
_STATES = {event: moving.states(t, born) for event, born in _BORN.items()}


def finish_manage(tx: Tx, instance_id: str) -> None:
    """`managed`; nothing where an operator has set another status meanwhile."""
    STATUS.try_move_along(tx, instance_id, "managed", {"progress": "100%"})


def finish_create(tx: Tx, instance_id: str) -> None:
    """`created`, with nothing left to copy; nothing where an operator has set another status meanwhile."""
    STATUS.try_move_along(tx, instance_id, "created", {"progress": "100%"})


def sync_rules(tx: Tx, share_id: str) -> list[PlacedInstance]:
    """Say that the rules of a share are on their way to the back ends of its instances; these."""
    return _SYNC_RULES.entities(tx, PlacedInstance, {"of_share": share_id, "at": tx.now})


_SYNC_RULES = RULES_STATUS.moves(
    "sync",
    t.c.share_id == sa.bindparam("of_share"),
    t.c.host.is_not(None),
    returning=columns_of(PlacedInstance, t),
)


def move_on_backend(tx: Tx, service_host: str, event: str) -> int:
    """Let `event` happen to all instances of a back end whose status allows it; how many."""
    return len(STATUS.moves(event, _is_on(service_host)).run(tx, {"at": tx.now}))


def update(tx: Tx, instance_id: str, values: Mapping[str, object]) -> None:
    """Change anything but its states."""
    tx.change(t, instance_id, values)


def lock(tx: Tx, instance_id: str) -> None:
    """Nobody else changes the instance until this transaction ends."""
    tx.rows(_LOCK, {"instance": instance_id})


_LOCK = sa.select(t.c.id).where(t.c.id == sa.bindparam("instance")).with_for_update()


def lock_of_share(tx: Tx, share_id: str) -> None:
    """Nobody else changes an instance of the share until this transaction ends."""
    tx.rows(_LOCK_OF_SHARE, {"of_share": share_id})


_LOCK_OF_SHARE = sa.select(t.c.id).where(t.c.share_id == sa.bindparam("of_share")).order_by(t.c.id).with_for_update()


class OfShare(msgspec.Struct, frozen=True, gc=False):
    """One instance of a share."""

    id: str
    replica_state: str | None


def of_share(tx: Tx, share_id: str) -> list[OfShare]:
    """The instances of a share, in the order of their ids."""
    return tx.entities(OfShare, _OF_SHARE, {"of_share": share_id})


_OF_SHARE = sa.select(*columns_of(OfShare, t)).where(t.c.share_id == sa.bindparam("of_share")).order_by(t.c.id)


def delete(tx: Tx, instance_id: str) -> None:
    """The row, its export locations with it."""
    tx.execute(_DELETE, {"instance": instance_id})


_DELETE = sa.delete(t).where(t.c.id == sa.bindparam("instance"))


def _exports(*conditions: sa.ColumnElement[bool]) -> Column:
    """All paths of an instance in one text, a line each."""
    return (
        sa.select(joined(export_locations.c.path, "\n"))
        .where(export_locations.c.share_instance_id == t.c.id, *conditions)
        .correlate(t)
        .scalar_subquery()
    )


def _with_export(column: str) -> lists.Filter:
    found = sa.select(export_locations.c.share_instance_id)
    return lists.where(
        lambda name: t.c.id.in_(found.where(export_locations.c[column] == sa.bindparam(name, type_=sa.String())))
    )


INSTANCES = lists.Listing(
    t.join(shares, shares.c.id == t.c.share_id),
    columns={
        **{column.name: column for column in t.c},
        "export_paths": _exports(export_locations.c.is_admin_only.is_(False)),
        "all_export_paths": _exports(),
    },
    filters={
        "share_id": lists.steady(lists.equal(t.c.share_id)),
        "is_soft_deleted": lists.flag(shares.c.is_soft_deleted)._replace(is_steady=False),
        "export_location_id": _with_export("id"),
        "export_location_path": _with_export("path"),
    },
    sorts=("created_at", "id", "host", "status"),
    unindexed=lists.Unindexed(on_sqlite=("is_soft_deleted",)),
)


# Of rows that are named by their ids the status is compared without its index, which SQLite would go through instead.
_STATUS = t.c.status.concat(sa.literal_column("''"))
_WHOLE = (
    sa.select(
        *columns_of(
            ShareInstance,
            t,
            shares,
            share_types,
            driver_data=driver_data.c.data,
            server_details=share_servers.c.details,
        )
    )
    .select_from(t)
    .join(shares, shares.c.id == t.c.share_id)
    .outerjoin(share_servers, share_servers.c.id == t.c.share_server_id)
    .outerjoin(driver_data, driver_data.c.resource_id == t.c.id)
    .outerjoin(share_types, share_types.c.id == t.c.share_type_id)
)
_WHOLE_ONE = _WHOLE.where(t.c.id == sa.bindparam("instance"))
_WHOLE_MANY = _WHOLE.where(t.c.id.in_(sa.bindparam("instances", expanding=True))).order_by(t.c.id)


def whole(tx: Tx, instance_id: str) -> ShareInstance | None:
    """An instance with what its driver is told of the share."""
    return tx.entity(ShareInstance, _WHOLE_ONE, {"instance": instance_id})


def whole_of(tx: Tx, instance_ids: Iterable[str]) -> list[ShareInstance]:
    """The same for many, in the order of their ids."""
    return tx.entities(ShareInstance, _WHOLE_MANY, {"instances": list(instance_ids)})


def _is_on(service_host: str) -> sa.ColumnElement[bool]:
    return t.c.host.startswith(service_host + "#", autoescape=True)


def page_of_backend(tx: Tx, service_host: str, after: str, most: int) -> list[InstanceStatus]:
    """The next instances of a back end whose ids follow `after`, in the order of ids."""
    return tx.entities(InstanceStatus, _page(service_host), {"after": after, "most": most})


@functools.lru_cache(64)
def _page(service_host: str) -> Select:
    following = sa.select(*columns_of(InstanceStatus, t)).where(_is_on(service_host), t.c.id > sa.bindparam("after"))
    return following.order_by(t.c.id).limit(sa.bindparam("most"))


def page_by_pools(tx: Tx, service_host: str, after: tuple[str, str], most: int) -> list[InstanceThere]:
    """The next instances of a back end whose pools and ids follow `after`, in the order of both.

    It costs what it finds, whatever other back ends have.
    """
    pool, instance_id = after
    given = {"first": f"{service_host}#", "beyond": f"{service_host}$", "pool": pool, "instance": instance_id}
    return tx.entities(InstanceThere, _BY_POOLS, {**given, "most": most})


# "$" comes right behind "#"
_BY_POOLS = (
    sa.select(*columns_of(InstanceThere, t))
    .where(
        t.c.host >= sa.bindparam("first"),
        t.c.host < sa.bindparam("beyond"),
        sa.tuple_(t.c.host, t.c.id) > sa.tuple_(sa.bindparam("pool", type_=sa.String), sa.bindparam("instance")),
    )
    .order_by(t.c.host, t.c.id)
    .limit(sa.bindparam("most"))
)


def known_on_backend(tx: Tx, service_host: str, instance_ids: Sequence[str]) -> set[str]:
    """Those of these ids that are instances of a back end."""
    if not instance_ids:
        return set()
    statement = sa.select(t.c.id).where(t.c.id.in_(sa.bindparam("instances", expanding=True)), _is_on(service_host))
    return {row.id for row in tx.rows(statement, {"instances": instance_ids})}


def count_on_backend(tx: Tx, service_host: str) -> int:
    """How many instances a back end has."""
    return int(tx.scalar(sa.select(sa.func.count()).select_from(t).where(_is_on(service_host))))


def hold_many(tx: Tx, instance_ids: Sequence[str], at: Sequence[str]) -> set[str]:
    """The ids of those whose status is one of `at`, with their rows locked until this transaction ends."""
    if not instance_ids:
        return set()
    return {row.id for row in tx.rows(_HOLD, {"instances": instance_ids, "at": at})}


_HOLD = (
    sa.select(t.c.id)
    .where(t.c.id.in_(sa.bindparam("instances", expanding=True)), _STATUS.in_(sa.bindparam("at", expanding=True)))
    .with_for_update()
)


_ensuring = sa.exists().where(
    operations.c.kind == "backend-ensure",
    operations.c.queue == sa.bindparam("on_queue"),
    # one that is paused works on none
    operations.c.state.in_(ACTIVE),
)
_has_no_operation = ~keys.is_held(INSTANCE_KEY, t.c.id)
# a sync leaves the status as it is, and so explains none
RULES_KIND = "access-rules-sync"
_is_busy_for_nothing = ~keys.is_held(INSTANCE_KEY, t.c.id, operations.c.kind != RULES_KIND)


def busy_without_operation(tx: Tx, service_host: str, most: int = 500) -> list[ShareInstance]:
    """Busy instances of a back end that no live operation explains."""
    return tx.entities(ShareInstance, _busy(service_host), {"on_queue": service_host, "most": most})


@functools.lru_cache(64)
def _busy(service_host: str) -> Select:
    found = _WHOLE.where(
        t.c.status.in_(sorted(SHARE_INSTANCE.busy)),
        _is_on(service_host),
        _is_busy_for_nothing,
        # that operation is about the whole back end
        sa.or_(t.c.status != "ensuring", ~_ensuring),
    )
    return planned_for_values(found.limit(sa.bindparam("most")))


def rules_without_operation(tx: Tx, service_host: str, most: int = 500) -> list[PlacedInstance]:
    """Instances of a back end with rules on their way that no live operation carries."""
    return tx.entities(PlacedInstance, _unsynced(service_host), {"most": most})


@functools.lru_cache(64)
def _unsynced(service_host: str) -> Select:
    # two small sets, each by its index: an OR would read every instance of the back end
    syncing = sa.select(t.c.id).where(RULES_SYNCING)
    rules = instance_access_rules.c
    pending = sa.select(rules.share_instance_id).where(RULE_NOT_ACTIVE, rules.state.in_(PENDING))
    return planned_for_values(
        sa.select(*columns_of(PlacedInstance, t))
        .where(t.c.id.in_(sa.union(syncing, pending)), _is_on(service_host), _has_no_operation)
        .limit(sa.bindparam("most"))
    )
