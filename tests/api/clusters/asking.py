# SPDX-License-Identifier: Apache-2.0
"""What tests ask of clusters, and what these need first."""

import contextlib
import itertools

from abaca.db.attachments import servers
from tests.api import world as worlds
from tests.api.world import PROJECT
from tests.conftest import wait_until

NUMBERS = itertools.count(1)
NEWEST = {"x-openstack-manila-api-version": worlds.NEWEST}
SOON = """
longest_pause_s = 1
rehearsal_failures = mount:Unreachable:broken
"""


@contextlib.contextmanager
def service(directory):
    """A service with a worker, whose nodes are rehearsed and broken things tried again soon."""
    with worlds.world(directory, worker=True, more=f"[nodes]{SOON}") as made:
        specs = {"driver_handles_share_servers": "False"}
        made.ask("admin", "POST", "/types", {"share_type": {"name": "default", "extra_specs": specs}}, **NEWEST)
        yield made


DOOR = "//abaca/v1/clusters"


def server(world, *, name=None, project_id=PROJECT, ip=None, host=None, status="ACTIVE", **metadata):
    number = next(NUMBERS)
    name = name or f"m{number}"
    values = {"name": name, "project_id": project_id, "user_id": None, "status": status, "metadata": metadata}
    way_in = {
        "ssh_user": "root",
        "ssh_port": 22,
        "ssh_host": host or name,
        "host_key": "ssh-ed25519 AAAA",
        "key": "file:/k",
    }
    with world.db.write() as tx:
        address = ip or f"10.8.{number // 250}.{number % 250 + 1}"
        return servers.create(tx, {**values, **way_in}, [(address, "default")])


def share(world, who="member", proto="NFS"):
    wish = {"share": {"share_proto": proto, "size": 1}}
    share_id = world.ask(who, "POST", "/shares", wish, **NEWEST).body["share"]["id"]
    world.settle()
    return share_id


def wish(**more):
    return {"cluster": {"name": f"c{next(NUMBERS)}", **more}}


def made(world, status="active", **more):
    answer = world.ask("member", "POST", DOOR, wish(**more))
    assert answer.status == 202, answer
    return until(world, answer.body["cluster"]["id"], status)


def shown(world, cluster_id):
    return world.ask("member", "GET", f"{DOOR}/{cluster_id}").body["cluster"]


def until(world, cluster_id, status):
    def there():
        found = shown(world, cluster_id)
        return found if found["status"] == status else None

    return wait_until(there, 30)


def until_shown(world, cluster_id, **wanted):
    """What failed is tried again all the time, and is under way then."""

    def there():
        found = shown(world, cluster_id)
        return found if all(found[name] == value for name, value in wanted.items()) else None

    return wait_until(there, 30)


def until_said(world, cluster_id, what):
    return wait_until(lambda: what in ((shown(world, cluster_id)["error"] or {}).get("message") or ""), 30)


def changed(world, cluster_id, status="active", **more):
    answer = world.ask("member", "PATCH", f"{DOOR}/{cluster_id}", {"cluster": more})
    assert answer.status == 202, answer
    assert answer.body["cluster"]["status"] in ("creating", "changing")
    return until(world, cluster_id, status)


def on_nodes(world, cluster_id):
    """By server, its state and what is mounted there, with how."""
    found = world.ask("member", "GET", f"{DOOR}/{cluster_id}/nodes").body["nodes"]
    return {
        one["server_id"]: (one["state"], {s["path"]: (s["share_id"], s["access_level"]) for s in one["shares"]})
        for one in found
    }


def attachments(world, **asked):
    query = "&".join(f"{name}={value}" for name, value in asked.items())
    return world.ask("member", "GET", f"//abaca/v1/attachments?{query}").body["attachments"]


def rules(world, share_id):
    answer = world.ask("member", "GET", f"/share-access-rules?share_id={share_id}", **NEWEST)
    return {rule["access_to"]: (rule["access_level"], rule["state"]) for rule in answer.body["access_list"]}


def refused(world, status, **more):
    answer = world.ask("member", "POST", DOOR, wish(**more))
    assert answer.status == status, answer
    (refusal,) = answer.body.values()
    return refusal["message"]
