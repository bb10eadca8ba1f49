# SPDX-License-Identifier: Apache-2.0
"""What projects have in use, counted in the transaction that uses it, and the limits that operators set.

`take` and `give_back` are one statement each. It locks the project's row first, so requests of one project queue up
there and cannot block each other in a ring; call it late in a transaction, before a pool's claim (pools.py).
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from abaca import errors
from abaca.db.engine.database import Tx, insert_into
from abaca.db.engine.statements import Column, Select
from abaca.db.journal import operations
from abaca.db.shares import metadata_figures
from abaca.db.tables.catalog import quota_usages, quotas
from abaca.db.tables.shares import share_instances, shares, snapshots
from abaca.domain.catalog import quotas as rules
from abaca.domain.catalog.quotas import COUNTED, DEFAULT_CLASS, KEYS, METADATA, PER_SHARE, PROJECT, Counts


def take(
    tx: Tx, project_id: str, user_id: str | None, share_type_id: str | None, deltas: Counts, defaults: Counts
) -> None:
    """Count `deltas` ({"shares": 1, "gigabytes": 5}) as used by the project, the user and the type in it.

    A share's size is compared with `per_share_gigabytes` too; when one grows, name its new size under that key.
    `METADATA` is counted of the project only. Raises `OverLimit`, and then the transaction must not commit. `defaults`
    are the configured limits.
    """
    _take(tx, Taker(project_id, user_id, share_type_id), deltas, defaults, None)


class Taker(NamedTuple):
    """Whose counts go up: the project's, those of the user in it, and those of the type in it."""

    project_id: str
    user_id: str | None
    share_type_id: str | None


class Beside(NamedTuple):
    """An UPDATE of PostgreSQL with RETURNING, as text, and its parameters: none named like a count."""

    sql: str
    parameters: Mapping[str, object]


def take_beside(tx: Tx, taker: Taker, deltas: Counts, defaults: Counts, beside: Beside) -> bool:
    """As `take`, with `beside` after it in the same statement, for a round trip less; whether that found its row."""
    return _take(tx, taker, deltas, defaults, beside) > 0


def _take(tx: Tx, taker: Taker, deltas: Counts, defaults: Counts, beside: Beside | None) -> int:
    checked = rules.checked(deltas)
    counted = {name: delta for name, delta in deltas.items() if name != PER_SHARE}
    scopes = rules.scopes(taker.user_id, taker.share_type_id)
    names = tuple(counted)
    parameters: Mapping[str, object] = _parameters(taker.project_id, scopes, counted)
    if beside is None:
        statement = _count(names, len(scopes), tuple(checked))
    else:
        statement = _count(names, len(scopes), tuple(checked), beside.sql)
        parameters = {**parameters, **beside.parameters}
    rows = tx.rows(statement, parameters)
    for row in rows:
        used: dict[str, int] = dict(zip(names, row[2:], strict=False))
        limits = row[2 + len(names) :]
        for (name, delta), own, of_class in zip(checked.items(), limits[::2], limits[1::2], strict=True):
            limit = own
            if limit is None and row[0] == PROJECT:
                limit = defaults[name] if of_class is None else of_class
            if rules.exceeded(name, limit, used.get(name, 0), delta):
                raise rules.over_limit(name, limit, used.get(name, 0), delta)
    return int(rows[0][1])


def take_or_forbid(
    tx: Tx, project_id: str, user_id: str | None, share_type_id: str | None, deltas: Counts, defaults: Counts
) -> None:
    """As `take`, but raises `Forbidden` where a count would be exceeded: what clients know of extend and revert."""
    try:
        take(tx, project_id, user_id, share_type_id, deltas, defaults)
    except errors.OverLimit as error:
        if error.code == rules.RESOURCES[PER_SHARE].code:
            raise
        raise errors.Forbidden(error.message) from None


def give_back(tx: Tx, project_id: str, user_id: str | None, share_type_id: str | None, deltas: Counts) -> None:
    """Count `deltas`, as they were taken, as no longer used."""
    scopes = rules.scopes(user_id, share_type_id)
    less = {name: -delta for name, delta in deltas.items()}
    tx.execute(_count(tuple(less), len(scopes), ()), _parameters(project_id, scopes, less))


