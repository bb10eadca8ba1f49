# SPDX-License-Identifier: Apache-2.0
"""What users of GlusterFS shares see of Heketi that is slow or refuses, with doubles of Heketi and of its nodes."""

import os

import pytest

from lab import caller, gluster_bed, heketi, runs, service
from tests.clients import command
from tests.conftest import wait_until

PROJECT = "a1" * 16
SHOWN_S = 120
KIB = 1 << 20
MANY = 20


@pytest.fixture(scope="module")
def bed():
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED on this machine: only root can clean up after a run")
    with runs.Run() as run:
        made = gluster_bed.Bed(run.directory / "bed")
        made.run = run
        yield made
        made.close()


@pytest.fixture(scope="module")
def cloud(bed):
    directory = bed.run.path("abaca")
    passwords = service.write_users(directory / "users", {"admin": (PROJECT, "admin")})
    sections = {
        "DEFAULT": {
            "host": "here",
            "auth_strategy": "http_basic",
            "http_basic_auth_user_file": directory / "users",
            "default_share_type": "default",
            "enabled_share_backends": "gluster",
            "enabled_share_protocols": "GLUSTERFS",
        },
        "gluster": {"driver": "glusterfs", "driver_handles_share_servers": False, "concurrency": 2, **bed.section()},
    }
    with service.Service(bed.run, sections, directory=directory) as abaca:
        bed.admin = admin = caller.Caller(abaca.url, caller.basic("admin", passwords["admin"]))
        caller.ensure_type(admin)
        caller.wait_for_pools(admin, SHOWN_S)
        command.write_clouds(
            directory / "clouds.yaml", {"admin": command.basic(abaca.url, "admin", passwords["admin"])}
        )
        yield command.Cloud(directory / "clouds.yaml", "admin")


def test_many_shares_are_made_together_by_few_threads_which_others_have_meanwhile(bed, cloud):
    first = cloud.read("share", "create", "GLUSTERFS", "1")["id"]
    wait_until(lambda: cloud.read("share", "show", first)["status"] == "available", SHOWN_S, 0.5)
    bed.heketi.is_held = True
    shares = [cloud.read("share", "create", "GLUSTERFS", "1")["id"] for _ in range(MANY)]
    wait_until(lambda: len(bed.heketi.works) == heketi.MOST_IN_FLIGHT, SHOWN_S)
    rule = cloud.read("share", "access", "create", first, "cert", "alice")["id"]
    wait_until(lambda: cloud.read("share", "access", "show", rule)["state"] == "active", SHOWN_S, 0.5)
    assert len(bed.heketi.works) == heketi.MOST_IN_FLIGHT
    bed.heketi.release()
    wait_until(lambda: statuses(cloud, shares) == {"available"}, SHOWN_S, 0.5)
    assert cloud.read("share", "message", "list") == []
    for share in (first, *shares):
        cloud.run("share", "delete", share)
    wait_until(lambda: not statuses(cloud, (first, *shares)), SHOWN_S, 0.5)
    assert (bed.heketi.volumes, bed.heketi.works) == ({}, {})


def statuses(cloud, shares):
    """Those that these shares have, as far as they are there."""
    return {one["Status"] for one in cloud.read("share", "list") if one["ID"] in shares}


def told(cloud, share):
    """What the share's users read, once it is in error: action, detail, and the sentence, of each message."""
    wait_until(lambda: cloud.read("share", "show", share)["status"] == "error", SHOWN_S, 0.5)
    listed = [one["ID"] for one in cloud.read("share", "message", "list", "--resource-id", share)]
    shown = [cloud.read("share", "message", "show", id) for id in listed]
    return [(one["action_id"], one["detail_id"], one["user_message"]) for one in shown]


