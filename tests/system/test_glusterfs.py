# SPDX-License-Identifier: Apache-2.0
"""Shares on a real GlusterFS, which a real Heketi makes: how users see them, and that strangers never do."""

import configparser
import itertools
import os
import signal
import subprocess
import sys

import pytest

from lab import (
    caller,
    gluster_cluster,
    gluster_guests,
    gluster_machines,
    guest,
    heketi_server,
    processes,
    runs,
    service,
)
from tests.clients import command
from tests.conftest import ROOT, wait_until
from tests.system import running
from tests.system.attaching import ATTACHMENTS, PROJECT, a_server, active, attach, detach, left_on
from tests.system.stranger import PLACE, SHOWN_S, Stranger, an_open_volume

thorough = pytest.mark.skipif(not os.environ.get("GLUSTER_THOROUGH"), reason="minutes: make thorough")


@pytest.fixture(scope="module")
def run():
    try:
        gluster_cluster.need()
    except heketi_server.NotBuilt as problem:
        pytest.skip(f"NOT TESTED on this machine, GlusterFS with a real Heketi: {problem}")
    except processes.Missing as missing:
        if os.geteuid() == 0:
            raise
        pytest.skip(f"NOT TESTED on this machine, since only root can change it: {missing}")
    with runs.Run() as run:
        yield run
    assert run.leftovers() == []


@pytest.fixture(scope="module")
def cluster(run):
    made = gluster_cluster.GlusterCluster(run)
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def abaca(run, cluster):
    directory = run.path("abaca")
    passwords = service.write_users(directory / "users", {"admin": (PROJECT, "admin")})
    sections = {
        "DEFAULT": {
            "host": "here",
            "auth_strategy": "http_basic",
            "http_basic_auth_user_file": directory / "users",
            "default_share_type": "default",
            "enabled_share_backends": "gluster",
            "enabled_share_protocols": "GLUSTERFS,NFS",
        },
        "gluster": {
            "driver": "glusterfs",
            "driver_handles_share_servers": False,
            "export_ips": cluster.network.host_ipv4,
            "ganesha_port": processes.free_port(),
            "nfs_minor_versions": "0,1,2",
            **cluster.section(),
        },
        "compute": {"key_directory": run.directory},
        "nodes": {"connect_timeout_s": 60, "command_timeout_s": 300, "verify_interval_s": 5, "longest_pause_s": 5},
    }
    with service.Service(run, sections, directory=directory) as made:
        made.admin = caller.Caller(made.url, caller.basic("admin", passwords["admin"]))
        caller.ensure_type(made.admin)
        caller.wait_for_pools(made.admin, SHOWN_S)
        clouds = directory / "clouds.yaml"
        command.write_clouds(clouds, {"admin": command.basic(made.url, "admin", passwords["admin"])})
        made.cloud = command.Cloud(clouds, "admin")
        made.nfs_port = sections["gluster"]["ganesha_port"]
        yield made


@pytest.fixture(scope="module")
def cloud(abaca):
    return abaca.cloud


@pytest.fixture(scope="module")
def client(cluster, abaca):
    """`client("alice")`: a machine with a certificate of that name, issued for its own key; one a name."""
    known = {}

    def client(name):
        if name not in known:
            made = known[name] = gluster_machines.GlusterClient(cluster.network, name).start()
            certify(abaca, made, name)
        return known[name]

    yield client
    for made in known.values():
        made.stop()


def certify(abaca, machine, name):
    """The machine has a key, and a certificate of that name, issued for it."""
    request = gluster_cluster.make_key(machine, name)
    gluster_cluster.seal(machine, certificate(abaca, "issue", name, said=request), certificate(abaca, "authority"))


def certificate(abaca, *words, said=""):
    """What `abaca certificate` says."""
    argv = [sys.executable, "-m", "abaca", "certificate", *words, "--config-file", str(abaca.configuration)]
    return subprocess.run(argv, input=said, capture_output=True, text=True, check=True).stdout


def location(cloud, share):
    """Where it is mounted."""
    (first, *_) = cloud.read("share", "export", "location", "list", share)
    return first["Path"]


