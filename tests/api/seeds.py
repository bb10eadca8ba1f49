# SPDX-License-Identifier: Apache-2.0
"""A real thing of one project for each placeholder in a path, so that other projects can reach for it in vain.

A place is the path up to its placeholder: "/shares/{id}", "/shares/{id}/metadata/{key}".
"""

import re

from abaca.db.networks import share_servers
from abaca.domain.networks.share_servers import ShareServer
from tests.api.world import ELSEWHERE, PROJECT, World

# Nobody's in particular: share types are everybody's, and the routes to change them the administrators'.
OF_EVERYBODY = (
    "/types",
    "/flavors",
    "/quota-class-sets",
    "/os-quota-class-sets",
    "/quota-sets/{project_id}/defaults",
    "/os-quota-sets/{project_id}/defaults",
    "/event-targets",
    "/plugins",
    "/images",
)

# What is possible for fields that decide how far a request comes; anything else stays as it was made up.
POSSIBLE = {
    "share_proto": ["NFS", "CIFS"],
    "size": [1, 2],
    "share_type": ["garden", None],
    "volume_type": [None],
    "share_network_id": [None],
    "snapshot_id": [None],
    "share_group_id": [None],
    "availability_zone": [None, "nova"],
    "scheduler_hints": [None, {}],
    "mount_point_name": [None],
    "encryption_key_ref": [None],
    "metadata": [{"k": "v"}, {"other": "\U0001f4be"}],
    "meta": [{"k": "v"}],
    "access_type": ["ip"],
    "access_to": ["10.0.0.0/8", "10.9.8.7", "2001:db8::/32"],
    "access_level": ["ro", "rw"],
    "lock_visibility": [False, True],
    "lock_deletion": [False, True],
    "lock_reason": [None, "why"],
    "resource_action": [None, "delete", "show"],
    "new_size": [1, 2, 3],
    "status": ["available", "error"],
    "task_state": [None, "migration_success"],
    "force": [False],
    "host": ["testhost@alpha"],
    "binary": ["manila-share"],
    "extra_specs": [{"driver_handles_share_servers": "False"}, {"colour": "mauve"}],
    "is_public": [False],
}


def places(path: str) -> list[str]:
    """The places of a path, in order."""
    return [path[: found.end()] for found in re.finditer(r"{\w+}", path)]


def filled(path: str, things: dict[str, str]) -> str:
    """The path with its placeholders filled in."""
    for place in reversed(places(path)):
        start = place.rindex("{")
        path = path[:start] + things[place] + path[len(place) :]
    return path


def plant(world: World) -> dict[str, str]:
    """Make one of each kind; the ids by place."""
    things: dict[str, str] = {}
    able = (
        "snapshot",
        "create_share_from_snapshot",
        "revert_to_snapshot",
        "mount_snapshot",
    )
    specs = {"driver_handles_share_servers": "False", **{f"{name}_support": "True" for name in able}}
    _made(world, "admin", "/types", {"share_type": {"name": "default", "extra_specs": specs}})
    share = _made(world, "member", "/shares", {"share": {"share_proto": "NFS", "size": 1, "metadata": {"k": "v"}}})
    share_id = share["share"]["id"]
    world.settle()
    rule = {"allow_access": {"access_type": "ip", "access_to": "10.0.0.1"}}
    access = _made(world, "member", f"/shares/{share_id}/action", rule)["access"]
    world.settle()
    export = world.ask("member", "GET", f"/shares/{share_id}/export_locations", **NEWEST).body["export_locations"][0]
    instance = world.ask("admin", "GET", f"/shares/{share_id}/instances", **NEWEST).body["share_instances"][0]
    server_id = _server(world)
    things |= _networks(world)
    things |= _snapshot(world, share_id)
    things |= {
        "/shares/{id}": share_id,
        "/share-transfers/{id}": _transfer(world),
        "/share-group-types/{type_id}": _group_type(world),
        "/share-group-types/{type_id}/group-specs/{key}": "k",
        "/os-share-unmanage/{id}": share_id,
        "/shares/{id}/metadata/{key}": "k",
        "/shares/{id}/export_locations/{location_id}": export["id"],
        "/shares/{id}/export_locations/{location_id}/metadata/{key}": "preferred",
        "/share_instances/{id}": instance["id"],
        "/share_instances/{id}/export_locations/{location_id}": export["id"],
        "/share-access-rules/{id}": access["id"],
        "/share-access-rules/{id}/metadata/{key}": "k",
        "/resource-locks/{lock_id}": _lock(world, access["id"]),
        "/messages/{message_id}": _message(world),
        "/operations/{id}": _operation(world),
        "/attachments/{id}": _attachment(world, share_id, server_id),
        # of both doors that know clusters
        "/clusters/{id}": _cluster(world),
        "/cluster-templates/{id}": _template(world, "cluster"),
        "/node-group-templates/{id}": _template(world, "node-group"),
        # of both doors that know servers
        "/servers/{server_id}": server_id,
        "/servers/{server_id}/shares/{share_id}": share_id,
        "/services/{verb}": "disable",
        "/os-services/{verb}": "disable",
        # up: not to be removed
        "/services/{host}": "testhost@alpha",
        "/backends/{host}": "testhost@alpha",
        "/quota-sets/{project_id}": PROJECT,
        "/os-quota-sets/{project_id}": PROJECT,
    }
    return things


NEWEST = {"x-openstack-manila-api-version": "2.99"}


def _made(world: World, who: str, path: str, body: object) -> dict:
    answer = world.ask(who, "POST", path, body, **NEWEST)
    assert answer.status in (200, 202), answer.body
    return answer.body


