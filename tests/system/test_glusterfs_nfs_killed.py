# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811
"""Abaca, and NFS-Ganesha with it, are killed in the middle of what they do for shares of NFS on a real GlusterFS.

All of that ends, users reach what they shall, and neither an export nor a volume is left over.
"""

import os
import signal

import pytest

from tests.conftest import wait_until
from tests.system.stranger import SHOWN_S
from tests.system.test_glusterfs import (  # noqa: F401 (fixtures)
    abaca,
    allow,
    by_nfs,
    client,
    cloud,
    cluster,
    location,
    made,
    nfs_server,
    run,
    thorough,
    wait_until_it_is,
)
from tests.system.test_glusterfs_killed import (
    kill_all,
    kill_worker,
    limits,
    wait_until_heketi_is_at,
    wait_until_it_is_gone,
    wait_until_told,
)

pytestmark = thorough


def kill_server(abaca):
    os.kill(wait_until(lambda: nfs_server(abaca)), signal.SIGKILL)


def kill_everything(abaca):
    kill_server(abaca)
    kill_all(abaca)


who = pytest.mark.parametrize("kill", [kill_server, kill_worker, kill_everything])


def exports(abaca):
    """The exports that are written, each with what is written of it."""
    directory = abaca.directory / "state" / "backends" / "gluster" / "ganesha" / "exports"
    return {file.name: file.read_text() for file in directory.iterdir()}


def can_write(abaca, machine, place):
    """Whether a machine can; it tries again, as kernels do, while others have time to come back to a new server."""
    script = 'nfs-cp /etc/hostname "$at/file$port" && nfs-cat "$at/file$port" | cmp - /etc/hostname || exit 1'

    def answered():
        answer = by_nfs(abaca, machine, place, script)
        return None if "NFS4ERR_GRACE" in answer.stderr else answer

    return wait_until(answered, SHOWN_S, 0.5).code == 0


def a_share(cloud, client):
    """A share that nobody is let into yet, where it is mounted from, and a machine."""
    share = made(cloud, "killed", "NFS")
    return share, location(cloud, share), client("alice")


def delete(cluster, abaca, cloud, share):
    cloud.run("share", "delete", share)
    wait_until_it_is_gone(cluster, cloud, share)
    assert exports(abaca) == {}


@who
def test_a_share_of_nfs_is_exported_although_it_is_killed_as_that_is_written(cluster, abaca, cloud, client, kill):
    share = cloud.read("share", "create", "NFS", "1", "--name", "killed at its export")["id"]
    wait_until(lambda: exports(abaca), SHOWN_S, 0.001)
    kill(abaca)
    wait_until_it_is(cloud, share, "available", 1)
    (text,) = exports(abaca).values()
    place, alice = location(cloud, share), client("alice")
    assert f'"{place.partition(":")[2]}"' in text
    assert not can_write(abaca, alice, place)
    allow(cloud, share, alice.ipv4, "ip")
    assert can_write(abaca, alice, place)
    delete(cluster, abaca, cloud, share)


@who
@pytest.mark.parametrize("is_late", [False, True], ids=["at its limit", "once it has its limit"])
def test_a_rule_of_nfs_is_in_force_although_it_is_killed_before_that(cluster, abaca, cloud, client, kill, is_late):
    share, place, alice = a_share(cloud, client)
    rule = cloud.read("share", "access", "create", share, "ip", alice.ipv4)["id"]
    if is_late:
        wait_until(lambda: any(alice.ipv4 in text for text in exports(abaca).values()), SHOWN_S, 0.001)
    else:
        wait_until_told(cluster, "volume quota .* limit[-]usage")
    kill(abaca)
    wait_until(lambda: cloud.read("share", "access", "show", rule)["state"] == "active", SHOWN_S, 0.5)
    assert limits(cluster) == ["1.0GB"]
    assert can_write(abaca, alice, place)

    cloud.run("share", "access", "delete", share, rule)
    wait_until(lambda: not any(alice.ipv4 in text for text in exports(abaca).values()), SHOWN_S, 0.001)
    kill(abaca)
    wait_until(lambda: cloud.read("share", "access", "list", share) == [], SHOWN_S, 0.5)
    assert not can_write(abaca, alice, place)
    delete(cluster, abaca, cloud, share)


@who
@pytest.mark.parametrize("is_late", [False, True], ids=["at its export", "while Heketi is at it"])
def test_a_share_of_nfs_is_deleted_although_it_is_killed_meanwhile(cluster, abaca, cloud, client, kill, is_late):
    share, place, alice = a_share(cloud, client)
    allow(cloud, share, alice.ipv4, "ip")
    assert can_write(abaca, alice, place)
    cloud.run("share", "delete", share)
    if is_late:
        wait_until_heketi_is_at(cluster, "delete-volume")
    else:
        wait_until(lambda: not exports(abaca), SHOWN_S, 0.001)
    kill(abaca)
    wait_until_it_is_gone(cluster, cloud, share)
    assert exports(abaca) == {}
    assert not can_write(abaca, alice, place)
