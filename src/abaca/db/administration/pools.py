# SPDX-License-Identifier: Apache-2.0
"""The pools: what workers report, and the room that shares take in them.

`claim` is one guarded UPDATE: two requests at the same moment cannot be given the same room. A report brings fresh
figures without forgetting what was claimed and is not in them yet. Claim late in a transaction, after quotas.py.
"""

from __future__ import annotations

import datetime
import functools
import types
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
import sqlalchemy as sa

from abaca.db.administration import services
from abaca.db.catalog import quotas
from abaca.db.engine.database import Tx, insert_into
from abaca.db.engine.statements import Row, planned_for_values
from abaca.db.journal import operations
from abaca.db.tables.administration import pools
from abaca.db.tables.administration import services as service_rows
from abaca.db.tables.shares import share_instances, shares
from abaca.domain.administration.pools import Claim, Pool, host_of
from abaca.domain.catalog.quotas import Counts


class Stats(Protocol):
    """A pool as a driver reports it; sizes in GiB, None where the back end cannot tell."""

    @property
    def name(self) -> str: ...

    @property
    def total_gib(self) -> float | None: ...

    @property
    def free_gib(self) -> float | None: ...

    @property
    def capabilities(self) -> Mapping[str, object]: ...


# Capabilities come as text, because the same text needs no second reading.
_READ = (
    sa.select(
        pools.c.host,
        pools.c.service_host,
        pools.c.total_gib,
        pools.c.free_gib,
        pools.c.claimed_gib,
        pools.c.provisioned_gib,
        sa.cast(pools.c.capabilities, sa.Text).label("capabilities"),
        pools.c.updated_at,
        services.is_up().label("is_up"),
        services.is_back_soon().label("is_back_soon"),
        service_rows.c.disabled,
        service_rows.c.availability_zone,
    )
    .join(
        service_rows,
        sa.and_(service_rows.c.host == pools.c.service_host, service_rows.c.binary == services.SHARE_BINARY),
    )
    .order_by(pools.c.host)
)
_READ_SOME = _READ.where(pools.c.host.in_(sa.bindparam("hosts", expanding=True)))
_READ_ONE = _READ.where(pools.c.host == sa.bindparam("host"))


def read_for_scheduling(tx: Tx, service_down_time_s: int, hosts: Sequence[str] | None = None) -> list[Pool]:
    """All pools, or those of the names, in one look.

    A service without a heartbeat for `service_down_time_s` is down.
    """
    parameters = services.down_before(tx, service_down_time_s)
    if hosts is None:
        return [_pool(row) for row in tx.rows(_READ, parameters)]
    return [_pool(row) for row in tx.rows(_READ_SOME, {**parameters, "hosts": hosts})]


def reported(tx: Tx, capability: str) -> dict[str, object]:
    """What pools tell of themselves under the name of a capability; those that tell nothing are left out."""
    found = ((row.host, _capabilities(row.capabilities).get(capability)) for row in tx.rows(_TOLD))
    return {host: value for host, value in found if value is not None}


_TOLD = sa.select(pools.c.host, sa.cast(pools.c.capabilities, sa.Text).label("capabilities"))


def show(tx: Tx, host: str, service_down_time_s: int) -> Pool | None:
    """One pool, or None."""
    row = tx.row(_READ_ONE, {"host": host, **services.down_before(tx, service_down_time_s)})
    return None if row is None else _pool(row)


def _pool(row: Row) -> Pool:
    return Pool(
        host=row.host,
        service_host=row.service_host,
        is_up=bool(row.is_up),
        is_back_soon=bool(row.is_back_soon),
        is_disabled=row.disabled,
        availability_zone=row.availability_zone,
        total_gib=row.total_gib,
        free_gib=row.free_gib,
        claimed_gib=row.claimed_gib,
        provisioned_gib=row.provisioned_gib,
        capabilities=_capabilities(row.capabilities),
        reported_at=row.updated_at,
    )


@functools.lru_cache(maxsize=4096)
def _capabilities(text: str) -> Mapping[str, Any]:
    return types.MappingProxyType(msgspec.json.decode(text, type=dict[str, Any]))


_HAS_ROOM = sa.or_(
    pools.c.free_gib.is_(None),
    pools.c.free_gib - pools.c.claimed_gib - sa.bindparam("reserved") >= sa.bindparam("size"),
)
_HAS_ROOM_THIN = sa.and_(
    pools.c.provisioned_gib + sa.bindparam("size") <= sa.bindparam("provisionable"),
    sa.or_(
        pools.c.free_gib.is_(None),
        (pools.c.free_gib - sa.bindparam("reserved")) * sa.bindparam("ratio") >= sa.bindparam("size"),
    ),
)


def _claiming(room: sa.ColumnElement[bool]) -> sa.Update:
    return (
        sa.update(pools)
        .where(pools.c.host == sa.bindparam("pool"), room)
        .values(
            claimed_gib=pools.c.claimed_gib + sa.bindparam("size"),
            provisioned_gib=pools.c.provisioned_gib + sa.bindparam("size"),
        )
    )


