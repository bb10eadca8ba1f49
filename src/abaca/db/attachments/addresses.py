# SPDX-License-Identifier: Apache-2.0
"""From which addresses the shares of a back end can be mounted, and from which they are."""

from __future__ import annotations

import sqlalchemy as sa

from abaca.db.engine.database import Tx
from abaca.db.engine.statements import columns_of
from abaca.db.tables.attachments import attachments as t
from abaca.db.tables.shares import export_locations, share_instances
from abaca.domain.attachments.attachments import Attachment
from abaca.domain.attachments.mount_instructions import split


def exported(tx: Tx, service_host: str) -> dict[str, int]:
    """How many shares of a back end (host@backend) can be mounted from each address."""
    found: dict[str, int] = {}
    for row in tx.rows(_EXPORTED, {"start": f"{service_host}#", "length": len(service_host) + 1}):
        address = split(row.path)[0]
        found[address] = found.get(address, 0) + 1
    return found


def mounted(tx: Tx, service_host: str) -> dict[str, list[Attachment]]:
    """The attachments of shares of a back end by the address that they are mounted from."""
    found: dict[str, list[Attachment]] = {}
    given = {"start": f"{service_host}#", "length": len(service_host) + 1}
    for row in tx.entities(Attachment, _MOUNTED, given):
        found.setdefault(split(row.source or "")[0], []).append(row)
    return found


def left_behind(tx: Tx, service_host: str) -> dict[str, list[Attachment]]:
    """Those of `mounted` at addresses that no share of the back end shows any more."""
    there = exported(tx, service_host)
    return {address: rows for address, rows in mounted(tx, service_host).items() if address not in there}


_IS_THERE = sa.func.substr(share_instances.c.host, 1, sa.bindparam("length", type_=sa.Integer())) == sa.bindparam(
    "start"
)
_EXPORTED = (
    sa.select(export_locations.c.path)
    .join(share_instances, share_instances.c.id == export_locations.c.share_instance_id)
    .where(_IS_THERE, export_locations.c.is_admin_only.is_(False))
)
_MOUNTED = (
    sa.select(*columns_of(Attachment, t))
    .where(t.c.source.is_not(None), sa.exists().where(share_instances.c.share_id == t.c.share_id, _IS_THERE))
    .order_by(t.c.created_at, t.c.id)
)