def allow(cloud, share, name, kind="cert", level="rw"):
    """A rule that is in force."""
    rule = cloud.read("share", "access", "create", share, kind, name, "--access-level", level)["id"]
    wait_until(lambda: cloud.read("share", "access", "show", rule)["state"] == "active", SHOWN_S, 0.5)
    return rule


def size_gib(machine):
    """What `df` shows of the mounted share."""
    return int(said(machine, f"df -P -m {PLACE}").splitlines()[-1].split()[1]) / 1024


def said(machine, script):
    """What a script that succeeds says."""
    return machine.check(["sh", "-c", script], SHOWN_S)


def made(cloud, name, protocol="GLUSTERFS"):
    """The id of a share that is available."""
    share = cloud.read("share", "create", protocol, "1", "--name", name)["id"]
    wait_until_it_is(cloud, share, "available", 1)
    return share


def wait_until_it_is(cloud, share, status, size):
    """The share has this status and size."""

    def is_so():
        shown = cloud.read("share", "show", share)
        assert "error" not in shown["status"], messages(cloud, share)
        return (shown["status"], int(shown["size"])) == (status, size)

    wait_until(is_so, SHOWN_S, 0.5)


def messages(cloud, share):
    """What users read of what went wrong with the share."""
    listed = cloud.read("share", "message", "list", "--resource-id", share)
    return [cloud.read("share", "message", "show", one["ID"])["user_message"] for one in listed]


def resize(cloud, share, size, machine):
    """The share has another size, as the machine that has it mounted sees."""
    cloud.run("share", "resize", share, str(size))
    wait_until_it_is(cloud, share, "available", size)
    wait_until(lambda: size_gib(machine) == size, SHOWN_S, 0.5)


def delete(cloud, share):
    """The share is gone."""
    cloud.run("share", "delete", share)
    wait_until(lambda: share not in str(cloud.read("share", "list")), SHOWN_S, 0.5)


def are_all_bricks_used(cluster, machine, names):
    """Whether files with further names come to all bricks of a node."""
    said(machine, f"cd {PLACE} && touch {' '.join(str(next(names)) for _ in range(32))}")
    listed = said(cluster.nodes[0], "for brick in /var/lib/heketi/mounts/*/*/brick; do ls $brick | wc -l; done")
    counts = [int(line) for line in listed.split()]
    assert len(counts) == 2, listed
    return all(counts)


def live(cluster, cloud, client, stranger):
    """A share is made, used by two, resized, closed to one of them, and deleted; somebody tries it in each phase."""
    with stranger.during("creation"):
        share = made(cloud, "life")
    place = location(cloud, share)
    alice, bob = client("alice"), client("bob")
    stranger.tries("before the first rule")
    assert alice.mount(place, PLACE).code
    rule = allow(cloud, share, "alice")
    assert alice.mount(place, PLACE).code == 0
    assert size_gib(alice) == 1
    said(alice, f"echo hers > {PLACE}/file && sync {PLACE}/file")
    stranger.tries("with a rule")
    assert bob.mount(place, PLACE).code
    allow(cloud, share, "bob")
    assert bob.mount(place, PLACE).code == 0
    assert said(bob, f"cat {PLACE}/file") == "hers\n"

    said(bob, f"chown 5:6 {PLACE} && chmod 2770 {PLACE}")
    with stranger.during("extension"):
        resize(cloud, share, 4, bob)
    assert [said(one, f"stat -c '%a %u:%g' {PLACE}") for one in (alice, bob)] == ["2770 5:6\n"] * 2
    names = itertools.count()
    wait_until(lambda: are_all_bricks_used(cluster, bob, names), SHOWN_S, 0.5)
    resize(cloud, share, 2, bob)
    stranger.tries("with another size")

    cloud.run("share", "access", "delete", share, rule)
    wait_until(lambda: not alice.reads(PLACE, "cat file"), SHOWN_S, 0.5)
    alice.unmount(PLACE)
    assert alice.mount(place, PLACE).code
    stranger.tries("with a rule less")
    assert said(bob, f"cat {PLACE}/file") == "hers\n"
    bob.unmount(PLACE)
    delete(cloud, share)


