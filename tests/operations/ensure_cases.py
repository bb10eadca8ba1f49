# SPDX-License-Identifier: Apache-2.0
"""How back ends come to be ensured, for cases.py."""

HOST = "testhost@alpha"
SERVED = "testhost@served"


def ensure_served(theatre, _prepared):
    theatre.ask("POST", "/services/ensure-shares", {"host": SERVED}, who="admin")
    return str(theatre.ask("GET", f"/services?host={SERVED}", who="admin")["services"][0]["id"])


def ensure(theatre, _share_id):
    theatre.ask("POST", "/services/ensure-shares", {"host": "testhost@alpha"}, who="admin")
    return str(theatre.ask("GET", f"/services?host={HOST}", who="admin")["services"][0]["id"])


def ensure_dry(theatre, _share_id):
    body = {"host": "testhost@alpha", "dry_run": True}
    answer = theatre.world.ask("admin", "POST", "//abaca/v1/services/ensure-shares", body)
    assert answer.status == 202, answer
    return answer.body["operation"]["resource_id"]
