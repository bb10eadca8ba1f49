# SPDX-License-Identifier: Apache-2.0
"""New rows of several tables in one statement.

A round trip costs PostgreSQL and its client as much as the row that it brings. So the rows that a transaction adds
(`Tx.add`) wait for its next statement, and go before that together: each INSERT but the last is a WITH clause of the
last. A statement that looks at none of them can take them along itself.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from abaca.db.engine import guard

# So many rows at most are added by one statement: its text grows with them, and the time to make it faster than they.
MOST = 8
Parameters = Mapping[str, object]
# A table and the columns that a new row of it sets.
_Kind = tuple[sa.Table, tuple[str, ...]]
Carrier = sa.Insert | sa.Update


class Added(NamedTuple):
    """A new row. With `permission` it may set states."""

    table: sa.Table
    row: Parameters
    permission: guard.Permission | None

    @property
    def kind(self) -> _Kind:
        return self.table, tuple(self.row)


def added(table: sa.Table, row: Parameters, permission: guard.Permission | None) -> Added:
    """A row to be added. Raises `StateWriteRefused` for a state that it must not set."""
    if permission is None and (states := guard.guarded_columns().get(table.name)) and not states.isdisjoint(row):
        raise guard.StateWriteRefused(f"{table.name}.{min(states.intersection(row))}")
    return Added(table, row, permission)


def alone(one: Added) -> tuple[Carrier, Parameters]:
    """The statement that adds one row."""
    return _alone(one.table), one.row


def together(found: Sequence[Added]) -> tuple[Carrier, Parameters]:
    """The statement that adds several rows."""
    return _together(tuple([one.kind for one in found])), _parameters(found)


def carried(statement: Carrier, parameters: Parameters, found: Sequence[Added]) -> tuple[Carrier, Parameters]:
    """The same statement, which looks at none of these rows, adding them as well."""
    return _carried(statement, tuple([one.kind for one in found])), {**parameters, **_parameters(found)}


def may_be_carried(statement: Carrier, found: Sequence[Added]) -> bool:
    """Whether the statement could not set states by the permission of one of these rows."""
    return str(statement.table) not in guard.guarded_columns() or all(one.permission is None for one in found)


def _parameters(found: Sequence[Added]) -> dict[str, object]:
    return {f"added{at}_{name}": value for at, one in enumerate(found) for name, value in one.row.items()}


@functools.cache
def _alone(table: sa.Table) -> sa.Insert:
    return sa.insert(table).inline()


def _insert(at: int, kind: _Kind) -> sa.Insert:
    table, names = kind
    values: dict[str, object] = {
        column.name: sa.literal(column.default.arg, column.type)
        for column in table.c
        if isinstance(column.default, sa.ColumnDefault) and column.default.is_scalar
    }
    values |= {name: sa.bindparam(f"added{at}_{name}", type_=table.c[name].type) for name in names}
    return sa.insert(table).values(values).inline()


@functools.lru_cache(maxsize=128)
def _together(kinds: tuple[_Kind, ...]) -> Carrier:
    last = len(kinds) - 1
    return _carried(_insert(last, kinds[last]), kinds[:last])


@functools.lru_cache(maxsize=128)
def _carried(statement: Carrier, kinds: tuple[_Kind, ...]) -> Carrier:
    return statement.add_cte(*(_insert(at, kind).cte(f"added{at}") for at, kind in enumerate(kinds)))
