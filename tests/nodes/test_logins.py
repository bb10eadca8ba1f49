# SPDX-License-Identifier: Apache-2.0
"""Who is logged in to, with which key, and what a machine that does not answer costs."""

import shlex
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import asyncssh
import msgspec
import pytest

from abaca.nodes import contract, mounts
from abaca.nodes.contract import Job
from abaca.nodes.shell import Limits
from lab.ssh_node import SshNode
from tests.conftest import wait_until
from tests.nodes.machines import Absent, Memory, login_of

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("clean")]


def test_a_host_key_of_another_kind_is_another_host_key(nodes, login, mount):
    other = asyncssh.generate_private_key("ecdsa-sha2-nistp256").export_public_key().decode()
    with pytest.raises(contract.HostKeyMismatch, match="shows another host key"):
        nodes.look(msgspec.structs.replace(login, host_key=other), mount)


@pytest.mark.parametrize("host_key", ["", "ssh-ed25519", "ssh-ed25519 AAAA", "nonsense\nnonsense"])
def test_without_a_known_host_key_nobody_logs_in(nodes, login, mount, host_key):
    with pytest.raises(contract.HostKeyMismatch):
        nodes.look(msgspec.structs.replace(login, host_key=host_key), mount)


def test_another_key_is_refused_without_being_told(nodes, machines, login, mount, caplog):
    key = login_of(machines["dropbear"]).key
    with (
        caplog.at_level("DEBUG"),
        pytest.raises(contract.NotAllowed, match="is not accepted for the user root") as refused,
    ):
        nodes.look(msgspec.structs.replace(login, key=key), mount)
    content = machines["dropbear"].ssh.private_key.read_text().splitlines()[1]
    assert content not in str(refused.value) + caplog.text


KEYS = "/run/keys/authorized_keys"


@pytest.fixture
def restricted(machine):
    """A machine whose users have locked the key up as the operator's page says."""
    before = machine.check(["cat", KEYS])
    machine.script(f"sed -i 's/^ssh-/restrict ssh-/' {KEYS}")
    assert machine.check(["cat", KEYS]).startswith("restrict ssh-")
    yield machine
    machine.script(f"sed -i 's/^restrict ssh-/ssh-/' {KEYS}")
    assert machine.check(["cat", KEYS]) == before


@pytest.mark.parametrize("user", ["root", "operator"])
def test_a_key_that_opens_nothing_else_is_enough(restricted, nodes, login, mount, user):
    login = msgspec.structs.replace(login, user=user)
    assert nodes.mount(login, mount).source == mount.source
    nodes.unmount(login, mount)
    assert nodes.look(login, mount) is None


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("file:/nowhere/key", "cannot read the key file:/nowhere/key: No such file"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "is no reference"),
        ("file:/etc/hostname", "cannot be used"),
    ],
)
def test_a_key_that_cannot_be_read_is_said(nodes, login, mount, key, reason):
    with pytest.raises(contract.NotAllowed, match=reason):
        nodes.look(msgspec.structs.replace(login, key=key), mount)


def test_a_user_whom_sudo_refuses_is_said(nodes, login, mount):
    with pytest.raises(contract.NotAllowed, match="may not use sudo without a password"):
        nodes.look(msgspec.structs.replace(login, user="guest"), mount)


@pytest.mark.parametrize(
    ("user", "key", "fails"),
    [("guest", "", "sudo"), ("root", "file:/nowhere/key", "key"), ("nobody-here", "", "login")],
)
def test_a_probe_says_which_step_fails(nodes, login, user, key, fails):
    tried = msgspec.structs.replace(login, user=user, key=key or login.key)
    last = nodes.probe(tried, "MEMORY")[-1]
    assert (last.name, last.is_well) == (fails, False)


def test_a_probe_says_whether_the_storage_can_be_reached_from_there(nodes, machine, login):
    *_, route, port = nodes.probe(login, "MEMORY", "127.0.0.1", machine.ssh.port)
    assert (route.name, route.is_well, port.name, port.is_well) == ("route", True, "port", True)
    *_, closed = nodes.probe(login, "MEMORY", "127.0.0.1", 1)
    assert (closed.name, closed.is_well) == ("port", False)
    assert "refuse" in closed.said
    machine.check(["ip", "route", "add", "unreachable", "203.0.113.0/24"])
    *_, nowhere, _ = nodes.probe(login, "MEMORY", "203.0.113.7", 2049)
    machine.check(["ip", "route", "delete", "unreachable", "203.0.113.0/24"])
    assert (nowhere.name, nowhere.is_well) == ("route", False)


