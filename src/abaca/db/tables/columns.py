# SPDX-License-Identifier: Apache-2.0
"""What the columns of all tables are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from abaca.domain.state_machine import StateMachine

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
metadata = sa.MetaData(naming_convention=NAMING)


def text(length: int) -> sa.String:
    """What only programs read: compared byte by byte, which makes a page a sixth cheaper than a language's order."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


ID = text(36)
KEY = text(255)
NAME = sa.String(255)
TIME = sa.DateTime()


def an_id() -> sa.Column[str]:
    """The primary key."""
    return sa.Column("id", ID, primary_key=True)


def times() -> tuple[sa.Column[object], sa.Column[object]]:
    """When it came, and when it changed last."""
    return sa.Column("created_at", TIME, nullable=False), sa.Column("updated_at", TIME)


_partial: list[tuple[sa.Index, sa.ColumnElement[bool]]] = []


def partial_index(name: str, where: sa.ColumnElement[bool], *columns: sa.Column[object]) -> sa.Index:
    """An index of only those rows of which `where` is true."""
    index = sa.Index(name, *columns, sqlite_where=where)
    _partial.append((index, where))
    return index


@sa.event.listens_for(metadata, "before_create")
def _limit_them_there_too(_metadata: sa.MetaData, connection: sa.Connection, **_: object) -> None:
    """Said here, because to say it above would load PostgreSQL's dialect in processes that run on SQLite."""
    if connection.dialect.name == "postgresql":
        for index, where in _partial:
            index.dialect_options["postgresql"]["where"] = where


def indexes_of_the_few(table: sa.Table, *names: str) -> None:
    """For columns that most rows have nothing in: an index of the others, which is no work for those."""
    for name in names:
        partial_index(f"ix_{table.name}_{name}", table.c[name].is_not(None), table.c[name])


# What finds a part of a text by an index, of PostgreSQL's extension pg_trgm.
TRIGRAMS = "gin_trgm_ops"
_extension = sa.DDL("CREATE EXTENSION IF NOT EXISTS pg_trgm")  # type: ignore[no-untyped-call]
sa.event.listen(metadata, "before_create", _extension.execute_if(dialect="postgresql"))

# Those that only PostgreSQL has, by name: `CREATE INDEX name ON <what>`.
ONLY_ON_POSTGRESQL: dict[str, str] = {}


def postgresql_index(table: sa.Table, name: str, what: str) -> None:
    """An index of a kind that SQLite does not have; `what` is its columns, `name` ends that of the index."""
    ONLY_ON_POSTGRESQL[f"ix_{table.name}_{name}"] = what
    made = sa.DDL(f"CREATE INDEX ix_{table.name}_{name} ON {table.name} {what}")  # type: ignore[no-untyped-call]
    sa.event.listen(table, "after_create", made.execute_if(dialect="postgresql"))


def known_together(table: sa.Table, *names: str) -> None:
    """PostgreSQL counts which values of these columns are often found in one row, instead of guessing it.

    It takes columns for independent: of a project with a tenth of all rows it expects a tenth of those with a text that
    this project alone has, thinks them few, and sorts them all. That costs no write anything: ANALYZE counts.
    """
    name = f"st_{table.name}_{'_'.join(names)}"
    made = sa.DDL(f"CREATE STATISTICS {name} (mcv) ON {', '.join(names)} FROM {table.name}")  # type: ignore[no-untyped-call]
    sa.event.listen(table, "after_create", made.execute_if(dialect="postgresql"))


def is_compared(_object: object, name: str | None, _kind: str, _reflected: bool, _other: object) -> bool:  # noqa: FBT001
    """What Alembic asks of each thing before it compares it: of those indexes only PostgreSQL knows."""
    return name not in ONLY_ON_POSTGRESQL


def expect_large_projects() -> None:
    """PostgreSQL plans a page once for all projects (engine/database.py): as if each had all rows, in their order.

    Otherwise it would think it cheaper to sort all of an average project's, which for a large one it is not.
    """
    for table in metadata.sorted_tables:
        if any(index.name == f"ix_{table.name}_project_id_created_at_id" for index in table.indexes):
            told = f"ALTER TABLE {table.name} ALTER COLUMN project_id SET (n_distinct = 1)"
            sa.event.listen(table, "after_create", sa.DDL(told).execute_if(dialect="postgresql"))  # type: ignore[no-untyped-call]


def order_indexes() -> None:
    """Have those of a table made in the order of their names, instead of one that differs from process to process.

    Of two that seem as good to SQLite the order decides, so that pages would cost more here than there.
    """
    for table in metadata.sorted_tables:
        table.indexes = sa.util.OrderedSet(sorted(table.indexes, key=lambda index: str(index.name)))


# ---------------------------------------------------------------- states: what only db/engine/moving.py writes


def state(name: str, machine: StateMachine, length: int = 32, **options: Any) -> sa.Column[Any]:
    """A column that moves by the machine's table. One that may be NULL is so while the machine says `none`."""
    return sa.Column(name, sa.String(length), **{"nullable": False, **options}, info={"machine": machine})


def beside(name: str, of: tuple[str, ...], value: Callable[..., int]) -> sa.Column[int]:
    """A small number that is written together with the states `of` of its row, of which it is the `value`."""
    return sa.Column(name, sa.SmallInteger, nullable=False, info={"of": of, "value": value})


def retired_state(name: str, length: int = 32) -> sa.Column[Any]:
    """A state of the release before, which nobody writes any more; a later migration takes it away."""
    return sa.Column(name, sa.String(length), info={"retired": True})


def is_guarded(column: sa.Column[Any]) -> bool:
    """Whether only the mover writes it."""
    return not {"machine", "of", "retired"}.isdisjoint(column.info)
