# SPDX-License-Identifier: Apache-2.0
"""From which addresses the shares of a back end can be mounted, and from which they are; the database counts."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from abaca.db.engine.database import Tx
from abaca.db.engine.statements import columns_of
from abaca.db.tables.attachments import attachments as t
from abaca.db.tables.shares import export_locations, share_instances
from abaca.domain.attachments.attachments import Attachment


class Mounted(NamedTuple):
    """How many attachments are mounted from an address, and how many of those are not active."""

    number: int
    not_active: int


class _address(FunctionElement[str]):  # noqa: N801 (a function of SQL)
    """What stands before the path in an export location; IPv6 in brackets."""

    type = sa.String()
    inherit_cache = True


@compiles(_address, "sqlite")
def _in_sqlite(element: _address, compiler: sa.sql.compiler.SQLCompiler, **options: object) -> str:
    (path,) = (compiler.process(part, **options) for part in element.clauses)
    return f"substr({path}, 1, instr({path} || ':/', ':/') - 1)"


@compiles(_address, "postgresql")
def _in_postgresql(element: _address, compiler: sa.sql.compiler.SQLCompiler, **options: object) -> str:
    (path,) = (compiler.process(part, **options) for part in element.clauses)
    return f"split_part({path}, ':/', 1)"


def exported(tx: Tx, service_host: str) -> dict[str, int]:
    """How many export locations of a back end (host@backend) are at each address."""
    return {_bare(row.address): row.number for row in tx.rows(_EXPORTED, _of(service_host))}


def mounted(tx: Tx, service_host: str) -> dict[str, Mounted]:
    """The attachments of shares of a back end by the address that they are mounted from."""
    rows = tx.rows(_MOUNTED, _of(service_host))
    return {_bare(row.address): Mounted(row.number, row.not_active) for row in rows}


def mounted_from(tx: Tx, service_host: str, address: str, most: int) -> list[Attachment]:
    """The oldest of those at an address, at most so many."""
    among = {**_of(service_host), "at": f"[{address}]" if ":" in address else address}
    return tx.entities(Attachment, _MOUNTED_FROM.limit(most), among)


def _of(service_host: str) -> dict[str, object]:
    return {"start": f"{service_host}#", "length": len(service_host) + 1}


def _bare(address: str) -> str:
    return address.removeprefix("[").removesuffix("]")


_IS_THERE = sa.func.substr(share_instances.c.host, 1, sa.bindparam("length", type_=sa.Integer())) == sa.bindparam(
    "start"
)
_EXPORTS_AT: sa.ColumnElement[str] = _address(export_locations.c.path)
_EXPORTED = (
    sa.select(_EXPORTS_AT.label("address"), sa.func.count().label("number"))
    .join_from(export_locations, share_instances, share_instances.c.id == export_locations.c.share_instance_id)
    .where(_IS_THERE, export_locations.c.is_admin_only.is_(False))
    .group_by(_EXPORTS_AT)
)
_IS_MOUNTED = sa.and_(t.c.source.is_not(None), sa.exists().where(share_instances.c.share_id == t.c.share_id, _IS_THERE))
_MOUNTED_AT: sa.ColumnElement[str] = _address(t.c.source)
_MOUNTED = (
    sa.select(
        _MOUNTED_AT.label("address"),
        sa.func.count().label("number"),
        sa.func.sum(sa.case((t.c.state == "active", 0), else_=1)).label("not_active"),
    )
    .where(_IS_MOUNTED)
    .group_by(_MOUNTED_AT)
)
_MOUNTED_FROM = (
    sa.select(*columns_of(Attachment, t))
    .where(_IS_MOUNTED, sa.bindparam("at", type_=sa.String()) == _MOUNTED_AT)
    .order_by(t.c.created_at, t.c.id)
)