def test_no_space_is_told_as_capacity_that_is_missing_with_what_heketi_said(bed, cloud):
    devices = [device for node in bed.heketi.nodes.values() for device in node["devices"]]
    room = devices[0]["storage"]
    kept = dict(room)
    room |= {"total": KIB, "free": KIB}
    share = cloud.read("share", "create", "GLUSTERFS", "5")["id"]
    ((action, detail, said),) = told(cloud, share)
    room |= kept
    assert (action, detail) == ("002", "009")
    assert said.startswith("create: No storage could be allocated for this share request")
    assert "The back end has no room left: Heketi says: Failed to allocate new volume: No space" in said


def test_a_name_that_somebody_took_is_told_with_the_volume_that_has_it(bed, cloud):
    bed.heketi.is_busy = True
    share = cloud.read("share", "create", "GLUSTERFS", "1")["id"]
    (instance,) = cloud.read("share", "instance", "list", "--share", share)
    name = f"abaca_{instance['ID']}"
    theirs = {"id": "ab" * 16, "name": name, "size": 1, "cluster": bed.cluster, "durability": {"type": "none"}}
    bed.heketi.volumes[theirs["id"]] = theirs | {"bricks": [], "glustervolumeoptions": [], "mount": {}}
    bed.gluster.create(name, {})
    bed.heketi.is_busy = False
    ((action, detail, said),) = told(cloud, share)
    assert (action, detail) == ("002", "001")
    assert f"Heketi has a volume {name} that somebody else made: delete it, or give it another name" in said
    assert name in bed.gluster.volumes


@pytest.mark.parametrize(
    ("spec", "value", "why"),
    [
        ("glusterfs_cluster", "nowhere", "no pool has the capabilities that the share type asks for"),
        ("glusterfs:durability", "disperse 4+2", "disperse 4+2 needs 6 nodes with a device"),
        ("glusterfs:durability", "disperse 3+1", "'disperse 3+1' is no durability: it is replica 2 or 3"),
        ("glusterfs:volume_options", "auth.allow 192.0.2.1", "auth.allow is what keeps volumes sealed and counted"),
    ],
)
def test_a_share_whose_type_cannot_be_had_says_why_and_leaves_nothing(bed, cloud, spec, value, why):
    before = dict(bed.heketi.volumes)
    cloud.run("share", "type", "create", "special", "false", "--extra-specs", f"{spec}={value}")
    share = cloud.read("share", "create", "GLUSTERFS", "2", "--share-type", "special")["id"]
    ((_, _, said),) = told(cloud, share)
    assert why in said
    cloud.run("share", "delete", share)
    wait_until(lambda: not statuses(cloud, [share]), SHOWN_S, 0.5)
    cloud.run("share", "type", "delete", "special")
    assert (bed.heketi.volumes, bed.heketi.works) == (before, {})


def test_a_share_is_found_at_the_new_address_of_a_node_once_it_is_ensured(bed, cloud):
    share = cloud.read("share", "create", "GLUSTERFS", "1")["id"]
    wait_until(lambda: cloud.read("share", "show", share)["status"] == "available", SHOWN_S, 0.5)
    node = next(iter(bed.heketi.nodes.values()))
    old, node["hostnames"] = (
        node["hostnames"],
        {"manage": node["hostnames"]["manage"], "storage": ["storage-1.example"]},
    )
    try:
        assert not any("storage-1.example" in path for path in paths(cloud, share))
        bed.admin.call("POST", "/services/ensure-shares", {"host": "here@gluster"})
        wait_until(lambda: f"storage-1.example:/{volume(cloud, share)}" in paths(cloud, share), SHOWN_S, 0.5)
        assert not any(path.startswith(f"{old['storage'][0]}:") for path in paths(cloud, share))
        assert len(paths(cloud, share)) == 3
    finally:
        node["hostnames"] = old
    cloud.run("share", "delete", share)
    wait_until(lambda: not statuses(cloud, [share]), SHOWN_S, 0.5)


def paths(cloud, share):
    """Where it can be mounted from."""
    return [one["Path"] for one in cloud.read("share", "export", "location", "list", share)]


def volume(cloud, share):
    (instance,) = cloud.read("share", "instance", "list", "--share", share)
    return f"abaca_{instance['ID']}"
