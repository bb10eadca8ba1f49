# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811
"""Certificates of a real GlusterFS that have ended: what is told of them, and that one command mends it."""

import datetime
import re
import subprocess
import sys

import pytest
import urllib3

from abaca.drivers.authority import Authority
from tests.conftest import wait_until
from tests.system.attaching import ATTACHMENTS, a_server, active, attach, detach
from tests.system.stranger import PLACE, SHOWN_S
from tests.system.test_glusterfs import (  # noqa: F401 (fixtures)
    abaca,
    allow,
    certify,
    client,
    cloud,
    cluster,
    delete,
    location,
    made,
    renew,
    run,
    said,
    thorough,
    wait_until_it_is,
)

pytestmark = thorough
STILL_GOOD = "openssl x509 -noout -checkend 0 > /dev/null"


@pytest.fixture
def aged(abaca):
    """`aged(machine)`: its certificate, which stays that of its key and name, ended a day ago."""
    place = abaca.directory / "state" / "backends" / "gluster" / "authority"
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=3)
    authority = Authority(place / "ca.pem", place / "ca.key", now=lambda: then, days=2)

    def aged(machine, files="/etc/ssl/glusterfs."):
        shown = said(machine, f"openssl x509 -in {files}pem -noout -subject -nameopt multiline")
        name = shown.rpartition("= ")[2].strip()
        request = said(machine, f"openssl req -new -key {files}key -subj /CN={name}")
        said(machine, f"cat > {files}pem <<'END'\n{authority.sign(request, name)}END")

    return aged


def started_anew(node, name):
    for verb in ("stop", "start"):
        node.gluster("volume", verb, name, "force")


def left_days(abaca):
    """For how many days the first certificate is good, by the metric; None as long as that is not there."""
    shown = urllib3.request("GET", f"{abaca.url}/metrics").data.decode()
    found = re.search(r"^abaca_certificates_end_seconds\{.*\} (.*)$", shown, re.MULTILINE)
    if found is None:
        return None
    end = datetime.datetime.fromtimestamp(float(found[1]), datetime.UTC)
    return (end - datetime.datetime.now(datetime.UTC)) / datetime.timedelta(days=1)


def missing(abaca):
    """What `abaca config check` says that is not as it should be."""
    argv = [sys.executable, "-m", "abaca", "config", "check", "--config-file", str(abaca.configuration)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=SHOWN_S)
    return done.stderr


def test_nodes_whose_certificates_have_ended_are_told_of_and_one_command_mends_them(
    cluster, abaca, cloud, client, aged
):
    share = cloud.read("share", "create", "GLUSTERFS", "3", "--name", "ended")["id"]
    wait_until_it_is(cloud, share, "available", 3)
    place, alice = location(cloud, share), client("alice")
    allow(cloud, share, "alice")
    assert alice.mount(place, PLACE).code == 0
    said(alice, f"echo text > {PLACE}/file && sync {PLACE}/file")
    alice.unmount(PLACE)
    for node in cluster.nodes:
        aged(node)
    started_anew(cluster.nodes[0], place.rpartition("/")[2])
    assert alice.mount(place, PLACE).code
    alice.unmount(PLACE)

    # What the user sees.
    cloud.run("share", "resize", share, "2")
    ask = ("share", "message", "list", "--resource-id", share)
    (listed,) = wait_until(lambda: cloud.read(*ask), SHOWN_S, 0.5)
    message = cloud.read("share", "message", "show", listed["ID"])["user_message"]
    assert re.search(
        r"the certificate of the node \S+ ended 1 days ago.*: `abaca certificate renew --restart`", message
    )
    # What the operator sees: of all nodes, with the mend.
    assert missing(abaca).count("its certificate ended 1 days ago: `abaca certificate renew --restart`") == 3
    with a_server(cluster, abaca, "one") as (one, server):
        wish = {"attachment": {"share_id": share, "server_id": server}}
        attachment = abaca.admin.call("POST", ATTACHMENTS, wish).body["attachment"]["id"]
        shown = wait_until(lambda: in_error(abaca, attachment), SHOWN_S, 0.5)
        assert "TLS: certificate verify failed" in str(shown)

        told = renew(abaca)
        assert sum("a new certificate, it had one that ended 1 days ago" in line for line in told) == 3
        assert f"volume {place.rpartition('/')[2]}: started anew" in told
        assert "certificate" not in missing(abaca)
        wait_until(lambda: abaca.admin.get(f"{ATTACHMENTS}/{attachment}")["state"] == "active", SHOWN_S, 0.5)
        assert said(one, f"cat {shown['mount_point']}/file") == "text\n"
        detach(abaca, attachment)
    assert alice.mount(place, PLACE).code == 0
    assert said(alice, f"cat {PLACE}/file") == "text\n"
    healed_among(cluster, alice)  # by certificates too
    alice.unmount(PLACE)
    cloud.run("share", "set", share, "--status", "available")
    cloud.run("share", "resize", share, "2")
    wait_until_it_is(cloud, share, "available", 2)
    delete(cloud, share)
    assert (cluster.volumes(), cluster.bricks()) == ([], [])


