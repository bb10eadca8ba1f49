# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811
"""A share on a real GlusterFS comes to servers by Nova's door and by that of clusters, each with a key of its own."""

import contextlib

from tests.conftest import wait_until
from tests.system.attaching import a_server, left_on
from tests.system.stranger import SHOWN_S
from tests.system.test_glusterfs import (  # noqa: F401 (fixtures)
    abaca,
    cloud,
    cluster,
    delete,
    made,
    run,
    said,
    thorough,
)

pytestmark = thorough
NEWEST = ("--os-compute-api-version", "2.97")
CLUSTERS = "//abaca/v1/clusters"


def shares_of(cloud, server):
    return [(one["Share ID"], one["Status"]) for one in cloud.read(*NEWEST, "server", "share", "list", server)]


def until_ready(abaca, nodes, count):
    """The cluster is active, with so many nodes that have all its shares."""

    def is_ready():
        shown = abaca.admin.get(f"{CLUSTERS}/{nodes}")
        return (shown["status"], shown["node_states"]) == ("active", {"ready": count})

    wait_until(is_ready, SHOWN_S, 0.5)


def test_a_share_is_added_to_a_server_and_to_the_nodes_of_a_cluster_that_grows(cluster, abaca, cloud):
    share = made(cloud, "by both doors")
    with contextlib.ExitStack() as stack:
        machines = [stack.enter_context(a_server(cluster, abaca, name))[0] for name in ("one", "two", "three")]
        one, two, three = machines

        cloud.run(*NEWEST, "server", "add", "share", "one", share)
        wait_until(lambda: shares_of(cloud, "one") == [(share, "active")], SHOWN_S, 0.5)
        (attachment,) = abaca.admin.get("//abaca/v1/attachments")
        place = attachment["mount_point"]
        said(one, f"echo text > {place}/file && sync {place}/file")

        group, wanted = {"name": "workers", "servers": ["two"]}, {"id": share, "path": "/mnt/data"}
        wish = {"cluster": {"name": "nodes", "node_groups": [group], "shares": [wanted]}}
        nodes = abaca.admin.call("POST", CLUSTERS, wish).body["cluster"]["id"]
        until_ready(abaca, nodes, 1)
        more = {"cluster": {"node_groups": [{"name": "workers", "add_servers": ["three"]}]}}
        abaca.admin.call("PATCH", f"{CLUSTERS}/{nodes}", more)
        until_ready(abaca, nodes, 2)
        assert [said(machine, "cat /mnt/data/file") for machine in (two, three)] == ["text\n"] * 2
        said(three, "echo more >> /mnt/data/file && sync /mnt/data/file")
        wait_until(lambda: said(one, f"cat {place}/file") == "text\nmore\n", SHOWN_S, 0.5)
        keys = {said(machine, "sha256sum < /etc/ssl/glusterfs.key") for machine in machines}
        assert len(keys) == len(machines)

        abaca.admin.call("DELETE", f"{CLUSTERS}/{nodes}")
        wait_until(lambda: [left_on(machine) for machine in (two, three)] == ["", ""], SHOWN_S, 0.5)
        assert said(one, f"cat {place}/file") == "text\nmore\n"
        cloud.run(*NEWEST, "server", "remove", "share", "one", share)
        wait_until(lambda: (shares_of(cloud, "one"), left_on(one)) == ([], ""), SHOWN_S, 0.5)
    delete(cloud, share)
    assert (cluster.volumes(), cluster.bricks()) == ([], [])