def test_a_share_lives_from_create_to_delete_and_nobody_reaches_it_without_a_rule(cluster, cloud, client):
    with Stranger(cluster, "mallory") as stranger:
        with an_open_volume(cluster) as name:
            assert stranger.without_tls(name)
        with stranger.trying():
            live(cluster, cloud, client, stranger)
    assert stranger.reached == []
    assert (cluster.volumes(), cluster.bricks()) == ([], [])


def mount_by_nfs(abaca, machine, place):
    """Whether a machine with a kernel of its own could mount it."""
    options = f"vers=4.2,port={abaca.nfs_port}"
    return machine.script(f"mkdir -p {PLACE} && mount -t nfs4 -o {options} {place} {PLACE}", SHOWN_S).code == 0


def by_nfs(abaca, machine, place, script):
    """What comes of a script of libnfs's programs, `$at` being where the share is."""
    host, _, path = place.partition(":")
    return machine.script(f"at='nfs://{host}{path}'; port='?version=4&nfsport={abaca.nfs_port}'; {script}", SHOWN_S)


def nfs_server(abaca):
    """The process of NFS-Ganesha; 0 while there is none."""
    file = abaca.directory / "state" / "backends" / "gluster" / "ganesha" / "ganesha.pid"
    return int(file.read_text() or "0") if file.exists() else 0


def live_by_nfs(cluster, abaca, cloud, client, machine, stranger):
    """A share of NFS is made, used by two, resized, outlives its server and its worker, is closed, and deleted."""
    with stranger.during("creation"):
        share = made(cloud, "by nfs", "NFS")
    stranger.tries("before the first rule")
    place, alice = location(cloud, share), client("alice")
    assert place.startswith(f"{cluster.network.host_ipv4}:/")
    assert not mount_by_nfs(abaca, machine, place)
    rule = allow(cloud, share, machine.ipv4, "ip")
    assert mount_by_nfs(abaca, machine, place)
    assert size_gib(machine) == 1
    said(machine, f"echo text > {PLACE}/file && sync -f {PLACE}/file")
    # A good certificate leads nowhere, nor does an address without a rule.
    assert alice.mount(f"{cluster.nodes[0].ipv4}:{place.partition(':')[2]}", PLACE).code
    alice.unmount(PLACE)
    look, write = 'nfs-cat "$at/file$port"', 'nfs-cp /etc/hostname "$at/other$port"'
    assert "text" not in by_nfs(abaca, alice, place, look).stdout
    allow(cloud, share, alice.ipv4, "ip", "ro")
    assert by_nfs(abaca, alice, place, look).stdout == "text\n"
    assert by_nfs(abaca, alice, place, f"{write} || exit 1").code
    assert said(machine, f"ls {PLACE}") == "file\n"
    with stranger.during("extension"):
        resize(cloud, share, 3, machine)

    first = nfs_server(abaca)
    os.kill(first, signal.SIGKILL)
    assert said(machine, f"cat {PLACE}/file") == "text\n"
    second = nfs_server(abaca)
    abaca.stop()
    said(machine, f"echo more >> {PLACE}/file && sync -f {PLACE}/file")
    abaca.start()
    wait_until(lambda: cloud.read("share", "show", share)["status"] == "available", SHOWN_S, 0.5)
    assert (first != second, nfs_server(abaca)) == (True, second)
    assert renew(abaca)[-1].startswith("NFS-Ganesha: a new certificate")
    wait_until(lambda: nfs_server(abaca) not in {0, second}, SHOWN_S, 0.5)
    wait_until(lambda: "more" in machine.script(f"cat {PLACE}/file", SHOWN_S).stdout, SHOWN_S, 0.5)

    cloud.run("share", "access", "delete", share, rule)
    wait_until(lambda: machine.script(f"ls {PLACE}/. || exit 1", SHOWN_S).code, SHOWN_S, 0.5)
    machine.script(f"umount -f -l {PLACE}")
    assert not mount_by_nfs(abaca, machine, place)
    assert by_nfs(abaca, alice, place, look).stdout == "text\nmore\n"
    stranger.tries("with a rule less")
    delete(cloud, share)