def _parameters(project_id: str, scopes: Iterable[str], deltas: Counts) -> dict[str, str | int]:
    return {"project": project_id, **{f"scope_{at}": scope for at, scope in enumerate(scopes)}, **deltas}


@functools.lru_cache(maxsize=128)
def _count(names: tuple[str, ...], scopes: int, checked: tuple[str, ...], beside: str = "") -> sa.TextClause:
    """Add to the rows of all scopes, made where missing, in their order; then what they are and their limits.

    `beside` runs once the first of them is locked; how many rows it found stands in each.

    An upsert, because it takes the rows' locks in the order in which they are written here; an UPDATE would not.
    """
    columns = (*COUNTED, METADATA)
    rows = ", ".join(f"(:project, :scope_{at}, {_values(columns, names, at)})" for at in range(scopes))
    sums = ", ".join(f"{name} = quota_usages.{name} + excluded.{name}" for name in names)
    limits = [_NO_LIMITS if name == METADATA else _LIMITS.format(name=name) for name in checked]
    before, found = (f"WITH beside AS ({beside}) ", "(SELECT count(*) FROM beside)") if beside else ("", "0")
    return sa.text(
        f"{before}INSERT INTO quota_usages (project_id, scope, {', '.join(columns)}) VALUES {rows} "  # noqa: S608 - our own
        f"ON CONFLICT (project_id, scope) DO UPDATE SET {sums} "
        f"RETURNING {', '.join(['scope', found, *names, *limits])}"
    )


def _values(columns: Iterable[str], names: Iterable[str], scope: int) -> str:
    return ", ".join(f":{name}" if name in names and not (scope and name == METADATA) else "0" for name in columns)


# Of the project itself and of the default class; for what is no quota both are none, and the configured one holds.
_NO_LIMITS = "NULL, NULL"
_LIMITS = (
    "(SELECT own.hard_limit FROM quotas own WHERE own.project_id = quota_usages.project_id"
    " AND own.scope = quota_usages.scope AND own.resource = '{name}'), "
    "(SELECT of_class.hard_limit FROM quotas of_class WHERE of_class.project_id = ''"
    " AND of_class.scope = 'class:default' AND of_class.resource = '{name}')"
)


class Standing(NamedTuple):
    """How one scope stands: the limits that hold in it, and what it has in use."""

    limits: dict[str, int]
    in_use: dict[str, int]


_SET = sa.select(quotas.c.project_id, quotas.c.scope, quotas.c.resource, quotas.c.hard_limit).where(
    sa.or_(
        sa.and_(
            quotas.c.project_id == sa.bindparam("project"),
            quotas.c.scope.in_(sa.bindparam("scopes", expanding=True)),
        ),
        sa.and_(quotas.c.project_id == "", quotas.c.scope == DEFAULT_CLASS),
    )
)
_USED = sa.select(*(quota_usages.c[name] for name in COUNTED)).where(
    quota_usages.c.project_id == sa.bindparam("project"), quota_usages.c.scope == sa.bindparam("scope")
)


