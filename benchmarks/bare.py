# SPDX-License-Identifier: Apache-2.0
"""The same answers from Falcon, Granian, SQLAlchemy Core and msgspec alone: what a read costs before Abaca adds to it.

No token, policy, microversion, filter or metric: one query of the columns that a share's answer needs, and its JSON.
Granian serves `app`; BARE_DATABASE is a SQLAlchemy address.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import falcon
import msgspec
import sqlalchemy as sa

from abaca.db.tables.catalog import share_types
from abaca.db.tables.shares import share_instances, shares

_better = share_instances.alias("better")
_speaks = sa.and_(
    share_instances.c.share_id == shares.c.id,
    ~sa.exists().where(
        _better.c.share_id == shares.c.id,
        sa.tuple_(_better.c.status_rank, _better.c.id) < sa.tuple_(share_instances.c.status_rank, share_instances.c.id),
    ),
)
_sibling = share_instances.alias("sibling")
_SHARES = (
    "id", "size", "name", "description", "project_id", "snapshot_id", "share_proto", "metadata", "is_public",
    "snapshot_support", "task_state", "replication_type", "user_id", "create_share_from_snapshot_support",
    "revert_to_snapshot_support", "share_group_id", "source_share_group_snapshot_member_id", "mount_snapshot_support",
    "is_soft_deleted", "scheduled_to_be_deleted_at", "source_backup_id", "created_at",
)  # fmt: skip
_INSTANCES = ("status", "access_rules_status", "availability_zone", "share_network_id", "share_type_id", "progress")
_ALL = (
    sa.select(
        *(shares.c[name] for name in _SHARES),
        *(share_instances.c[name] for name in _INSTANCES),
        share_types.c.name.label("share_type_name"),
        sa.exists()
        .where(
            _sibling.c.share_id == shares.c.id,
            _sibling.c.id != share_instances.c.id,
            _sibling.c.replica_state.is_not(None),
        )
        .label("has_replicas"),
    )
    .select_from(shares)
    .join(share_instances, _speaks)
    .outerjoin(share_types, share_types.c.id == share_instances.c.share_type_id)
)
_ONE = _ALL.where(shares.c.id == sa.bindparam("share"))
_PAGE = (
    _ALL.where(shares.c.project_id == sa.bindparam("project"), shares.c.is_soft_deleted == sa.false())
    .order_by(shares.c.created_at.desc(), shares.c.id.desc())
    .limit(sa.bindparam("most"))
)
_ENGINE = sa.create_engine(
    os.environ.get("BARE_DATABASE", "sqlite://"),
    isolation_level="AUTOCOMMIT",
    pool_size=8,
    pool_reset_on_return=None,
    json_deserializer=msgspec.json.decode,
)
_ENCODER = msgspec.json.Encoder()
_shown: Callable[[Any], dict[str, Any]] = dict


class One:
    """GET /shares/{id}."""

    def on_get(self, _request: falcon.Request, response: falcon.Response, share: str) -> None:
        with _ENGINE.connect() as connection:
            row = connection.execute(_ONE, {"share": share}).mappings().one()
        response.data = _ENCODER.encode({"share": _shown(row)})


class Page:
    """GET /shares/detail."""

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        asked = {"project": request.get_param("project"), "most": request.get_param_as_int("limit")}
        with _ENGINE.connect() as connection:
            rows = connection.execute(_PAGE, asked).mappings().all()
        response.data = _ENCODER.encode({"shares": [_shown(row) for row in rows]})


app: falcon.App[Any, Any] = falcon.App()
app.add_route("/shares/detail", Page())
app.add_route("/shares/{share}", One())