def test_a_share_of_nfs_lives_on_a_sealed_volume_that_lets_in_its_server_alone(cluster, abaca, cloud, client):
    with Stranger(cluster, "trudy") as stranger, guest.Guest(cluster.network, "kernel") as machine, stranger.trying():
        live_by_nfs(cluster, abaca, cloud, client, machine, stranger)
    assert stranger.reached == []
    assert (cluster.volumes(), cluster.bricks()) == ([], [])
    assert list((abaca.directory / "state" / "backends" / "gluster" / "ganesha" / "exports").iterdir()) == []


def renew(abaca):
    """Each node has a new certificate, and each volume of a share serves by it."""
    return certificate(abaca, "renew", "--restart").splitlines()


def test_a_share_is_attached_to_servers_that_have_keys_of_their_own(cluster, abaca, cloud):
    share, another = made(cloud, "attached"), made(cloud, "another")
    with a_server(cluster, abaca, "one") as (one, first), a_server(cluster, abaca, "two") as (two, second):
        here, apart = attach(abaca, share, first), attach(abaca, another, second)
        place, source = here["mount_point"], location(cloud, share)
        said(one, f"echo text > {place}/file && sync {place}/file")
        # known, and by the same authority, but not let in
        assert two.mount(source, PLACE).code
        two.unmount(PLACE)
        there = attach(abaca, share, second)
        assert said(two, f"cat {place}/file") == "text\n"
        assert said(one, "stat -Lc %a /etc/ssl/glusterfs.key") == "600\n"
        assert said(one, "cat /etc/ssl/glusterfs.key") != said(two, "cat /etc/ssl/glusterfs.key")
        assert all(node.ipv4 in said(one, "cat /etc/fstab") for node in cluster.nodes)
        assert here["addresses"] == [f"abaca-server-{first}"]

        assert {line.rpartition(": ")[2] for line in renew(abaca) if line.startswith("volume")} == {"started anew"}
        wait_until(lambda: one.script(f"echo more >> {place}/file && sync {place}/file || exit 1").code == 0, SHOWN_S)
        wait_until(lambda: "more" in two.script(f"cat {place}/file").stdout, SHOWN_S, 0.5)

        said(one, f"umount {place} && mount -a && cat {place}/file")
        two.script(f"umount {place}")
        abaca.admin.call("POST", f"{ATTACHMENTS}/{there['id']}/verify")
        wait_until(lambda: "more" in two.script(f"cat {place}/file").stdout, SHOWN_S, 0.5)

        detach(abaca, here["id"])
        wait_until(lambda: left_on(one) == "", SHOWN_S, 0.5)
        assert one.mount(source, PLACE).code
        assert "more" in said(two, f"cat {place}/file")
        for attachment in (there["id"], apart["id"]):
            wait_until(lambda wanted=attachment: active(abaca, wanted), SHOWN_S, 0.5)
            detach(abaca, attachment)
        wait_until(lambda: left_on(two) == "", SHOWN_S, 0.5)
    delete(cloud, share)
    delete(cloud, another)
    assert (cluster.volumes(), cluster.bricks()) == ([], [])


def test_a_share_comes_and_goes_although_the_worker_is_killed_in_the_middle(cluster, abaca, cloud):
    def killed_at(work):
        wait_until(lambda: cluster.heketi.is_at(work), SHOWN_S)
        running.kill_worker(abaca.process.pid)
        assert cluster.heketi.is_at(work)

    share = cloud.read("share", "create", "GLUSTERFS", "1", "--name", "killed")["id"]
    killed_at("create-volume")
    wait_until_it_is(cloud, share, "available", 1)
    assert cluster.volumes() == [location(cloud, share).rpartition("/")[2]]
    cloud.run("share", "delete", share)
    killed_at("delete-volume")
    wait_until(lambda: share not in str(cloud.read("share", "list")), SHOWN_S, 0.5)
    assert cluster.left() == []


@thorough
def test_a_share_comes_and_goes_although_heketi_is_killed_in_the_middle(cluster, cloud):
    share = cloud.read("share", "create", "GLUSTERFS", "1", "--name", "cut short")["id"]
    wait_until(cluster.bricks, SHOWN_S)
    cluster.heketi.kill()
    cluster.heketi.start()
    assert cluster.heketi.is_at("create-volume")
    wait_until(lambda: cloud.read("share", "show", share)["status"] == "available", SHOWN_S, 0.5)
    assert len(cluster.volumes()) == 1
    cloud.run("share", "delete", share)
    wait_until(lambda: not cluster.volumes(), SHOWN_S)
    cluster.heketi.kill()
    cluster.heketi.start()
    assert cluster.heketi.is_at("delete-volume")
    wait_until(lambda: share not in str(cloud.read("share", "list")), SHOWN_S, 0.5)
    assert (cluster.volumes(), cluster.bricks()) == ([], [])


