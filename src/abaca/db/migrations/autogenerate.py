# SPDX-License-Identifier: Apache-2.0
"""What Alembic's autogenerate must be told, so that what it writes needs little by hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import sqlalchemy as sa
from alembic.autogenerate import renderers
from alembic.operations import ops

from abaca import errors


def limit_on_postgresql(metadata: sa.MetaData) -> None:
    """A partial index has the same condition on PostgreSQL as on SQLite. Tables say it for SQLite only."""
    for table in metadata.tables.values():
        for index in table.indexes:
            where = index.dialect_options["sqlite"].get("where")
            if where is not None:
                index.dialect_kwargs["postgresql_where"] = where


class ExpectLargeProjects(ops.MigrateOperation):
    """PostgreSQL plans pages of the table as if each project had all rows."""

    def __init__(self, table: str) -> None:
        self.table = table


@renderers.dispatch_for(ExpectLargeProjects)
def _render(_context: Any, operation: ExpectLargeProjects) -> str:
    told = f"ALTER TABLE {operation.table} ALTER COLUMN project_id SET (n_distinct = 1)"
    return f'if op.get_context().dialect.name == "postgresql": op.execute("{told}")'


def complete(_context: Any, _revision: Any, directives: list[Any]) -> None:
    """A hook of Alembic: the revision with what Alembic cannot see.

    Raises `ConfigError` for a column that rows of today could not have.
    """
    for script in directives:
        _refuse_columns_without_values(script.upgrade_ops)
        upgrade = script.upgrade_ops
        upgrade.ops += [ExpectLargeProjects(table) for table in _of_projects(upgrade)]


def _walk(operations: Iterable[Any]) -> Iterator[Any]:
    for one in operations:
        yield one
        yield from _walk(getattr(one, "ops", ()))


def _refuse_columns_without_values(upgrade: Any) -> None:
    for one in _walk(upgrade.ops):
        if isinstance(one, ops.AddColumnOp) and not one.column.nullable and one.column.server_default is None:
            raise errors.ConfigError(
                problem=f"Rows of {one.table_name} have no value for the new column {one.column.name}",
                mend="Let it be NULL, or give it a server_default, which the release before writes by as well",
            )


def _of_projects(upgrade: Any) -> list[str]:
    """The tables that get the index of a project's rows in order."""
    made = (one for one in _walk(upgrade.ops) if isinstance(one, ops.CreateIndexOp))
    return sorted({one.table_name for one in made if one.index_name == f"ix_{one.table_name}_project_id_created_at_id"})
