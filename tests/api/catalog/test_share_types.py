# SPDX-License-Identifier: Apache-2.0
"""What of share types no request shows."""

from tests.api.world import PROJECT, world

NEWEST = {"x-openstack-manila-api-version": "2.99"}


def test_a_type_that_is_deleted_leaves_no_quota_and_no_count(tmp_path):
    with world(tmp_path, worker=False) as made:

        def ask(who, method, path, body=None):
            answer = made.ask(who, method, path, body, **NEWEST)
            assert answer.status in (200, 202), answer.body
            return answer.body

        kind = {"name": "gold", "extra_specs": {"driver_handles_share_servers": "False"}}
        gold = ask("admin", "POST", "/types", {"share_type": kind})["share_type"]["id"]
        ask("admin", "PUT", f"/quota-sets/{PROJECT}?share_type=gold", {"quota_set": {"shares": 5}})
        share = ask("member", "POST", "/shares", {"share": {"share_proto": "NFS", "size": 1, "share_type": "gold"}})
        ask("member", "DELETE", f"/shares/{share['share']['id']}")
        left = "SELECT (SELECT count(*) FROM {0} WHERE scope = 'type:{1}')"
        assert made.number(left.format("quotas", gold)) == 1
        assert made.number(left.format("quota_usages", gold)) == 1
        ask("admin", "DELETE", f"/types/{gold}")
        assert made.number(left.format("quotas", gold)) == 0
        assert made.number(left.format("quota_usages", gold)) == 0
