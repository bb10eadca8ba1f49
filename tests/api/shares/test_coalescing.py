# SPDX-License-Identifier: Apache-2.0
"""Rules that are posted together reach the back end together."""

from tests.api.world import PROJECT, working, world
from tests.conftest import wait_until

NEWEST = {"x-openstack-manila-api-version": "2.99"}


def test_a_hundred_rules_posted_while_the_back_end_is_away_are_one_call(tmp_path):
    """One operation waits for them all, and its end finds every rule in force."""
    with world(tmp_path, worker=False) as made:
        with working(made):
            made.ask(
                "admin",
                "POST",
                "/types",
                {"share_type": {"name": "default", "extra_specs": {"driver_handles_share_servers": "False"}}},
                **NEWEST,
            )
            share = made.ask("member", "POST", "/shares", {"share": {"share_proto": "NFS", "size": 1}}, **NEWEST).body[
                "share"
            ]["id"]
            wait_until(
                lambda: made.ask("member", "GET", f"/shares/{share}", **NEWEST).body["share"]["status"] == "available",
            )
        for number in range(100):
            rule = {"allow_access": {"access_type": "ip", "access_to": f"10.0.0.{number}"}}
            assert made.ask("member", "POST", f"/shares/{share}/action", rule, **NEWEST).status == 200
        assert made.number("SELECT count(*) FROM operations WHERE kind = 'access-rules-sync'") == 1
        with working(made):
            wait_until(lambda: made.number("SELECT count(*) FROM instance_access_rules WHERE state = 'active'") == 100)
        assert made.number("SELECT count(*) FROM operations WHERE kind = 'access-rules-sync'") == 1
        assert made.number("SELECT max(token) FROM operations WHERE kind = 'access-rules-sync'") == 1
        assert made.ask("member", "GET", f"/shares/{share}", **NEWEST).body["share"]["project_id"] == PROJECT