def test_certificates_that_workers_renewed_by_themselves_are_told_of_until_all_was_started_anew(
    cluster, abaca, cloud, aged
):
    share = made(cloud, "renewed by the way")
    for node in cluster.nodes:
        aged(node)
    abaca.stop()
    abaca.start()
    wait_until(lambda: (left_days(abaca) or 0) < -0.5, SHOWN_S, 0.5)
    another = made(cloud, "another")
    assert are_good(cluster)
    assert (left_days(abaca) or 0) < -0.5
    assert missing(abaca).count("its certificate ended 1 days ago") == 3
    renew(abaca)
    assert "certificate" not in missing(abaca)
    abaca.stop()
    abaca.start()
    wait_until(lambda: (left_days(abaca) or 0) > 365, SHOWN_S, 0.5)
    for one in (share, another):
        delete(cloud, one)
    assert (cluster.volumes(), cluster.bricks()) == ([], [])


def are_good(cluster):
    """Whether no node has a certificate that has ended."""
    look = f"{STILL_GOOD} < /etc/ssl/glusterfs.pem || exit 1"
    return not any(node.script(look).code for node in cluster.nodes)


def in_error(abaca, attachment):
    shown = abaca.admin.get(f"{ATTACHMENTS}/{attachment}")
    return shown if shown["state"] == "error" else None


def healed_among(cluster, machine):
    """What a node without power has missed comes to it."""
    lost = cluster.nodes[2]
    lost.kill()
    said(machine, f"echo meanwhile > {PLACE}/healed && sync {PLACE}/healed")
    lost.start()
    look = "cat /var/lib/heketi/mounts/*/*/brick/healed 2> /dev/null; true"
    wait_until(lambda: said(lost, look) == "meanwhile\n", SHOWN_S, 0.5)


def test_a_server_whose_certificate_has_ended_gets_another_and_a_client_by_hand(cluster, abaca, cloud, client, aged):
    share = made(cloud, "of clients")
    place, bob = location(cloud, share), client("bob")
    allow(cloud, share, "bob")
    aged(bob)
    assert bob.mount(place, PLACE).code
    bob.unmount(PLACE)
    certify(abaca, bob, "bob")
    assert bob.mount(place, PLACE).code == 0
    bob.unmount(PLACE)
    with a_server(cluster, abaca, "two") as (two, server):
        here = attach(abaca, share, server)
        file = f"{here['mount_point']}/file"
        said(two, f"echo text > {file} && sync {file}")
        abaca.stop()
        aged(two, "/etc/ssl/abaca/")
        said(two, f"umount {here['mount_point']}; ! mount -a 2> /dev/null")
        abaca.start()
        wait_until(lambda: two.script(f"cat {file}").stdout == "text\n", SHOWN_S, 0.5)
        wait_until(lambda: active(abaca, here["id"]), SHOWN_S, 0.5)
        aged(two, "/etc/ssl/abaca/")  # of one that is mounted, which goes on
        abaca.admin.call("POST", f"{ATTACHMENTS}/{here['id']}/verify")
        wait_until(lambda: two.script(f"{STILL_GOOD} < /etc/ssl/abaca/pem || exit 1").code == 0, SHOWN_S, 0.5)
        assert said(two, f"cat {file}") == "text\n"
        wait_until(lambda: active(abaca, here["id"]), SHOWN_S, 0.5)
        detach(abaca, here["id"])
    delete(cloud, share)
    assert (cluster.volumes(), cluster.bricks()) == ([], [])