def _networks(world: World) -> dict[str, str]:
    """A share network, its subnet, and a directory that it joins."""
    pairs = {"share-network-subnet": {"metadata": {"k": "v"}}}
    network = _made(world, "member", "/share-networks", {"share_network": {}})["share_network"]["id"]
    subnet = _made(world, "member", f"/share-networks/{network}/subnets", pairs)["share_network_subnet"]["id"]
    directory = _made(world, "member", "/security-services", {"security_service": {"type": "active_directory"}})
    service = directory["security_service"]["id"]
    join = {"add_security_service": {"security_service_id": service}}
    _made(world, "member", f"/share-networks/{network}/action", join)
    return {
        "/share-servers/{id}": _share_server(world),
        "/security-services/{id}": service,
        "/share-networks/{id}": network,
        "/share-networks/{id}/subnets/{subnet_id}": subnet,
        "/share-networks/{id}/subnets/{subnet_id}/metadata/{key}": "k",
    }


def _snapshot(world: World, share_id: str) -> dict[str, str]:
    """A snapshot of the share, and its instance."""
    wish = {"snapshot": {"share_id": share_id, "metadata": {"k": "v"}}}
    snapshot = _made(world, "member", "/snapshots", wish)["snapshot"]["id"]
    world.settle()
    instances = world.ask("admin", "GET", f"/snapshot-instances?snapshot_id={snapshot}", **NEWEST).body
    places = world.ask("member", "GET", f"/snapshots/{snapshot}/export-locations", **NEWEST).body
    place = places["share_snapshot_export_locations"][0]["id"]
    return {
        "/snapshots/{id}": snapshot,
        "/snapshots/{id}/metadata/{key}": "k",
        "/snapshots/{id}/export-locations/{location_id}": place,
        "/snapshot-instances/{id}": instances["snapshot_instances"][0]["id"],
        "/snapshot-instances/{id}/export-locations/{location_id}": place,
    }


def _share_server(world: World) -> str:
    """One on a share network of its own, which a back end of another worker makes."""
    network = _made(world, "member", "/share-networks", {"share_network": {}})["share_network"]
    values = {"project_id": PROJECT, "share_network_id": network["id"], "host": ELSEWHERE}
    able = dict.fromkeys((name for name in ShareServer.__struct_fields__ if name.endswith("_support")), True)
    with world.db.write() as tx:
        return share_servers.add(tx, {**values, **able}, [network["share_network_subnets"][0]["id"]])


def _cluster(world: World) -> str:
    """One that waits for servers."""
    wish = {"name": "mpi", "selector": {"name": "nosuch*"}, "allow_empty": True}
    return _made(world, "member", "//abaca/v1/clusters", {"cluster": wish})["cluster"]["id"]


def _template(world: World, kind: str) -> str:
    """One of clusters, or of node groups."""
    said = {"name": "mpi", "plugin_name": "abaca", "plugin_version": "1.0", "description": "x"}
    return next(iter(_made(world, "member", f"//data-processing/v2/{kind}-templates", said).values()))["id"]


def _message(world: World) -> str:
    """A share that no back end can hold leaves a message."""
    specs = {"driver_handles_share_servers": "False", "share_backend_name": "nosuch"}
    impossible = _made(world, "admin", "/types", {"share_type": {"name": "impossible", "extra_specs": specs}})
    wish = {"share_proto": "NFS", "size": 1, "share_type": impossible["share_type"]["id"]}
    _made(world, "member", "/shares", {"share": wish})
    world.settle()
    return world.ask("member", "GET", "/messages", **NEWEST).body["messages"][0]["id"]


def _transfer(world: World) -> str:
    """Another share, which is offered."""
    share = _made(world, "member", "/shares", {"share": {"share_proto": "NFS", "size": 1}})["share"]["id"]
    world.settle()
    return _made(world, "member", "/share-transfers", {"transfer": {"share_id": share}})["transfer"]["id"]


def _group_type(world: World) -> str:
    """A private share group type of the default share type."""
    wish = {"name": "grouped", "share_types": ["default"], "group_specs": {"k": "v"}, "is_public": False}
    return _made(world, "admin", "/share-group-types", {"share_group_type": wish})["share_group_type"]["id"]


def _lock(world: World, rule_id: str) -> str:
    """On a rule, which stays deletable."""
    wish = {"resource_lock": {"resource_id": rule_id, "resource_type": "access_rule", "resource_action": "show"}}
    return _made(world, "member", "/resource-locks", wish)["resource_lock"]["id"]


def _attachment(world: World, share_id: str, server_id: str) -> str:
    """The share, on a server of its project."""
    wish = {"attachment": {"share_id": share_id, "server_id": server_id}}
    attachment = _made(world, "member", "//abaca/v1/attachments", wish)["attachment"]
    world.settle()
    return attachment["id"]


def _server(world: World) -> str:
    """A machine of the inventory."""
    machine = {"name": "garden-gate", "addresses": ["10.0.0.9", "2001:db8::9"], "metadata": {"k": "v"}}
    answer = world.ask("admin", "POST", "//abaca/v1/servers", {"server": machine})
    assert answer.status in (201, 409), answer.body
    found = world.ask("admin", "GET", "//abaca/v1/servers?name=garden-gate").body["servers"]
    return found[0]["id"]


def _operation(world: World) -> str:
    """What was done to the share is an operation of its project."""
    return world.ask("member", "GET", "//abaca/v1/operations").body["operations"][0]["id"]
