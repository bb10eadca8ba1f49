# SPDX-License-Identifier: Apache-2.0
"""A share that was just written down is shown without looking, and says what looking would say."""

import datetime

import pytest
import sqlalchemy as sa

from abaca.db.shares import share_instances, shares
from abaca.db.tables.catalog import share_types

NOW = datetime.datetime(2026, 1, 2)  # noqa: DTZ001
TYPE = {"id": "t", "name": "gold", "is_public": True, "extra_specs": {"snapshot_support": "True"}, "created_at": NOW}
SHARE = {"id": "s", "project_id": "p", "size": 3, "share_proto": "NFS"}
FULL = {
    **SHARE,
    "user_id": "u",
    "name": "ü",
    "description": "d",
    "is_public": True,
    "metadata": {"k": "v", "ü": '"'},
    "replication_type": None,
    "mount_point_name": "m",
    "snapshot_support": True,
}
INSTANCE = {"id": "i", "share_id": "s"}


@pytest.mark.parametrize("share", [SHARE, FULL], ids=["bare", "full"])
@pytest.mark.parametrize(
    "instance",
    [INSTANCE, {**INSTANCE, "host": "h@b#p", "availability_zone": "nova", "share_type_id": "t", "progress": None}],
    ids=["nowhere", "placed"],
)
def test_every_column_is_what_is_found(database, share, instance):
    names = tuple(shares.COLUMNS)
    with database.open().write() as tx:
        tx.execute(sa.insert(share_types), TYPE)
        its_type = shares.ItsType(TYPE["name"], TYPE["extra_specs"])
        if "share_type_id" not in instance:
            its_type = shares.ItsType(None, None)
        told = shares.show_added(shares.add(tx, share), share_instances.add(tx, instance), its_type, names)
        found = shares.show(tx, share["id"], names)
    assert told._asdict() == found._asdict()
    assert type(told).__name__ == type(found).__name__