def test_a_machine_without_the_program_says_what_to_run(nodes, machine, login, mount):
    machine.script("rm -f /etc/os-release; printf 'ID=gentoo\\nPRETTY_NAME=\"Gentoo Linux\"\\n' > /etc/os-release")
    absent = msgspec.structs.replace(mount, protocol="ABSENT")
    with pytest.raises(contract.Unsupported, match=r"no mount.absent, and Abaca does not know .* Gentoo Linux"):
        nodes.mount(login, absent)


INSTALLER = """#!/bin/sh
sleep 3
printf '#!/bin/sh\n' > /usr/sbin/mount.absent
chmod 755 /usr/sbin/mount.absent
"""


def test_installing_may_take_longer_than_a_command(network, mount):
    hasty = mounts.Nodes([Absent()], limits=Limits(command_s=2))
    with SshNode(network, "bare", programs={"apt-get": INSTALLER}) as bare:
        assert hasty.mount(login_of(bare), msgspec.structs.replace(mount, protocol="ABSENT")).is_persistent
    hasty.close()


HIJACK = """#!/bin/sh
name=${0##*/}
echo "$name $*" >> /run/taken
PATH=/usr/sbin:/usr/bin:/sbin:/bin exec "$name" "$@"
"""
PLANT = """
for place in /usr/local/sbin /usr/local/bin; do
    mount -t tmpfs tmpfs $place
    for name in sh env sudo timeout mount umount mkdir flock; do
        printf %s {0} > $place/$name
        chmod 755 $place/$name
    done
done
: > /run/taken
"""


@pytest.mark.parametrize("user", ["root", "operator"])
def test_no_program_of_ours_is_taken_from_where_others_may_have_put_theirs(network, mount, user):
    with SshNode(network, f"hijack-{user[:2]}") as there:
        there.script(PLANT.format(shlex.quote(HIJACK)))
        made = mounts.Nodes([Memory()], limits=Limits())
        login = msgspec.structs.replace(login_of(there), user=user)
        made.mount(login, mount)
        made.unmount(login, mount)
        made.close()
        taken = there.script("cat /run/taken").stdout.splitlines()
    # those of whoever looks here are found in the same places
    assert [line for line in taken if not line.endswith("sh -c cat /run/taken")] == []


def test_no_shell_of_ours_is_left_on_a_machine(nodes, machine, login, mount):
    nodes.mount(login, mount)
    wait_until(lambda: machine.script("grep -lz '^name=' /proc/[0-9]*/cmdline 2> /dev/null").stdout == "")


def test_a_machine_that_stands_still_holds_nobody_up(network, machines, nodes, mount):
    with SshNode(network, "frozen") as frozen:
        stopped, login = login_of(frozen), login_of(machines["openssh"])
        frozen.freeze()
        begun = time.monotonic()
        jobs = [Job(action="mount", login=stopped, mount=mount), Job(action="mount", login=login, mount=mount)]
        waits, goes = nodes.many(jobs)
        frozen.thaw()
        assert isinstance(waits.error, contract.MachineUnreachable)
        assert goes.seen.source == mount.source
        assert time.monotonic() - begun < 15
        nodes.unmount(login, mount)


def test_a_round_of_machines_that_stand_still_leaves_room_to_mount(network, machines, mount):
    made = mounts.Nodes([Memory()], limits=Limits(connect_s=20), max_connections=2)
    login = login_of(machines["openssh"])
    with SshNode(network, "still") as frozen, ThreadPoolExecutor(1) as pool:
        frozen.freeze()
        job = Job(action="look", login=login_of(frozen), mount=mount)
        round_of_two = pool.submit(made.many, [job, job])
        wait_until(round_of_two.running)
        made.mount(login, mount)
        made.unmount(login, mount)
        assert not round_of_two.done()
        made.close()
        frozen.thaw()


def test_a_machine_that_is_not_there_is_unreachable(nodes, login, mount):
    with pytest.raises(contract.MachineUnreachable) as away:
        nodes.look(msgspec.structs.replace(login, port=2), mount)
    assert away.value.may_pass
    assert "Connection refused" in away.value.message


def test_closing_ends_what_is_under_way(network, mount):
    with SshNode(network, "closing") as machine:
        made = mounts.Nodes([Memory()], limits=Limits(connect_s=60))
        machine.freeze()
        failed = []

        def call():
            try:
                made.look(login_of(machine), mount)
            except contract.NodeError as error:
                failed.append(error)

        caller = threading.Thread(target=call)
        caller.start()
        made.close()
        caller.join(60)
        assert [type(one) for one in failed] == [contract.Stopping]
        with pytest.raises(contract.MachineUnreachable, match="the worker is stopping"):
            made.look(login_of(machine), mount)