def limits(tx: Tx, project_id: str, scope: str, defaults: Counts) -> dict[str, int]:
    """The limits that hold in a scope of a project: its own over the project's, the default class's, the configured."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for row in tx.rows(_SET, {"project": project_id, "scopes": list({PROJECT, scope})}):
        found[row.scope][row.resource] = row.hard_limit
    return {**defaults, **found[DEFAULT_CLASS], **found[PROJECT], **found[scope]}


def usage(tx: Tx, project_id: str, scope: str = PROJECT) -> dict[str, int]:
    """What a scope of a project has in use."""
    row = tx.row(_USED, {"project": project_id, "scope": scope})
    return dict.fromkeys(COUNTED, 0) if row is None else dict(zip(COUNTED, row, strict=True))


def standing(tx: Tx, project_id: str, scope: str, defaults: Counts) -> Standing:
    """Limits and use of a scope of a project; two looks."""
    return Standing(limits(tx, project_id, scope, defaults), usage(tx, project_id, scope))


def class_limits(tx: Tx, name: str, defaults: Counts) -> dict[str, int]:
    """The limits of a quota class; those of the class `default` hold for every project without its own."""
    rows = tx.rows(
        sa.select(quotas.c.resource, quotas.c.hard_limit).where(
            quotas.c.project_id == "", quotas.c.scope == rules.class_scope(name)
        )
    )
    return {**defaults, **{row.resource: row.hard_limit for row in rows}}


def put(tx: Tx, project_id: str, scope: str, changed: Counts) -> None:
    """Set limits of a scope of a project; the others stay. The project "" has the quota classes."""
    if not changed:
        return
    insert = insert_into(quotas, tx.dialect)
    statement = insert.on_conflict_do_update(
        index_elements=["project_id", "scope", "resource"],
        set_={"hard_limit": insert.excluded.hard_limit, "updated_at": insert.excluded.updated_at},
    )
    same = {"project_id": project_id, "scope": scope, "updated_at": tx.now}
    tx.execute(statement, [{**same, "resource": name, "hard_limit": limit} for name, limit in changed.items()])


def remove(tx: Tx, project_id: str, scope: str) -> None:
    """Forget the limits of a scope; those of the project, when it is the scope, with all its users' and types'."""
    statement = sa.delete(quotas).where(quotas.c.project_id == project_id)
    tx.execute(statement if scope == PROJECT else statement.where(quotas.c.scope == scope))


def remove_type(tx: Tx, share_type_id: str) -> None:
    """Forget limits and counts of a share type that is gone, in all projects."""
    for table in (quotas, quota_usages):
        tx.execute(sa.delete(table).where(table.c.scope == rules.type_scope(share_type_id)))


class Scope(NamedTuple):
    """Whose uses are counted: a project's, or of it a user's or a share type's."""

    project_id: str
    scope: str


def prune(tx: Tx, most: int, after: Scope | None = None) -> Scope | None:
    """Forget, of the next `most` counts, those that count nothing; the last that was looked at, None at the end.

    One that somebody is counting in at this moment stays.
    """
    place = after or Scope("", "")
    found = tx.rows(_PAGE, {"project": place.project_id, "scope": place.scope, "most": most})
    unused = [{"project": row.project_id, "of_scope": row.scope} for row in found if not any(row[2:])]
    for one in unused:
        if tx.rows(_LOCK_UNUSED, one):
            tx.execute(_FORGET, one)
    return Scope(found[-1].project_id, found[-1].scope) if len(found) == most else None


_PLACE = (quota_usages.c.project_id, quota_usages.c.scope)
_PAGE = (
    sa.select(*_PLACE, *(quota_usages.c[name] for name in COUNTED))
    .where(sa.tuple_(*_PLACE) > sa.tuple_(sa.bindparam("project"), sa.bindparam("scope")))
    .order_by(*_PLACE)
    .limit(sa.bindparam("most"))
)
_IS_UNUSED = (
    quota_usages.c.project_id == sa.bindparam("project"),
    quota_usages.c.scope == sa.bindparam("of_scope"),
    *(quota_usages.c[name] == sa.literal_column("0") for name in COUNTED),
)
# nobody is waited for, so whatever the order nobody waits for each other
_LOCK_UNUSED = sa.select(quota_usages.c.scope).where(*_IS_UNUSED).with_for_update(skip_locked=True)
_FORGET = sa.delete(quota_usages).where(*_IS_UNUSED)


class Difference(NamedTuple):
    """A count that is not what the rows say."""

    project_id: str
    scope: str
    resource: str
    counted: int
    real: int


def _reality(project_id: str | None) -> Sequence[Select]:
    """What is really there, of one project or of all: owner, and one column for each resource.

    A resource without a line here is not recounted.
    """
    return (
        _sums(shares, shares.c.id, project_id, shares=sa.func.count(), gigabytes=sa.func.sum(shares.c.size)),
        _sums(
            snapshots,
            snapshots.c.share_id,
            project_id,
            snapshots=sa.func.count(),
            snapshot_gigabytes=sa.func.sum(snapshots.c.size),
        ),
    )


