# SPDX-License-Identifier: Apache-2.0
"""Drivers get what is known of a share, whichever operation they work for."""

from abaca.db.shares import share_instances
from abaca.db.tables.shares import shares
from abaca.operations.shares.share_instances import contract_instance
from tests import planting
from tests.operations import cases

KEY = "3d9a0c2e-7d4c-4e0b-9e0c-0d0f5a9d7c11"


def test_the_key_that_a_share_is_encrypted_with_goes_with_it(theatre):
    theatre.enter()
    share_id = cases.a_share(theatre)
    theatre.leave()
    planting.put(theatre.db, shares, encryption_key_ref=KEY)
    with theatre.db.read() as tx:
        (row,) = share_instances.whole_of(tx, [one.id for one in share_instances.of_share(tx, share_id)])
    assert contract_instance(row).encryption_key_ref == KEY
