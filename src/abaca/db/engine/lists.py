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

import contextlib
import functools
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import visitors
from sqlalchemy.sql.functions import FunctionElement

from abaca import errors
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Column, Entity, Row, Select, planned_for_values

# How many statements a listing keeps; a statement is some kilobytes.
REMEMBERED = 512
# To skip so many rows takes long.
DEEP = 10_000
# The unique column of every list, and the filter by whose a row is.
_KEY, _PROJECT = "id", "project_id"


class Page(NamedTuple):
    """Which part of a list, in which order. `marker` is the key of the last row of the page before."""

    limit: int
    offset: int = 0
    marker: str | None = None
    sort_key: str = "created_at"
    descending: bool = True


class _Order(NamedTuple):
    """What of a page stands in the SQL; `after` is of how many columns the place is that it begins behind, or 0."""

    name: str
    descending: bool
    limit: int
    after: int
    is_offset: bool


class Filter(NamedTuple):
    """A condition on rows. `clause(name)` is SQL with a bind parameter of that name.

    `shape(value)` is what of the value must be known to write the SQL, `bind(name, value)` the parameters; the defaults
    fit a plain value. A filter `is_steady` when one plan is right for whatever value: a list with others is planned for
    its values, as very few rows may meet them, or very many. `find(tx, value)` looks up what the condition is about.
    No index serves for values that are `is_vague`.
    """

    clause: Callable[[str, Any], sa.ColumnElement[bool]]
    shape: Callable[[Any], Hashable] = lambda _value: None
    bind: Callable[[str, Any], Mapping[str, object]] = lambda name, value: {name: value}
    is_steady: bool = False
    find: Callable[..., object] | None = None
    is_vague: Callable[[object], bool] | None = None


def equal(column: Column) -> Filter:
    """The column is the value; null matches null."""
    return Filter(
        lambda name, is_null: column.is_(None) if is_null else column == sa.bindparam(name, type_=column.type),
        shape=lambda value: value is None,
    )


def steady(condition: Filter) -> Filter:
    """The same, where one plan is right for whatever value: an index leads to few rows, or has the list's order."""
    return condition._replace(is_steady=True)


def flag(column: Column) -> Filter:
    """The column is true, or false. It stands in the SQL, so that an index of only the true ones serves."""
    return Filter(lambda name, value: column.is_(bool(value)), shape=bool, bind=lambda name, value: {}, is_steady=True)