def page(heading):
    """The blocks of lines below a heading of the operators' page, in its order."""
    part = (
        (ROOT / "docs" / "drivers" / "glusterfs.md").read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    )
    return [block.partition("\n")[2] for block in part.split("```")[1::2]]


def typed(abaca, directory, lines, **more):
    """What is said to an administrator who types these lines on the host of the worker."""
    (directory / "bin").mkdir(exist_ok=True)
    path = command.on_path(directory / "bin")
    own = f'exec {sys.executable} -m abaca "$@" --config-file {abaca.configuration}'
    (directory / "bin" / "abaca").write_text(f"#!/bin/sh\n{own}\n")
    (directory / "bin" / "abaca").chmod(0o755)
    given = {"PATH": path, "OS_CLIENT_CONFIG_FILE": str(abaca.directory / "clouds.yaml"), "OS_CLOUD": "admin", **more}
    words = ["bash", "-euo", "pipefail", "-c", lines]
    done = subprocess.run(words, env=given, cwd=directory, capture_output=True, text=True, check=False, timeout=SHOWN_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_page_leads_from_an_empty_cluster_to_a_mounted_share(cluster, abaca, cloud, tmp_path):
    """Its addresses and files are others here; what is copied between machines is carried by hand.

    The client has a kernel of its own. While it has the share mounted that grows.
    """
    written, typed_type = page("What it needs")
    options = configparser.ConfigParser()
    options.read_string(written)
    options["gluster"].update({**cluster.section(), "clusters": f"gold:{cluster.cluster}"})
    options["gluster"].pop("heketi_ca_file")  # the one here listens without TLS
    options["DEFAULT"]["state_path"] = str(tmp_path / "state")
    with (tmp_path / "page.conf").open("w") as file:
        options.write(file)
    argv = [sys.executable, "-m", "abaca", "config", "check", "--config-file", str(tmp_path / "page.conf")]
    checked = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=SHOWN_S)
    assert checked.returncode == 0, checked.stdout + checked.stderr

    made, requested, issued, mounted, deleted = page("A first share")
    typed(abaca, tmp_path, f"{typed_type}{made}")
    location = next(line for line in typed(abaca, tmp_path, made.splitlines()[-1]).splitlines() if line)
    machine = gluster_guests.GlusterGuest(cluster.network, "newcomer").start()
    try:
        said(machine, f"cd /tmp && {requested}")
        (tmp_path / "alice.csr").write_text(said(machine, "cat /tmp/alice.csr"))
        typed(abaca, tmp_path, issued)
        wait_until(lambda: cloud.read("share", "access", "list", "first")[0]["State"] == "active", SHOWN_S, 0.5)
        for name in ("alice.pem", "glusterfs.ca"):
            said(machine, f"cat > /tmp/{name} <<'END'\n{(tmp_path / name).read_text()}END")
        said(machine, f"set -e; cd /tmp; LOCATION={location}; {mounted}")
        assert "fuse.glusterfs" in said(machine, "grep ' /mnt/first ' /proc/mounts")
        said(machine, "echo text > /mnt/first/file && sync")
        cloud.run("share", "resize", "first", "3", "--wait")
        wait_until(lambda: said(machine, "df -B 1G --output=size /mnt/first").split() == ["1G-blocks", "3"], SHOWN_S)
        assert said(machine, "cat /mnt/first/file") == "text\n"
        said(machine, "umount /mnt/first")
    finally:
        machine.stop()
    typed(abaca, tmp_path, deleted)
    wait_until(lambda: "first" not in str(cloud.read("share", "list")), SHOWN_S, 0.5)
    cloud.run("share", "type", "delete", "gluster")
    assert (cluster.volumes(), cluster.bricks()) == ([], [])
