# SPDX-License-Identifier: Apache-2.0
"""Shares on every node of a cluster of machines with kernels of their own, from its creation to its end."""

import shlex

import pytest
import yaml

from tests.conftest import wait_until
from tests.system.test_attachments import (  # noqa: F401 (fixtures, and what looks at their machines)
    answers,
    lines_of_boot,
    machines,
    mounts,
    rules,
    servers,
    world,
)
from tests.system.world import Writer

DOOR = "//abaca/v1/clusters"


@pytest.fixture
def cluster(world):  # noqa: F811
    """`cluster(...)`: the id of one that is on its way; they are gone at the end."""
    made = []

    def cluster(**more):
        said = {"name": f"nodes-{len(made)}", **more}
        made.append(world.user.call("POST", DOOR, {"cluster": said}).body["cluster"]["id"])
        return made[-1]

    yield cluster
    for one in world.user.get(DOOR):
        world.user.call("DELETE", f"{DOOR}/{one['id']}?force=true")
    wait_until(lambda: world.user.get(DOOR) == [], 120, 0.2)


def shown(world, cluster_id):  # noqa: F811
    return world.user.get(f"{DOOR}/{cluster_id}")


def change(world, cluster_id, **more):  # noqa: F811
    """What is said of a cluster, on all its nodes."""
    answer = world.user.call("PATCH", f"{DOOR}/{cluster_id}", {"cluster": more})
    assert answer.body["cluster"]["status"] == "changing"
    return ready(world, cluster_id)


def ready(world, cluster_id):  # noqa: F811
    """The cluster when nothing of it is on its way, and all nodes hold."""

    def is_ready():
        found = shown(world, cluster_id)
        return found if found["status"] == "active" and found["node_states"].keys() == {"ready"} else None

    try:
        return wait_until(is_ready, 120, 0.1)
    except pytest.fail.Exception:
        pytest.fail(f"not ready: {shown(world, cluster_id)}, {world.user.get(f'{DOOR}/{cluster_id}/nodes')}")


def addresses(nodes):
    return sorted(address for machine in nodes for address in (machine.ipv4, machine.ipv6))


def let_in(world, share_id):  # noqa: F811
    return sorted(rule["access_to"] for rule in rules(world, share_id))


def until_missed(world, cluster_id, server_id):  # noqa: F811
    """One node is away, and named; the two others hold all the same."""
    wait_until(lambda: shown(world, cluster_id)["status"] == "error", 60, 0.1)
    wait_until(lambda: shown(world, cluster_id)["node_states"].get("ready") == 2, 60, 0.1)
    wait_until(lambda: server_id in (shown(world, cluster_id)["error"] or {}).get("message", ""), 60, 0.1)


def share_files_and_locks(one, others):
    """What one writes all read, and a lock of one keeps the others out."""
    one.check(["sh", "-c", "echo hello > /srv/data/file && sync -f /srv/data/file"])
    assert {machine.check(["cat", "/srv/data/file"]) for machine in others} == {"hello\n"}
    one.script("(flock /srv/data/file sleep 1000 & echo $! > /tmp/locker) > /dev/null 2>&1")
    for machine in others:
        wait_until(lambda machine=machine: not may_lock(machine))
    one.script("kill $(cat /tmp/locker); killall sleep; true")
    for machine in others:
        wait_until(lambda machine=machine: may_lock(machine))


def may_lock(machine):
    return machine.run(["flock", "-n", "/srv/data/file", "true"]).code == 0


def may_write(machine):
    return machine.script("echo more >> /srv/data/more && sync -f /srv/data/more").code == 0


