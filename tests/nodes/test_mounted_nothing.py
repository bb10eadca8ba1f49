# SPDX-License-Identifier: Apache-2.0
"""A mount helper that says it has mounted when it has not: the mount table is believed, and nothing is left."""

import msgspec
import pytest

from abaca.drivers.authority import Authority
from abaca.nodes import contract, mounts
from abaca.nodes.contract import Identity
from abaca.nodes.glusterfs import Glusterfs
from abaca.nodes.shell import Limits
from lab.ssh_node import SshNode
from tests.nodes.machines import Memory, wanted

pytestmark = pytest.mark.system

# Files that are there already are this host's, and read-only.
OWN = """
for place in /usr/sbin /usr/lib/ssl; do
    mkdir -p /run/own$place/upper /run/own$place/work
    mount -t overlay overlay -o lowerdir=$place,upperdir=/run/own$place/upper,workdir=/run/own$place/work $place
done
mount -t tmpfs tmpfs /var/log
mkdir /var/log/glusterfs
rm -f /etc/ssl/glusterfs.* /usr/lib/ssl/glusterfs.*
: > /etc/fstab
"""
HELPER = """rm -f /usr/sbin/{helper}
cat > /usr/sbin/{helper} <<'END'
#!/bin/sh
{script}
END
chmod 755 /usr/sbin/{helper}
"""
LEFT = """find /mnt -mindepth 1; cat /etc/fstab; grep " /mnt/a" /proc/mounts
ls -d /etc/ssl/abaca /etc/systemd/system/mnt-* 2> /dev/null; ls /etc/ssl /usr/lib/ssl | grep glusterfs"""
NAME = "abaca-server-1"
LOG = "/var/log/glusterfs/mnt-a-b.log"
REFUSED = "error:0A000086:SSL routines::certificate verify failed"
FORMERLY = "error:1416F086:SSL routines:tls_process_server_certificate:certificate verify failed"


class Hollow(Memory):
    """What mounts it only says so."""

    protocols = ("HOLLOW",)
    fstype = "hollow"


@pytest.fixture(scope="module")
def machine(network):
    made = SshNode(network, "credulous").start()
    made.check(["sh", "-ec", OWN])
    yield made
    made.stop()


@pytest.fixture(scope="module")
def nodes():
    made = mounts.Nodes([Glusterfs(), Hollow()], limits=Limits(connect_s=10, command_s=20))
    yield made
    made.close()


@pytest.fixture
def certified(machine, nodes, login, tmp_path):
    """A mount of GlusterFS for which the machine has made a key, and an authority has issued a certificate."""
    authority = Authority(tmp_path / "ca.pem", tmp_path / "ca.key")
    authority.make()
    machine.script(f"rm -f {LOG}")
    asked = Identity(name=NAME)
    mount = wanted(protocol="GLUSTERFS", mount_point="/mnt/a/b", source="10.0.0.1:/abaca_x", identity=asked)
    pem = authority.sign(nodes.request(login, mount), NAME)
    identity = Identity(name=NAME, certificate=pem, authority=authority.pem)
    return msgspec.structs.replace(mount, identity=identity)


def refused(machine, nodes, login, mount, script, helper="mount.glusterfs"):
    """What the user is told after the helper has done this."""
    machine.check(["sh", "-ec", HELPER.format(helper=helper, script=script)])
    with pytest.raises(contract.MountRefused) as raised:
        nodes.mount(login, mount)
    assert nodes.look(login, mount) is None
    return raised.value.message


def told(line):
    """A helper that leaves a line in GlusterFS's log, and ends well."""
    return f"echo '[2026-11-21 10:00:00] E [socket.c:247] 0-client: SSL connect error: {line}' >> {LOG}"


@pytest.mark.parametrize("line", [REFUSED, FORMERLY])
def test_a_helper_that_ends_well_and_mounts_nothing_is_not_believed(machine, nodes, login, certified, line):
    said = refused(machine, nodes, login, certified, told(line))
    assert "mount -t glusterfs ended without an error and mounted nothing: TLS: certificate verify failed" in said
    assert machine.script(LEFT).stdout == ""


def test_where_its_log_tells_no_reason_the_log_is_named(machine, nodes, login, certified):
    said = refused(machine, nodes, login, certified, told("connection refused"))
    assert f"mounted nothing: its log there is {LOG}" in said
    assert machine.script(LEFT).stdout == ""


def test_a_reason_from_the_log_of_an_earlier_mount_is_not_told(machine, nodes, login, certified):
    machine.check(["sh", "-c", told(REFUSED)])
    said = refused(machine, nodes, login, certified, "echo 'no such volume'")
    assert f"mounted nothing: no such volume; its log there is {LOG}" in said


def test_a_helper_that_fails_tells_the_reason_from_its_log_too(machine, nodes, login, certified):
    said = refused(machine, nodes, login, certified, f"echo 'Mount failed.'; {told(REFUSED)}; exit 1")
    assert "Mount failed; TLS: certificate verify failed" in said
    assert machine.script(LEFT).stdout == ""


def test_a_mount_without_certificate_is_not_believed_either(machine, nodes, login):
    mount = wanted(protocol="HOLLOW", mount_point="/mnt/a/b")
    said = refused(machine, nodes, login, mount, "exit 0", "mount.hollow")
    assert said.rstrip(".").endswith("mount -t hollow ended without an error and mounted nothing")
    assert machine.script(LEFT).stdout == ""
