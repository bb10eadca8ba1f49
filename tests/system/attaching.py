# SPDX-License-Identifier: Apache-2.0
"""Servers of a GlusterFS's clients that shares are attached to, and what an attachment leaves on them."""

import contextlib
import re

from lab import gluster_machines
from tests.conftest import wait_until
from tests.system.stranger import SHOWN_S

PROJECT = "a1" * 16
ATTACHMENTS = "//abaca/v1/attachments"


@contextlib.contextmanager
def a_server(cluster, abaca, name):
    """A machine that nobody has prepared, and its id in the inventory."""
    machine = gluster_machines.GlusterClient(cluster.network, name).start()
    try:
        machine.script(": > /etc/fstab")
        yield machine, registered(abaca, machine)
    finally:
        machine.stop()


def registered(abaca, machine):
    """The id of a machine in the inventory, from now on."""
    ssh = machine.ssh
    wish = {
        "name": machine.name,
        "project_id": PROJECT,
        "addresses": [{"ip": machine.ipv4}],
        "ssh_host": ssh.host,
        "ssh_port": ssh.port,
        "ssh_user": ssh.user,
        "host_key": ssh.host_key,
        "key": f"file:{ssh.private_key}",
    }
    return abaca.admin.call("POST", "//abaca/v1/servers", {"server": wish}).body["server"]["id"]


def attach(abaca, share, server):
    """The attachment of a share to a server, once it is active."""
    wish = {"attachment": {"share_id": share, "server_id": server}}
    made = abaca.admin.call("POST", ATTACHMENTS, wish).body["attachment"]["id"]
    return wait_until(lambda: active(abaca, made), SHOWN_S, 0.5)


def active(abaca, attachment):
    """As it is shown when it is active; None before."""
    shown = abaca.admin.get(f"{ATTACHMENTS}/{attachment}")
    assert shown["state"] != "error", shown
    return shown if shown["state"] == "active" else None


def detach(abaca, attachment):
    """Nothing of the attachment is known any more."""
    abaca.admin.call("DELETE", f"{ATTACHMENTS}/{attachment}")
    wait_until(lambda: attachment not in str(abaca.admin.get(ATTACHMENTS)), SHOWN_S, 0.5)


def brings_back(machine, words):
    """Whether what brings its mounts back after a boot has such words."""
    kept = machine.script("cat /etc/fstab").stdout
    return re.search(rf"(?<![\d.]){re.escape(words)}(?![\d.])", kept) is not None


def left_on(machine):
    """What there is on a machine of mounts, of what brings them back, and of certificates."""
    looks = "ls /mnt; cat /etc/fstab; ls /etc/ssl /usr/lib/ssl | grep -e abaca -e glusterfs; pgrep -x glusterfs"
    return machine.script(f"grep fuse.glusterfs /proc/mounts; {looks}").stdout
