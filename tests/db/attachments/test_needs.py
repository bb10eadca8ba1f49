# SPDX-License-Identifier: Apache-2.0
"""What a share's attachments need of an address is found by the database, however many others there are."""

import pytest

from abaca.db.attachments import attachments
from tests.db.shares.test_access_rules import OTHER_SHARE, SHARE, a_share

NEEDED = [
    (SHARE, ["10.0.0.10"], "rw"),
    (SHARE, ["10.0.0.7", "fd77::1"], "ro"),
    (SHARE, ["10.0.0.7"], "rw"),
    (SHARE, ["10.30.0.0/16"], "ro"),
    (SHARE, ["10.30.0.0/16"], "ro"),
    (OTHER_SHARE, ["10.0.0.1"], "rw"),
]
EXPECTED = {"10.0.0.10": "rw", "10.0.0.7": "rw", "fd77::1": "ro", "10.30.0.0/16": "ro"}
# of another share, the beginning of one, in a network, of nobody
OTHERS = ["10.0.0.1", "10.30.0.1", "fd77::", "10.9.9.9"]


@pytest.fixture
def db(database):
    opened = database.open()
    a_share(opened)
    a_share(opened, OTHER_SHARE)
    common = {"project_id": "p", "user_id": None, "mode": "network"}
    with opened.write() as tx:
        for number, (share_id, addresses, level) in enumerate(NEEDED):
            its = {
                "share_id": share_id,
                "server_id": f"s{number}",
                "mount_point": f"/mnt/{number}",
                "tag": f"t{number}",
            }
            attachments.add(tx, {**common, **its, "addresses": addresses, "access_level": level})
    yield opened
    opened.close()


def test_who_may_write_counts_where_several_need_an_address(db):
    with db.read() as tx:
        assert attachments.needs(tx, SHARE, [*EXPECTED, *OTHERS]) == EXPECTED


def test_of_many_addresses_the_same_is_said(db):
    many = [f"10.1.0.{number}" for number in range(attachments.FEW)]
    with db.read() as tx:
        assert attachments.needs(tx, SHARE, [*EXPECTED, *OTHERS, *many]) == EXPECTED
        assert attachments.needs(tx, SHARE, []) == {}
