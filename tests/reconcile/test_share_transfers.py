# SPDX-License-Identifier: Apache-2.0
"""An offer of a share that nobody accepts in time is over, and the share is its project's as before."""

from abaca.api import versions
from abaca.db.tables.shares import share_transfers
from abaca.reconcile.expiry import Expiry
from tests import planting
from tests.api.world import world

NEWEST = {"x-openstack-manila-api-version": f"2.{versions.MAXIMUM}"}


def test_an_offer_that_nobody_accepts_in_time_is_over(tmp_path):
    with world(tmp_path, worker=True, more="transfer_retention_time = 86400") as made:

        def ask(method, path, body=None):
            return made.ask("member", method, path, body, **NEWEST)

        specs = {"driver_handles_share_servers": "False"}
        made.ask("admin", "POST", "/types", {"share_type": {"name": "default", "extra_specs": specs}}, **NEWEST)
        wish = {"share": {"share_proto": "NFS", "size": 1}}
        shares = [ask("POST", "/shares", wish).body["share"]["id"] for _ in range(2)]
        made.settle()
        offers = [ask("POST", "/share-transfers", {"transfer": {"share_id": one}}).body["transfer"] for one in shares]
        planting.put(made.db, share_transfers, share_transfers.c.id == offers[0]["id"], expires_at=made.db.now())
        keys = {"accept": {"auth_key": offers[0]["auth_key"]}}
        late = made.ask("other", "POST", f"/share-transfers/{offers[0]['id']}/accept", keys, **NEWEST)
        assert late.status == 400
        Expiry(made.db, (), keep_messages_s=1, keep_operations_s=1, keep_events_s=1).share_transfers()
        assert [ask("GET", f"/share-transfers/{one['id']}").status for one in offers] == [404, 200]
        found = [ask("GET", f"/shares/{one}").body["share"]["status"] for one in shares]
        assert found == ["available", "awaiting_transfer"]
