# SPDX-License-Identifier: Apache-2.0
"""Lists of one kind of thing: any columns, filters and pages of it, each combination compiled to SQL once.

    TYPES = Listing(
        catalog_tables.share_types,
        filters={"name": equal(share_types.c.name), "name_like": contains(share_types.c.name)},
        sorts=("name", "created_at"),
    )
    rows = TYPES.rows(tx, ("id", "name"), {"name_like": "gold"}, page)
    row = TYPES.one(tx, ("id", "name"), {"id": share_type_id})
    share_type = TYPES.entity(tx, ShareType, {"id": share_type_id})

Rows are tuples in the order of the columns asked for: what the API shows, whose versions decide on the columns.
Entities have the columns that their fields are called like; whoever works with what is found asks for those.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import visitors
from sqlalchemy.sql.functions import FunctionElement

from abaca import errors
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Column, Entity, Row, Select, planned_for_values

# How many statements a listing keeps; a statement is some kilobytes.
REMEMBERED = 512


class Page(NamedTuple):
    """Which part of a list, in which order. `marker` is the key of the last row of the page before."""

    limit: int
    offset: int = 0
    marker: str | None = None
    sort_key: str = "created_at"
    descending: bool = True


class _Order(NamedTuple):
    """What of a page stands in the SQL."""

    name: str
    descending: bool
    limit: int
    is_after: bool
    is_offset: bool


class Filter(NamedTuple):
    """A condition on rows. `clause(name)` is SQL with a bind parameter of that name.

    `shape(value)` is what of the value must be known to write the SQL, `bind(name, value)` the parameters; the defaults
    fit a plain value.
    """

    clause: Callable[[str, Any], sa.ColumnElement[bool]]
    shape: Callable[[Any], Hashable] = lambda _value: None
    bind: Callable[[str, Any], Mapping[str, object]] = lambda name, value: {name: value}


def equal(column: Column) -> Filter:
    """The column is the value; null matches null."""
    return Filter(
        lambda name, is_null: column.is_(None) if is_null else column == sa.bindparam(name, type_=column.type),
        shape=lambda value: value is None,
    )


def contains(column: Column) -> Filter:
    """The value is somewhere in the text, capitals or not."""
    return Filter(
        lambda name, _: sa.func.lower(column).like(sa.bindparam(name, type_=sa.String()), escape="\\"),
        bind=lambda name, value: {name: f"%{_escaped(str(value).lower())}%"},
    )


def one_of(column: Column) -> Filter:
    """The column is one of the values of a sequence."""
    return Filter(
        lambda name, _: column.in_(sa.bindparam(name, type_=column.type, expanding=True)),
        bind=lambda name, values: {name: list(values)},
    )


def begins(column: Column) -> Filter:
    """The column is an id that begins so. Both ends are whole ids, so that an index serves in every collation."""

    def whole(beginning: str, filler: str) -> str:
        return beginning + re.sub("x", filler, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")[len(beginning) :]

    return Filter(
        lambda name, _: column.between(sa.bindparam(f"{name}_low"), sa.bindparam(f"{name}_high")),
        bind=lambda name, value: {f"{name}_low": whole(str(value), "0"), f"{name}_high": whole(str(value), "f")},
    )


def since(column: Column) -> Filter:
    """At or after a time."""
    return Filter(lambda name, _: column >= sa.bindparam(name, type_=column.type))


def before(column: Column) -> Filter:
    """At or before a time."""
    return Filter(lambda name, _: column <= sa.bindparam(name, type_=column.type))


class _member(FunctionElement[str]):  # noqa: N801 (a function of SQL)
    """The text under a key of a JSON object; the key is a parameter, so that it may hold any character."""

    type = sa.String()
    inherit_cache = True


@compiles(_member, "sqlite")
def _in_sqlite(element: _member, compiler: sa.sql.compiler.SQLCompiler, **options: object) -> str:
    column, key = (compiler.process(part, **options) for part in element.clauses)
    return f"(SELECT value FROM json_each({column}) WHERE key = {key})"  # noqa: S608 (compiled SQL, the key is bound)


@compiles(_member, "postgresql")
def _in_postgresql(element: _member, compiler: sa.sql.compiler.SQLCompiler, **options: object) -> str:
    column, key = (compiler.process(part, **options) for part in element.clauses)
    return f"({column} ->> {key})"


def has_pairs(column: Column) -> Filter:
    """The JSON object in the column has all pairs of a dictionary."""

    def text(name: str) -> sa.BindParameter[str]:
        return sa.bindparam(name, type_=sa.String())

    def clause(name: str, number: int) -> sa.ColumnElement[bool]:
        pairs = (_member(column, text(f"{name}_key{at}")) == text(f"{name}_value{at}") for at in range(number))
        return sa.and_(sa.true(), *pairs)

    def bind(name: str, pairs: Mapping[str, str]) -> dict[str, str]:
        keys = {f"{name}_key{at}": key for at, key in enumerate(pairs)}
        return keys | {f"{name}_value{at}": value for at, value in enumerate(pairs.values())}

    return Filter(clause, shape=len, bind=bind)


def where(write: Callable[[str], sa.ColumnElement[bool]]) -> Filter:
    """Any condition with one bind parameter, whose name `write` gets."""
    return Filter(lambda name, _: write(name))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


class Listing:
    """What can be asked of one kind of thing."""

    def __init__(
        self,
        source: sa.FromClause,
        *,
        columns: Mapping[str, Column] | None = None,
        filters: Mapping[str, Filter] | None = None,
        sorts: Sequence[str] = ("created_at",),
        key: str = "id",
        unless: tuple[frozenset[str], sa.ColumnElement[bool]] | None = None,
    ) -> None:
        """`columns` are added to those of `source`; each name in `sorts` is one of them; `key` is unique.

        `unless` is a condition that is added where none of some filters is asked for.
        """
        self._source = source
        self._columns: dict[str, Column] = {**{c.name: c for c in source.columns}, **(columns or {})}
        self._filters = {key: equal(self._columns[key]), **(filters or {})}
        self._sorts = frozenset(sorts)
        self._key = key
        self._unless = unless
        self._statement = functools.lru_cache(REMEMBERED)(self._write)
        self._counting = functools.lru_cache(REMEMBERED)(self._write_count)

    def rows(
        self, tx: Tx, columns: tuple[str, ...], asked: Mapping[str, object], page: Page | None = None
    ) -> Sequence[Row]:
        """The rows that meet all conditions in `asked`, in order. Raises Invalid for an order that is not offered."""
        return tx.rows(*self._ask(tx, columns, asked, page))

    def one(self, tx: Tx, columns: tuple[str, ...], asked: Mapping[str, object]) -> Row | None:
        """The first row that meets all conditions, or None."""
        return tx.row(*self._ask(tx, columns, asked, None))

    def entities(
        self, tx: Tx, entity: type[Entity], asked: Mapping[str, object], page: Page | None = None
    ) -> list[Entity]:
        """The same as `rows`, each as an entity with the columns that its fields are called like."""
        return tx.entities(entity, *self._ask(tx, entity.__struct_fields__, asked, page))

    def entity(self, tx: Tx, entity: type[Entity], asked: Mapping[str, object]) -> Entity | None:
        """The same as `one`, as an entity."""
        return tx.entity(entity, *self._ask(tx, entity.__struct_fields__, asked, None))

    def _ask(
        self, tx: Tx, columns: tuple[str, ...], asked: Mapping[str, object], page: Page | None
    ) -> tuple[Select, dict[str, object]]:
        """The statement and its parameters."""
        shape, parameters = self._shape(asked)
        if page is None:
            return self._statement(columns, shape, None), parameters
        if page.sort_key not in self._sorts:
            raise errors.Invalid(f"'sort_key' must be one of: {', '.join(sorted(self._sorts))}.")
        after = self._after(tx, page)
        if after is not None:
            parameters |= {"page_after": after[0], "page_after_key": after[1]}
        elif page.offset:
            parameters["page_offset"] = page.offset
        order = _Order(page.sort_key, page.descending, page.limit, after is not None, "page_offset" in parameters)
        return self._statement(columns, shape, order), parameters

    def count(self, tx: Tx, asked: Mapping[str, object]) -> int:
        """How many rows meet all conditions."""
        shape, parameters = self._shape(asked)
        return int(tx.scalar(self._counting(shape), parameters))

    def _after(self, tx: Tx, page: Page) -> Row | None:
        """Where the page before ended, or None: then the offset counts. A marker that is gone is no marker."""
        if page.marker is None or getattr(self._columns[page.sort_key], "nullable", True):
            return None
        return self.one(tx, (page.sort_key, self._key), {self._key: page.marker})

    def _shape(self, asked: Mapping[str, object]) -> tuple[tuple[tuple[str, Hashable], ...], dict[str, object]]:
        shape: list[tuple[str, Hashable]] = []
        parameters: dict[str, object] = {}
        for name, value in asked.items():
            condition = self._filters[name]
            form = condition.shape(value)
            shape.append((name, form))
            parameters.update(condition.bind(name, value))
        return tuple(shape), parameters

    def _conditions(self, shape: tuple[tuple[str, Hashable], ...]) -> list[sa.ColumnElement[bool]]:
        found = [self._filters[name].clause(name, form) for name, form in shape]
        if self._unless is not None and self._unless[0].isdisjoint(name for name, _ in shape):
            found.append(self._unless[1])
        return found

    def _write(self, columns: tuple[str, ...], shape: tuple[tuple[str, Hashable], ...], order: _Order | None) -> Select:
        statement = sa.select(*(self._columns[name].label(name) for name in columns)).select_from(self._source)
        conditions = self._conditions(shape)
        if order is None:
            return statement.where(*conditions)
        # The key breaks ties, so that pages never overlap.
        by = [self._columns[order.name], self._columns[self._key]]
        if order.is_after:
            ends = (sa.bindparam("page_after", type_=by[0].type), sa.bindparam("page_after_key", type_=by[1].type))
            place, end = sa.tuple_(*by), sa.tuple_(*ends)
            conditions.append(place < end if order.descending else place > end)
        if order.is_offset and self._is_of_key_table([*conditions, *by]):
            # what is skipped is not joined
            page = _cut(sa.select(by[1]).where(*conditions), by, order).subquery()
            return _ordered(statement.where(by[1].in_(sa.select(page))), by, order)
        return _cut(statement.where(*conditions), by, order)

    def _write_count(self, shape: tuple[tuple[str, Hashable], ...]) -> Select:
        conditions = self._conditions(shape)
        # what is joined takes nothing away
        source = self._key_table if self._is_of_key_table(conditions) else self._source
        return planned_for_values(sa.select(sa.func.count()).select_from(source).where(*conditions))

    @property
    def _key_table(self) -> Any:
        return self._columns[self._key].table

    def _is_of_key_table(self, clauses: Sequence[Column]) -> bool:
        parts = (part for clause in clauses for part in visitors.iterate(clause))
        return all(part.table is self._key_table for part in parts if isinstance(part, sa.Column))


def _ordered(statement: Select, by: Sequence[Column], order: _Order) -> Select:
    return statement.order_by(*(column.desc() if order.descending else column.asc() for column in by))


def _cut(statement: Select, by: Sequence[Column], order: _Order) -> Select:
    """One page of it.

    Limit and offset stand in the text, because PostgreSQL plans for a tenth of the table when it does not know them.
    Limits are few; a text for each offset would push out the others, so that is put in every time.
    """
    cut = _ordered(statement, by, order).limit(sa.literal_column(str(int(order.limit)), sa.BigInteger()))
    if not order.is_offset:
        return cut
    return cut.offset(sa.bindparam("page_offset", type_=sa.BigInteger(), literal_execute=True))
