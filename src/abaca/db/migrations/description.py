# SPDX-License-Identifier: Apache-2.0
"""What a database's own catalog says of its schema, one line for each fact.

Two databases have the same schema exactly if they have the same lines. The order of a table's columns is not among
them: a migration adds a column at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import sqlalchemy as sa

_VERSION_TABLE = "alembic_version"
# Each gives lines of text. Names that PostgreSQL makes up for NOT NULL (contype n) say nothing.
_POSTGRESQL = (
    """
    SELECT concat_ws(' ', 'column', c.relname || '.' || a.attname, format_type(a.atttypid, a.atttypmod),
        'collate ' || l.collname, CASE WHEN a.attnotnull THEN 'not null' END,
        'default ' || pg_get_expr(d.adbin, d.adrelid), 'identity ' || nullif(a.attidentity::text, ''),
        'options ' || array_to_string(a.attoptions, ','))
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    LEFT JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_collation l ON l.oid = a.attcollation AND l.oid <> t.typcollation
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
    """,
    """
    SELECT concat_ws(' ', 'table', relname, 'options ' || array_to_string(reloptions, ','))
    FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
    """,
    """
    SELECT concat_ws(' ', 'constraint', c.relname || '.' || k.conname, pg_get_constraintdef(k.oid))
    FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
    WHERE c.relnamespace = 'public'::regnamespace AND k.contype <> 'n'
    """,
    "SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = 'public'",
    """
    SELECT 'sequence ' || sequencename || ' ' || data_type || ' by ' || increment_by
    FROM pg_sequences WHERE schemaname = 'public'
    """,
    "SELECT pg_get_statisticsobjdef(oid) FROM pg_statistic_ext WHERE stxnamespace = 'public'::regnamespace",
    "SELECT 'view ' || viewname || ' ' || definition FROM pg_views WHERE schemaname = 'public'",
    """
    SELECT 'trigger ' || pg_get_triggerdef(g.oid) FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid
    WHERE c.relnamespace = 'public'::regnamespace AND NOT g.tgisinternal
    """,
    """
    SELECT 'function ' || pg_get_functiondef(oid) FROM pg_proc
    WHERE pronamespace = 'public'::regnamespace AND prokind IN ('f', 'p')
    """,
)


def lines(connection: sa.Connection) -> set[str]:
    """Every table, column, constraint, index, statistic, view and trigger but Alembic's; of SQLite or PostgreSQL."""
    found = _postgresql(connection) if connection.dialect.name == "postgresql" else _sqlite(connection)
    return {" ".join(line.split()) for line in found if _VERSION_TABLE not in line}


def _postgresql(connection: sa.Connection) -> Iterator[str]:
    for query in _POSTGRESQL:
        yield from (str(row[0]) for row in connection.execute(sa.text(query)))


def _sqlite(connection: sa.Connection) -> Iterator[str]:
    inspector = sa.inspect(connection)
    for table in inspector.get_table_names():
        yield f"table {table}"
        yield from _sqlite_columns(connection, table)
        key = inspector.get_pk_constraint(table)
        yield f"constraint {table}.{key['name']} primary key {key['constrained_columns']}"
        for unique in inspector.get_unique_constraints(table):
            yield f"constraint {table}.{unique['name']} unique {unique['column_names']}"
        for foreign in inspector.get_foreign_keys(table):
            to = f"{foreign['referred_table']}{foreign['referred_columns']} {foreign['options']}"
            yield f"constraint {table}.{foreign['name']} foreign key {foreign['constrained_columns']} to {to}"
        for check in inspector.get_check_constraints(table):
            yield f"constraint {table}.{check['name']} check {check['sqltext']}"
        yield from _sqlite_indexes(connection, table)
    made = "SELECT type || ' ' || sql FROM sqlite_master WHERE type IN ('view', 'trigger')"
    yield from (str(row[0]) for row in connection.execute(sa.text(made)))


def _sqlite_columns(connection: sa.Connection, table: str) -> Iterator[str]:
    collations = dict(re.findall(r'"?(\w+)"? [^,]*?\bCOLLATE "?(\w+)', _sql(connection, table)))
    for row in connection.execute(sa.text("SELECT * FROM pragma_table_xinfo(:name)"), {"name": table}):
        words = [f"column {table}.{row.name} {row.type}", f"collate {collations.get(row.name, 'none')}"]
        words += ["not null"] if row.notnull else []
        words += [f"default {row.dflt_value}"] if row.dflt_value is not None else []
        yield " ".join(words)


def _sqlite_indexes(connection: sa.Connection, table: str) -> Iterator[str]:
    """Those that were made as indexes; those behind constraints are in the constraints' lines."""
    found = sa.text("SELECT * FROM pragma_index_list(:name) WHERE origin = 'c'")
    for index in connection.execute(found, {"name": table}).all():
        columns = connection.execute(
            sa.text("SELECT * FROM pragma_index_xinfo(:name) WHERE key = 1 ORDER BY seqno"), {"name": index.name}
        )
        of = [f"{one.name} {one.coll}{' desc' if one.desc else ''}" for one in columns]
        condition = re.split(r"\bWHERE\b", _sql(connection, index.name), maxsplit=1, flags=re.IGNORECASE)[1:]
        kind = "unique index" if index.unique else "index"
        yield f"{kind} {index.name} on {table} {of} where {condition}"


def _sql(connection: sa.Connection, name: str) -> str:
    statement = sa.text("SELECT sql FROM sqlite_master WHERE name = :name")
    return str(connection.execute(statement, {"name": name}).scalar_one())
