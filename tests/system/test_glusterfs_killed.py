# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811
"""Abaca is killed in the middle of what it has a real GlusterFS do: all of that ends, and nothing is left over.

Its worker alone, which is started again at once, or all of it, which an operator starts again.
"""

import pytest

from tests.conftest import wait_until
from tests.system import running
from tests.system.stranger import PLACE, SHOWN_S
from tests.system.test_glusterfs import (  # noqa: F401 (fixtures)
    abaca,
    allow,
    client,
    cloud,
    cluster,
    delete,
    location,
    made,
    run,
    said,
    size_gib,
    thorough,
    wait_until_it_is,
)

pytestmark = thorough


def kill_worker(abaca):
    running.kill_worker(abaca.process.pid)


def kill_all(abaca):
    abaca.kill()
    abaca.start()


who = pytest.mark.parametrize("kill", [kill_worker, kill_all])


def wait_until_heketi_is_at(cluster, kind):
    wait_until(lambda: cluster.heketi.is_at(kind), SHOWN_S)


def wait_until_told(cluster, words):
    """A node is just told so by gluster; the words are a pattern that does not match itself."""
    wait_until(lambda: any(node.run(["pgrep", "-f", words]).code == 0 for node in cluster.nodes), SHOWN_S)


def begun(cloud, name):
    """The id of a share that is asked for."""
    return cloud.read("share", "create", "GLUSTERFS", "1", "--name", name)["id"]


def wait_until_it_is_whole(cluster, cloud, share):
    """The share is available, with one volume that has its limit once somebody is let in, and nothing else is there."""
    wait_until_it_is(cloud, share, "available", 1)
    assert cluster.volumes() == [location(cloud, share).rpartition("/")[2]]
    allow(cloud, share, "alice")
    assert limits(cluster) == ["1.0GB"]
    look = "cat /etc/ssl/glusterfs.pem | openssl x509 -noout -pubkey; openssl pkey -in /etc/ssl/glusterfs.key -pubout"
    for node in cluster.nodes:
        assert said(node, look).count("BEGIN PUBLIC KEY") == 2


def limits(cluster):
    """Of all volumes."""
    told = (cluster.nodes[0].gluster("volume", "quota", name, "list", "/") for name in cluster.volumes())
    return [line.split()[1] for text in told for line in text.splitlines()[2:]]


def wait_until_it_is_gone(cluster, cloud, share):
    wait_until(lambda: share not in str(cloud.read("share", "list")), SHOWN_S, 0.5)
    assert cluster.left() == []


def test_a_share_comes_and_goes_although_all_of_abaca_is_killed_in_the_middle(abaca, cluster, cloud):
    share = begun(cloud, "killed")
    wait_until_heketi_is_at(cluster, "create-volume")
    kill_all(abaca)
    wait_until_it_is_whole(cluster, cloud, share)
    cloud.run("share", "delete", share)
    wait_until_heketi_is_at(cluster, "delete-volume")
    kill_all(abaca)
    wait_until_it_is_gone(cluster, cloud, share)


@who
@pytest.mark.parametrize("told", ["enabl[e]", "limit[-]usage"])
def test_a_share_has_its_limit_although_abaca_is_killed_while_that_is_set(abaca, cluster, cloud, kill, told):
    share = made(cloud, "killed at its limit")
    rule = cloud.read("share", "access", "create", share, "cert", "bob")["id"]
    wait_until_told(cluster, f"volume quota .* {told}")
    kill(abaca)
    wait_until(lambda: cloud.read("share", "access", "show", rule)["state"] == "active", SHOWN_S, 0.5)
    assert limits(cluster) == ["1.0GB"]
    wait_until_it_is_whole(cluster, cloud, share)
    delete(cloud, share)
    wait_until_it_is_gone(cluster, cloud, share)


@who
def test_nodes_have_certificates_although_abaca_is_killed_while_it_makes_them(abaca, cluster, cloud, kill):
    abaca.stop()
    for node in cluster.nodes:
        said(node, "rm /etc/ssl/glusterfs.*")
    abaca.start()
    wait_until(lambda: any((node.ssl / ".abaca.key").exists() for node in cluster.nodes), SHOWN_S, 0.01)
    kill(abaca)
    share = begun(cloud, "killed at its certificates")
    wait_until_it_is_whole(cluster, cloud, share)
    delete(cloud, share)
    wait_until_it_is_gone(cluster, cloud, share)


def has_grown(cluster, name):
    """GlusterFS has the new bricks, and Heketi has ended."""
    info = cluster.nodes[0].gluster("volume", "info", name)
    return "= 6\n" in info and not cluster.heketi.is_at("expand-volume")


@who
@pytest.mark.parametrize("late", [False, True], ids=["while it grows", "once it has grown"])
def test_a_share_in_use_grows_although_abaca_is_killed(abaca, cluster, cloud, client, kill, late):
    share = made(cloud, "killed as it grows")
    place, alice = location(cloud, share), client("alice")
    allow(cloud, share, "alice")
    assert alice.mount(place, PLACE).code == 0
    said(alice, f"chown 5:6 {PLACE} && echo text > {PLACE}/file && sync {PLACE}/file")
    cloud.run("share", "resize", share, "4")
    wait_until_heketi_is_at(cluster, "expand-volume")
    if late:
        wait_until(lambda: has_grown(cluster, place.rpartition("/")[2]), SHOWN_S)
    kill(abaca)
    wait_until_it_is(cloud, share, "available", 4)
    wait_until(lambda: size_gib(alice) == 4, SHOWN_S, 0.5)
    assert said(alice, f"stat -c %u:%g {PLACE}; cat {PLACE}/file") == "5:6\ntext\n"
    assert has_grown(cluster, place.rpartition("/")[2])
    alice.unmount(PLACE)
    delete(cloud, share)
    wait_until_it_is_gone(cluster, cloud, share)


@who
def test_rules_are_in_force_although_abaca_is_killed_while_they_are_set(abaca, cluster, cloud, client, kill):
    share = made(cloud, "killed at its rules")
    place, alice = location(cloud, share), client("alice")
    rule = cloud.read("share", "access", "create", share, "cert", "alice")["id"]
    wait_until_told(cluster, "^gluster .*volume set .* auth.ssl[-]allow")
    kill(abaca)
    wait_until(lambda: cloud.read("share", "access", "show", rule)["state"] == "active", SHOWN_S, 0.5)
    assert alice.mount(place, PLACE).code == 0
    alice.unmount(PLACE)
    cloud.run("share", "access", "delete", share, rule)
    wait_until_told(cluster, "^gluster .*volume set .* auth.ssl[-]allow")
    kill(abaca)
    wait_until(lambda: cloud.read("share", "access", "list", share) == [], SHOWN_S, 0.5)
    assert alice.mount(place, PLACE).code
    alice.unmount(PLACE)
    delete(cloud, share)
    wait_until_it_is_gone(cluster, cloud, share)
