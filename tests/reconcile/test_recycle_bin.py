# SPDX-License-Identifier: Apache-2.0
"""Shares that stay in the recycle bin too long are deleted, and a deletion that nobody asked for may fail too."""

from tests.api.world import world
from tests.conftest import wait_until

NEWEST = {"x-openstack-manila-api-version": "2.99"}


def test_a_share_whose_time_is_over_is_deleted_and_a_failure_is_told_to_its_project(tmp_path):
    """Its project reads why it could not be deleted, although no request stands behind it."""
    more = "soft_deleted_share_retention_time = 1\ncheck_for_expired_shares_in_recycle_bin_interval = 1"
    with world(tmp_path, worker=True, more=more, backend="failures = delete:Refused:1") as made:
        specs = {"driver_handles_share_servers": "False"}
        made.ask("admin", "POST", "/types", {"share_type": {"name": "default", "extra_specs": specs}}, **NEWEST)
        wish = {"share": {"share_proto": "NFS", "size": 1}}
        path = f"/shares/{made.ask('member', 'POST', '/shares', wish, **NEWEST).body['share']['id']}"

        def status():
            return made.ask("member", "GET", path, **NEWEST).body["share"]["status"]

        wait_until(lambda: status() == "available")
        assert made.ask("member", "POST", f"{path}/action", {"soft_delete": None}, **NEWEST).status == 202
        wait_until(lambda: status() == "error_deleting")
        told = made.ask("member", "GET", "/messages", **NEWEST).body["messages"]
        assert [message["action_id"] for message in told] == ["007"]
        assert made.ask("member", "DELETE", path, **NEWEST).status == 202
        wait_until(lambda: made.ask("member", "GET", path, **NEWEST).status == 404)