def _sums(table: sa.Table, share_id: Column, project_id: str | None, **sums: Column) -> Select:
    types = sa.select(share_instances.c.share_id, sa.func.min(share_instances.c.share_type_id).label("share_type_id"))
    if project_id is not None:
        types = types.where(share_instances.c.share_id.in_(sa.select(share_id).where(table.c.project_id == project_id)))
    of_share = types.group_by(share_instances.c.share_id).subquery()
    owner = (table.c.project_id, table.c.user_id, of_share.c.share_type_id)
    found = sa.select(*owner, *(one.label(name) for name, one in sums.items()))
    found = found.outerjoin(of_share, of_share.c.share_id == share_id).group_by(*owner)
    return found if project_id is None else found.where(table.c.project_id == project_id)


def _keys(project_id: str | None) -> Select:
    """How many keys the shares of one project, or of all, are encrypted with; users and types have no part in that."""
    number = sa.func.count(shares.c.encryption_key_ref.distinct()).label("number")
    found = sa.select(shares.c.project_id, number).where(shares.c.encryption_key_ref.is_not(None))
    found = found.group_by(shares.c.project_id)
    return found if project_id is None else found.where(shares.c.project_id == project_id)


_GROWING = (
    sa.select(shares.c.project_id)
    .distinct()
    .join(share_instances, share_instances.c.share_id == shares.c.id)
    .where(sa.or_(share_instances.c.status == "extending", operations.extends(shares.c.id)))
)


def differences(tx: Tx, project_id: str | None = None) -> list[Difference]:
    """Where a count is not what the rows say; sizes of a project that is extending a share are left out.

    Of all projects, or of one. Whoever changes something meanwhile may be told of: sure is what is found while nobody
    does (`hold`).
    """
    # before their sizes: what ends in between is left out, what begins has not been counted
    growing_of = _GROWING if project_id is None else _GROWING.where(shares.c.project_id == project_id)
    growing = set(tx.connection.execute(growing_of).scalars())
    real: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    known: dict[str, None] = {}
    for statement in _reality(project_id):
        for row in tx.rows(statement):
            counts = row._asdict()
            project, user, share_type = (counts.pop(key) for key in ("project_id", "user_id", "share_type_id"))
            for scope in rules.scopes(user, share_type):
                for name, count in counts.items():
                    real[project, scope][name] += int(count)
        known |= dict.fromkeys(statement.selected_columns.keys()[3:])
    for row in tx.rows(_keys(project_id)):
        real[row.project_id, PROJECT][KEYS] = row.number
    known[KEYS] = None
    for project, characters in metadata_figures.of_projects(tx, project_id).items():
        real[project, PROJECT][METADATA] = characters
    known[METADATA] = None
    usages = sa.select(quota_usages)
    usages = usages if project_id is None else usages.where(quota_usages.c.project_id == project_id)
    counted = {(row.project_id, row.scope): row._asdict() for row in tx.rows(usages)}
    return [
        Difference(*place, name, counted.get(place, {}).get(name, 0), real[place][name])
        for place in sorted({*real, *counted})
        for name in known
        if counted.get(place, {}).get(name, 0) != real[place][name]
        and not (name == "gigabytes" and place[0] in growing)
    ]


def hold(tx: Tx, project_id: str) -> None:
    """Nobody changes the counts of a project until this transaction ends."""
    tx.execute(_count(("shares",), 1, ()), {"project": project_id, "scope_0": PROJECT, "shares": 0})


def recount(tx: Tx, project_id: str | None = None) -> list[Difference]:
    """Make the counts what the rows say; what was changed. For operators, after a restore or a change by hand.

    Of one project, for which requests of that project wait. Of all it may run at any time, too: what is not committed
    yet comes before it or after it, and all requests wait. Call it before `pools.recount`.
    """
    if project_id is not None:
        hold(tx, project_id)
    elif tx.dialect == "postgresql":
        tx.execute(sa.text("LOCK TABLE quota_usages IN SHARE ROW EXCLUSIVE MODE"))
    found = differences(tx, project_id)
    for project, scope, name, counted, real in found:
        tx.execute(_count((name,), 1, ()), {"project": project, "scope_0": scope, name: real - counted})
    return found