_CLAIM = _claiming(_HAS_ROOM)
_CLAIM_THIN = _claiming(_HAS_ROOM_THIN)
_CLAIM_ANYWAY = _claiming(sa.true())


def claim(tx: Tx, wanted: Claim) -> bool:
    """Take the room; False, with nothing changed, where it is not there any more."""
    return tx.execute(_CLAIM if wanted.ratio is None else _CLAIM_THIN, _terms(wanted)).rowcount == 1


def take_and_claim(tx: Tx, taker: quotas.Taker, deltas: Counts, limits: Counts, wanted: Claim) -> bool:
    """`quotas.take` and then `claim`, in one statement where a network lies between. Raises `OverLimit`."""
    if tx.dialect == "postgresql":
        beside = quotas.Beside(_claim_text(is_thin=wanted.ratio is not None), _terms(wanted))
        return quotas.take_beside(tx, taker, deltas, limits, beside)
    quotas.take(tx, *taker, deltas, limits)
    return claim(tx, wanted)


def _terms(wanted: Claim) -> dict[str, object]:
    terms: dict[str, object] = {"pool": wanted.host, "size": wanted.size_gib, "reserved": wanted.reserved_gib}
    if wanted.ratio is None:
        return terms
    return {**terms, "ratio": wanted.ratio, "provisionable": wanted.provisionable_gib}


@functools.cache
def _claim_text(*, is_thin: bool) -> str:
    return str((_CLAIM_THIN if is_thin else _CLAIM).returning(pools.c.host))


def claim_anyway(tx: Tx, host: str, size_gib: int) -> None:
    """Count `size_gib` as taken whether or not there is room: a forced extension, a share that is taken into care."""
    tx.execute(_CLAIM_ANYWAY, {"pool": host, "size": size_gib})


# What a back end says of its pools.
_REPORTED = ("total_gib", "free_gib", "capabilities")
_LONG_AGO = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - the database's times are naive UTC
_RELEASE = (
    sa.update(pools)
    .where(pools.c.host == sa.bindparam("pool"))
    .values(
        provisioned_gib=pools.c.provisioned_gib - sa.bindparam("size"),
        # What was claimed since the last report is not in its figures, so it can be given to the next one at once.
        claimed_gib=sa.case(
            (
                sa.and_(pools.c.updated_at < sa.bindparam("claimed_at"), pools.c.claimed_gib >= sa.bindparam("size")),
                pools.c.claimed_gib - sa.bindparam("size"),
            ),
            else_=pools.c.claimed_gib,
        ),
    )
)


def release(tx: Tx, host: str, size_gib: int, claimed_at: datetime.datetime | None = None) -> None:
    """Give room back: a share is gone, or has become smaller by `size_gib`.

    The room is free to others with the back end's next report; at once when it was taken after the last one, which the
    caller says with `claimed_at`.
    """
    tx.execute(_RELEASE, {"pool": host, "size": size_gib, "claimed_at": claimed_at or _LONG_AGO})


_KNOWN = sa.select(pools.c.host).where(pools.c.service_host == sa.bindparam("service")).order_by(pools.c.host)
_LOCK = _KNOWN.with_for_update()
# Instances whose size the back end's figures may lack: they were on their way when it was asked.
_UNSETTLED = ("creating", "creating_from_snapshot", "manage_starting", "migrating_to")
_ON = share_instances.join(shares, shares.c.id == share_instances.c.share_id)
_SUM = sa.select(sa.func.coalesce(sa.func.sum(shares.c.size), 0)).select_from(_ON)
# few among very many, so each by its index; what never changed since it came is on its way
_ON_THEIR_WAY = sa.union(
    sa.select(share_instances.c.id).where(share_instances.c.status.in_(_UNSETTLED)),
    sa.select(share_instances.c.id).where(share_instances.c.updated_at >= sa.bindparam("taken_at")),
)
_IS_HERE = sa.func.substr(share_instances.c.host, 1, sa.bindparam("length", type_=sa.Integer())) == sa.bindparam(
    "start"
)
_LATE = planned_for_values(
    sa.select(share_instances.c.host, sa.func.sum(shares.c.size).label("size"))
    .select_from(_ON)
    .where(share_instances.c.id.in_(_ON_THEIR_WAY), _IS_HERE)
    .group_by(share_instances.c.host)
)
_FRESH = (
    sa.update(pools)
    .where(pools.c.host == sa.bindparam("pool"))
    .values(
        {
            "updated_at": sa.bindparam("at"),
            "claimed_gib": sa.bindparam("claimed"),
            **{name: sa.bindparam(f"new_{name}", type_=pools.c[name].type) for name in _REPORTED},
        }
    )
)
_CLOSE = (
    sa.update(pools)
    .where(pools.c.host == sa.bindparam("pool"))
    .values(total_gib=0.0, free_gib=0.0, claimed_gib=sa.bindparam("claimed"))
)
_FORGET = sa.delete(pools).where(
    pools.c.service_host == sa.bindparam("service"),
    pools.c.host.in_(sa.bindparam("gone", expanding=True)),
    ~sa.exists().where(share_instances.c.host == pools.c.host).correlate(pools),
)