def contains(column: Column) -> Filter:
    """The value is somewhere in the text, capitals or not. Indexes are of three characters at a time."""
    return Filter(
        lambda name, _: sa.func.lower(column).like(sa.bindparam(name, type_=sa.String()), escape="\\"),
        bind=lambda name, value: {name: f"%{_escaped(str(value).lower())}%"},
        is_vague=lambda value: len(str(value)) < 3,
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


class _has_pairs(FunctionElement[bool]):  # noqa: N801 (a function of SQL)
    """Whether one JSON object of texts has all pairs of another."""

    type = sa.Boolean()
    inherit_cache = True


@compiles(_has_pairs, "sqlite")
def _in_sqlite(element: _has_pairs, compiler: sa.sql.compiler.SQLCompiler, **options: object) -> str:
    column, pairs = (compiler.process(part, **options) for part in element.clauses)
    has = f"SELECT 1 FROM json_each({column}) AS had WHERE had.key = asked.key AND had.value = asked.value"  # noqa: S608
    return f"NOT EXISTS (SELECT 1 FROM json_each({pairs}) AS asked WHERE NOT EXISTS ({has}))"  # noqa: S608


@compiles(_has_pairs, "postgresql")
def _in_postgresql(element: _has_pairs, compiler: sa.sql.compiler.SQLCompiler, **options: object) -> str:
    column, pairs = (compiler.process(part, **options) for part in element.clauses)
    return f"CAST({column} AS jsonb) @> CAST({pairs} AS jsonb)"


def has_pairs(column: Column) -> Filter:
    """The JSON object in the column has all pairs of a dictionary."""
    return Filter(
        lambda name, _: _has_pairs(column, sa.bindparam(name, type_=sa.String())),
        bind=lambda name, pairs: {name: msgspec.json.encode(pairs).decode()},
    )


def where(write: Callable[[str], sa.ColumnElement[bool]]) -> Filter:
    """Any condition with one bind parameter, whose name `write` gets."""
    return Filter(lambda name, _: write(name))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


class Unindexed(NamedTuple):
    """Filters, and orders as "by NAME", for which all is read that may be shown: by any database, or by SQLite.

    Of `together` it is so of the first with any of the others.
    """

    everywhere: tuple[str, ...] = ()
    on_sqlite: tuple[str, ...] = ()
    together: tuple[str, ...] = ()


class Listing:
    """What can be asked of one kind of thing."""

    def __init__(
        self,
        source: sa.FromClause,
        *,
        columns: Mapping[str, Column] | None = None,
        filters: Mapping[str, Filter] | None = None,
        sorts: Mapping[str, Sequence[str]] | Sequence[str] = ("created_at",),
        unless: tuple[frozenset[str], sa.ColumnElement[bool]] | None = None,
        unindexed: Unindexed | None = None,
    ) -> None:
        """`columns` are added to those of `source`, whose `id` is unique.

        `sorts` are the orders that are offered, each with the columns that make it, of which the last is unique; one
        without any, or that is just named, is of the column called so and the id. For the first there are indexes,
        whoever asks. `unless` is a condition that goes with it where none of some filters is asked for. `unindexed`
        says for which pages all is read that may be shown.
        """
        self._source = source
        self._columns: dict[str, Column] = {**{c.name: c for c in source.columns}, **(columns or {})}
        self._filters = {_KEY: steady(equal(self._columns[_KEY])), **(filters or {})}
        found = sorts if isinstance(sorts, Mapping) else dict.fromkeys(sorts, ())
        self._sorts = {name: tuple(by) or tuple(dict.fromkeys((name, _KEY))) for name, by in found.items()}
        self._usual = next(iter(self._sorts))
        self._unless = unless
        said = unindexed or Unindexed()
        self._unindexed, self._unindexed_on_sqlite = frozenset(said.everywhere), frozenset(said.on_sqlite)
        self._together = said.together[:1], frozenset(said.together[1:])
        self._vague = {name: one.is_vague for name, one in self._filters.items() if one.is_vague}
        self._statement = functools.lru_cache(REMEMBERED)(self._write)
        self._counting = functools.lru_cache(REMEMBERED)(self._write_count)

    @property
    def filters(self) -> frozenset[str]:
        """What it can be asked for."""
        return frozenset(self._filters)

    @property
    def sorts(self) -> frozenset[str]:
        """The orders that it offers."""
        return frozenset(self._sorts)

    def rows(
        self, tx: Tx, columns: tuple[str, ...], asked: Mapping[str, object], page: Page | None = None
    ) -> Sequence[Row]:
        """The rows that meet all conditions in `asked`, in order. Raises Invalid for an order that is not offered.

        Of pages for which much is read one is looked for at a time; raises `Unavailable`.
        """
        with self._turn(tx, asked, page):
            return tx.rows(*self._ask(tx, columns, asked, page))

    def one(self, tx: Tx, columns: tuple[str, ...], asked: Mapping[str, object]) -> Row | None:
        """The first row that meets all conditions, or None."""
        return tx.row(*self._ask(tx, columns, asked, None))

    def entities(
        self, tx: Tx, entity: type[Entity], asked: Mapping[str, object], page: Page | None = None
    ) -> list[Entity]:
        """The same as `rows`, each as an entity with the columns that its fields are called like."""
        with self._turn(tx, asked, page):
            return tx.entities(entity, *self._ask(tx, entity.__struct_fields__, asked, page))

    def entity(self, tx: Tx, entity: type[Entity], asked: Mapping[str, object]) -> Entity | None:
        """The same as `one`, as an entity."""
        return tx.entity(entity, *self._ask(tx, entity.__struct_fields__, asked, None))

    def _ask(
        self, tx: Tx, columns: tuple[str, ...], asked: Mapping[str, object], page: Page | None
    ) -> tuple[Select, dict[str, object]]:
        """The statement and its parameters."""
        shape, parameters = self._shape(tx, asked)
        if page is None:
            return self._statement(columns, shape, None), parameters
        if page.sort_key not in self._sorts:
            raise errors.Invalid(f"'sort_key' must be one of: {', '.join(sorted(self._sorts))}.")
        after = self._after(tx, page)
        parameters |= {f"page_after{at}": value for at, value in enumerate(after)}
        if page.offset and not after:
            parameters["page_offset"] = page.offset
        order = _Order(page.sort_key, page.descending, page.limit, len(after), "page_offset" in parameters)
        return self._statement(columns, shape, order), parameters

    def count(self, tx: Tx, asked: Mapping[str, object], most: int | None = None) -> int:
        """How many rows meet all conditions, counted to one beyond `most`.

        It may read them all, so one at a time counts; raises `Unavailable`.
        """
        shape, parameters = self._shape(tx, asked)
        with tx.turn():
            return int(tx.scalar(self._counting(shape, most), parameters))

    def _turn(self, tx: Tx, asked: Mapping[str, object], page: Page | None) -> contextlib.AbstractContextManager[None]:
        """What a page is to be looked for in."""
        return contextlib.nullcontext() if page is None or not self._reads_much(tx, asked, page) else tx.turn()

    def _reads_much(self, tx: Tx, asked: Mapping[str, object], page: Page) -> bool:
        """Whether what is read for a page grows with all that may be shown."""
        return (
            page.offset >= DEEP
            or not self._unindexed.isdisjoint(asked)
            or f"by {page.sort_key}" in self._unindexed
            or (_PROJECT in asked and self._is_of_another(page.sort_key))
            or any(name in asked and not self._together[1].isdisjoint(asked) for name in self._together[0])
            or any(name in asked and is_vague(asked[name]) for name, is_vague in self._vague.items())
            or (tx.dialect == "sqlite" and self._sqlite_reads_much(asked, page))
        )

    def _sqlite_reads_much(self, asked: Mapping[str, object], page: Page) -> bool:
        """Whether SQLite does; it goes by the index of a filter, whatever the order, and of two by that of either."""
        # nearly all that there is does not have a flag
        unindexed = {name for name in self._unindexed_on_sqlite if name in asked and asked[name] is not False}
        others = asked.keys() - (self._unindexed_on_sqlite - unindexed) - {_KEY, _PROJECT}
        if unindexed or len(others) > 1:
            return True
        # a flag leads to few, or to nearly all
        return page.sort_key != self._usual and any(
            not self._filters[name].is_steady or isinstance(asked[name], bool) for name in others
        )

    def _after(self, tx: Tx, page: Page) -> Row | tuple[()]:
        """Where the page before ended, or nothing: then the offset counts. A marker that is gone is no marker."""
        by = self._sorts[page.sort_key]
        if page.marker is None or any(getattr(self._columns[name], "nullable", True) for name in by):
            return ()
        return self.one(tx, by, {_KEY: page.marker}) or ()

    def _shape(self, tx: Tx, asked: Mapping[str, object]) -> tuple[tuple[tuple[str, Hashable], ...], dict[str, object]]:
        shape: list[tuple[str, Hashable]] = []
        parameters: dict[str, object] = {}
        for name, value in asked.items():
            condition = self._filters[name]
            said = value if condition.find is None else condition.find(tx, value)
            shape.append((name, condition.shape(said)))
            parameters.update(condition.bind(name, said))
        return tuple(shape), parameters

    def _conditions(self, shape: tuple[tuple[str, Hashable], ...]) -> list[sa.ColumnElement[bool]]:
        return [self._filters[name].clause(name, form) for name, form in shape]

    def _write(self, columns: tuple[str, ...], shape: tuple[tuple[str, Hashable], ...], order: _Order | None) -> Select:
        statement = sa.select(*(self._columns[name].label(name) for name in columns))
        conditions = self._conditions(shape)
        if order is None:
            return statement.select_from(self._source).where(*conditions)
        by = [self._columns[name] for name in self._sorts[order.name]]
        if self._is_of_another(order.name) and any(name == _PROJECT for name, _ in shape):
            # else the index of all projects would be walked, where those of this one may be at its far end
            by[0] = by[0].concat(sa.literal_column("''"))
        if order.after:
            ends = (sa.bindparam(f"page_after{at}", type_=column.type) for at, column in enumerate(by))
            place, end = sa.tuple_(*by), sa.tuple_(*ends)
            conditions.append(place < end if order.descending else place > end)
        is_steady = all(self._filters[name].is_steady for name, _ in shape)
        if self._unless is not None and self._unless[0].isdisjoint(name for name, _ in shape):
            # in another order it would lead SQLite to that index
            conditions += [] if is_steady and order.name != self._usual else [self._unless[1]]
        is_usual = order.name == self._usual and not order.is_offset
        if is_usual:
            found = _cut(statement.select_from(self._source).where(*conditions), by, order)
        else:
            found = self._keys_first(statement, conditions, by, order)
        return found if is_usual and is_steady else planned_for_values(found)

    def _keys_first(
        self, statement: Select, conditions: Sequence[sa.ColumnElement[bool]], by: Sequence[Column], order: _Order
    ) -> Select:
        """What is skipped or sorted is keys, joined as far as the conditions and the order need it."""
        key = self._columns[_KEY]
        keys = sa.select(key.label("key"), *(column.label(f"by{at}") for at, column in enumerate(by)))
        if not self._is_of_key_table([*conditions, *by]):
            keys = keys.select_from(self._source)
        page = _cut(keys.where(*conditions), by, order).subquery("page")
        # in the order of what was found: by the columns themselves SQLite would walk their index again
        found = statement.select_from(page.join(self._source, key == page.c.key))
        return _ordered(found, [page.c[f"by{at}"] for at in range(len(by))], order)

    def _write_count(self, shape: tuple[tuple[str, Hashable], ...], most: int | None) -> Select:
        conditions = self._conditions(shape)
        # what is joined takes nothing away
        source = self._key_table if self._is_of_key_table(conditions) else self._source
        if most is not None:
            found = sa.select(self._columns[_KEY]).select_from(source).where(*conditions)
            source, conditions = found.limit(sa.literal_column(str(most + 1), sa.BigInteger())).subquery("counted"), []
        return planned_for_values(sa.select(sa.func.count()).select_from(source).where(*conditions))

    def _is_of_another(self, sort: str) -> bool:
        """Whether an order begins with a column of a table that is joined, whose index knows no project."""
        first = self._columns[self._sorts[sort][0]] if sort in self._sorts else None
        return isinstance(first, sa.Column) and first.table is not self._key_table

    @property
    def _key_table(self) -> Any:
        return self._columns[_KEY].table

    def _is_of_key_table(self, clauses: Sequence[Column]) -> bool:
        parts = (part for clause in clauses for part in visitors.iterate(clause))
        return all(part.table is self._key_table for part in parts if isinstance(part, sa.Column))


def _ordered(statement: Select, by: Sequence[Column], order: _Order) -> Select:
    return statement.order_by(*(column.desc() if order.descending else column.asc() for column in by))


def _cut(statement: Select, by: Sequence[Column], order: _Order) -> Select:
    """One page of it.

    The limit stands in the text, because PostgreSQL plans for a tenth of the table when it does not know it.
    """
    cut = _ordered(statement, by, order).limit(sa.literal_column(str(int(order.limit)), sa.BigInteger()))
    if not order.is_offset:
        return cut
    return cut.offset(sa.bindparam("page_offset", type_=sa.BigInteger()))