def test_a_cluster_holds_its_shares_from_start_to_end(world, machines, servers, cluster):  # noqa: F811
    one, two, three, four, five = machines
    data, scratch = world.share(), world.share()
    # one node is away when the cluster is made: it is named, the others hold, and it is caught up
    three.kill()
    group = {
        "name": "nodes",
        "servers": ["one", "two", "three"],
        "shares": [{"id": data, "path": "/srv/of-the-group"}, {"id": scratch, "path": "/srv/scratch"}],
    }
    cluster_id = cluster(node_groups=[group], shares=[{"id": data, "path": "/srv/data"}])
    until_missed(world, cluster_id, servers["three"])
    three.start()
    wait_until(lambda: answers(three), every_s=0.1)
    assert ready(world, cluster_id)["node_states"] == {"ready": 3}
    assert [sorted(mounts(machine)) for machine in (one, two, three)] == [["/srv/data", "/srv/scratch"]] * 3
    assert let_in(world, data) == let_in(world, scratch) == addresses((one, two, three))

    share_files_and_locks(one, (two, three))

    # two nodes more have all of it when the cluster is active again
    added = {"name": "nodes", "add_servers": ["four", "five"]}
    assert change(world, cluster_id, node_groups=[added])["node_states"] == {"ready": 5}
    assert [sorted(mounts(machine)) for machine in (four, five)] == [["/srv/data", "/srv/scratch"]] * 2
    assert [machine.check(["cat", "/srv/data/file"]) for machine in (four, five)] == ["hello\n"] * 2

    # two are rebooted, and have all of it again by themselves
    for machine in (one, four):
        machine.kill()
        machine.start()
    for machine in (one, four):
        wait_until(lambda machine=machine: machine.run(["cat", "/srv/data/file"]).stdout == "hello\n", 60, 0.2)
    ready(world, cluster_id)

    # nobody writes any more, and then again
    for level in ("ro", "rw"):
        change(world, cluster_id, add_shares=[{"id": data, "path": "/srv/data", "access_level": level}])
        assert [may_write(machine) for machine in machines] == [level == "rw"] * 5
    # without the cluster's entry that of the group counts
    change(world, cluster_id, remove_shares=[data])
    assert [sorted(mounts(machine)) for machine in machines] == [["/srv/of-the-group", "/srv/scratch"]] * 5
    assert five.check(["cat", "/srv/of-the-group/file"]) == "hello\n"

    # one goes, and its access with it
    removed = {"name": "nodes", "remove_servers": ["two"]}
    assert change(world, cluster_id, node_groups=[removed])["node_states"] == {"ready": 4}
    assert (mounts(two), lines_of_boot(two)) == ([], [])
    wait_until(lambda: let_in(world, data) == addresses((one, three, four, five)), every_s=0.1)

    world.user.call("DELETE", f"{DOOR}/{cluster_id}")
    world.user.wait_gone(f"{DOOR}/{cluster_id}")
    assert [mounts(machine) for machine in machines] == [[]] * 5
    assert [lines_of_boot(machine) for machine in machines] == [[]] * 5
    for share_id in (data, scratch):
        wait_until(lambda share_id=share_id: rules(world, share_id) == [], every_s=0.1)
    world.delete(data, scratch)


def sources(world, share_id):  # noqa: F811
    """From which addresses a share is mounted."""
    found = world.user.get(f"//abaca/v1/attachments?share_id={share_id}")
    return {one["export_location"].partition(":")[0] for one in found}


def test_all_nodes_follow_an_export_that_moves_while_they_write(world, network, machines, servers, cluster):  # noqa: F811
    share_id = world.share()
    cluster_id = cluster(servers=list(servers), shares=[{"id": share_id, "path": "/srv/moving"}])
    ready(world, cluster_id)
    assert sources(world, share_id) == {network.host_ipv4}
    writers = [Writer(one, f"/srv/moving/{number}", keeps_open=True) for number, one in enumerate(machines)]
    new = network.address(2)
    world.move_exports(new)
    # no node loses its file, and the cluster says of each that it has not followed
    wait_until(lambda: shown(world, cluster_id)["node_states"].get("ready", 0) == 0, 60, 0.1)
    for writer in writers:
        writer.wait_for_more(10)
    assert sources(world, share_id) == {network.host_ipv4}
    for writer in writers:
        writer.stop()
    wait_until(lambda: sources(world, share_id) == {new}, 200, 0.2)
    assert ready(world, cluster_id)["node_states"] == {"ready": 5}
    for writer in writers:
        writer.check()
    world.user.call("DELETE", f"{DOOR}/{cluster_id}")
    world.user.wait_gone(f"{DOOR}/{cluster_id}")
    world.delete(share_id)


def test_a_machine_mounts_a_clusters_shares_by_what_cloud_init_is_given(
    world,  # noqa: F811
    machines,  # noqa: F811
    cluster,
):
    machine, found = machines[4], [world.share() for _ in range(2)]
    wanted = [{"id": found[0], "path": "/srv/first"}, {"id": found[1], "path": "/srv/second", "access_level": "ro"}]
    cluster_id = cluster(servers=[], shares=wanted)
    for share_id in found:
        for address in (machine.ipv4, machine.ipv6):
            world.allow(share_id, address)
    part = yaml.safe_load(world.user.get(f"{DOOR}/{cluster_id}/connect")["cloud_init"])
    # as cloud-init does it: the directories, the lines of the fstab, then what is to be run
    lines = "\n".join("\t".join(mount) for mount in part["mounts"])
    places = [mount[1] for mount in part["mounts"]]
    (run,) = part["runcmd"]
    typed = [shlex.join(["mkdir", "-p", *places]), f"echo {shlex.quote(lines)} > /etc/fstab", shlex.join(run)]
    machine.check(["sh", "-ec", "; ".join(typed)])
    assert sorted(mounts(machine)) == ["/srv/first", "/srv/second"]
    assert machine.script("echo text > /srv/first/file && sync -f /srv/first/file").code == 0
    assert machine.script("echo text > /srv/second/file").code != 0
    machine.check(["sh", "-ec", f": > /etc/fstab; umount {' '.join(places)}; rmdir {' '.join(places)}"])
    world.user.call("DELETE", f"{DOOR}/{cluster_id}")
    world.user.wait_gone(f"{DOOR}/{cluster_id}")
    world.delete(*found)