def report(tx: Tx, service_host: str, stats: Sequence[Stats], taken_at: datetime.datetime | None = None) -> None:
    """Bring a back end's pools up to its own figures. `taken_at` is the time before it was asked for them.

    What was claimed and cannot be in those figures stays claimed. A pool that vanished is removed; while shares live in
    it, it stays without room. Who takes room waits meanwhile, so only what is on its way is summed.
    """
    taken_at = taken_at or tx.now
    found = {host_of(service_host, one.name): one for one in stats}
    known = {row.host for row in tx.rows(_KNOWN, {"service": service_host})}
    new = [_new(tx, service_host, host, one) for host, one in found.items() if host not in known]
    if new:
        tx.execute(_adding(tx.dialect), new)
    # or a claim that commits meanwhile would be missed by the sum below
    gone = [row.host for row in tx.rows(_LOCK, {"service": service_host}) if row.host not in found]
    if gone:
        tx.execute(_FORGET, {"service": service_host, "gone": gone})
    claimed = _claimed(tx, service_host, taken_at)
    if gone:
        tx.execute(_CLOSE, [{"pool": host, "claimed": claimed.get(host, 0)} for host in gone])
    if found:
        rows = [
            {"pool": host, "at": taken_at, "claimed": claimed.get(host, 0)}
            | {f"new_{name}": value for name, value in _figures(one).items()}
            for host, one in found.items()
        ]
        tx.execute(_FRESH, rows)


def _claimed(tx: Tx, service_host: str, taken_at: datetime.datetime) -> dict[str, int]:
    """By pool, what was taken and may be in no figures: what is on its way, and by how much shares are to grow."""
    start = f"{service_host}#"
    late = tx.rows(_LATE, {"taken_at": taken_at, "start": start, "length": len(start)})
    claimed = {str(row.host): int(row.size) for row in late}
    for one in operations.extensions(tx, service_host):
        claimed[one.host] = claimed.get(one.host, 0) + one.difference_gib
    return claimed


def _figures(one: Stats) -> dict[str, object]:
    return {"total_gib": one.total_gib, "free_gib": one.free_gib, "capabilities": dict(one.capabilities)}


def _new(tx: Tx, service_host: str, host: str, one: Stats) -> dict[str, object]:
    named = {"host": host, "lives_on": host, "service_host": service_host, "name": one.name}
    return {**named, **_figures(one), "created_at": tx.now, "updated_at": tx.now}


@functools.cache
def _adding(dialect: str) -> sa.Executable:
    # A pool that comes back, or was never known, starts with what lives in it; nobody waits for it yet.
    lives = _SUM.where(share_instances.c.host == sa.bindparam("lives_on")).scalar_subquery()
    values = {"provisioned_gib": lives, "claimed_gib": 0}
    adding: sa.Executable = insert_into(pools, dialect).values(values).on_conflict_do_nothing()
    return adding


class Difference(NamedTuple):
    """A pool whose `provisioned_gib` is not what lives in it."""

    host: str
    counted: int
    real: int


_LOCK_ALL = sa.select(pools.c.host).order_by(pools.c.host).with_for_update()
_REAL = _SUM.where(share_instances.c.host == pools.c.host).correlate(pools).scalar_subquery()
# What an extension has claimed is not in any size yet.
_GROWING = sa.exists().where(
    share_instances.c.host == pools.c.host,
    sa.or_(share_instances.c.status == "extending", operations.extends(share_instances.c.share_id)),
)
_DIFFERENCES = (
    sa.select(pools.c.host, pools.c.provisioned_gib, _REAL)
    .where(pools.c.provisioned_gib != _REAL, ~_GROWING.correlate(pools))
    .order_by(pools.c.host)
)
_MEND = sa.update(pools).where(pools.c.host == sa.bindparam("pool")).values(provisioned_gib=sa.bindparam("real"))


def differences(tx: Tx, host: str | None = None) -> list[Difference]:
    """Where `provisioned_gib` is not the sum of the sizes; pools in which a share is being extended are left out.

    Of all pools, or of one.
    """
    wanted = _DIFFERENCES if host is None else _DIFFERENCES.where(pools.c.host == host)
    return [Difference._make(row) for row in tx.rows(wanted)]


def recount(tx: Tx, host: str | None = None) -> list[Difference]:
    """Make `provisioned_gib` the sum of the sizes that live in each pool; what was changed. For operators.

    Of all pools, or of one; requests wait for these. May run at any time: claims that are not committed yet come before
    it or after it.
    """
    tx.rows(_LOCK_ALL if host is None else _LOCK_ALL.where(pools.c.host == host))
    found = differences(tx, host)
    for one in found:
        tx.execute(_MEND, {"pool": one.host, "real": one.real})
    return found
