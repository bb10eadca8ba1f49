# SPDX-License-Identifier: Apache-2.0
"""Shares from snapshots of a real GlusterFS on real thin LVM: what they hold, who reaches them, what dies meanwhile.

`make bed` runs it: the node is a user-mode-linux machine, on which all takes ten times as long as elsewhere.
"""

import contextlib
import os
import sys
import threading
import time
import uuid

import pytest

from abaca.drivers import contract, load
from lab import gluster_cluster, gluster_machines, heketi_server, processes, runs
from tests.conftest import wait_until
from tests.drivers.contract.calls import settled

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not os.environ.get("GLUSTER_BED"), reason="many minutes: make bed"),
]
SHOWN_S = 1200.0
BIG_MIB = 48
PLACE = "/mnt/share"
# All that a copy must have in common, a line each; times of symbolic links are nobody's matter.
SEEN = r"""cd "$1"
find . -type f -printf '%P %m %U:%G %s %n %T@\n' | sort
find . -type l -printf '%P -> %l %U:%G\n' | sort
find . ! -type f ! -type l -printf '%P %y %m %U:%G %T@\n' | sort
find . -type f -exec sha256sum {} + | sort
find . -print0 | sort -z | xargs -0 getfattr -h -d -m '^user|^security|posix_acl' --absolute-names 2> /dev/null"""
TREE = f"""set -e
cd "$1"
mkdir -p 'odd
name' deep/er/est
echo text > plain && chown 1234:4321 plain && chmod 4751 plain
ln plain deep/hard && ln -s ../plain deep/soft && ln -s nowhere dangling
echo named > 'odd
name/ *$x'
truncate -s 20M sparse && echo end >> sparse
mkfifo pipe
setfattr -n user.colour -v blue plain
setfattr -n user.colour -v red deep
setfacl -m u:77:rw plain
head -c {BIG_MIB}M /dev/urandom > big
touch -d @1000000000.123456789 deep/er plain
chmod 700 . && chown 5:6 .
sync"""


@pytest.fixture(scope="module")
def cluster():
    with thin_cluster(1) as made:
        yield made


@contextlib.contextmanager
def thin_cluster(nodes):
    """A cluster of so many nodes that leaves nothing on this machine."""
    try:
        gluster_cluster.need()
    except heketi_server.NotBuilt as problem:
        pytest.skip(f"NOT TESTED on this machine, GlusterFS on thin disks: {problem}")
    with runs.Run() as run:
        made = gluster_cluster.ThinCluster(run, nodes)
        begun_s = time.monotonic()
        made.start()
        told(f"{nodes} nodes and Heketi are up", begun_s)
        yield made
        made.stop()
    assert run.leftovers() == []


def told(what, begun_s):
    """Print how long something took, for whoever reads the run's log."""
    sys.stderr.write(f"\n{what}: {time.monotonic() - begun_s:.1f} s\n")


class Rig:
    """A driver over the cluster, whose workers come and go, and a share with a snapshot that holds a tree of files."""

    def __init__(self, cluster, durability="none"):
        self.cluster, self.node, self.durability = cluster, cluster.nodes[0], durability
        self.driver = None
        self.start()
        self.share = self.instance()
        begun_s = time.monotonic()
        settled(self.driver.create, self.share)
        told("a share is made", begun_s)
        with self.mounted(self.share) as place:
            self.said(TREE, place)
            self.tree = self.said(SEEN, place)
        self.snapshot = contract.Snapshot(id=str(uuid.uuid4()), instance=self.share)
        self.rules = [contract.AccessRule(id="1", type="cert", to="alice", level="rw")]
        self.driver.set_access(self.share, self.rules)
        begun_s = time.monotonic()
        settled(self.driver.create_snapshot, self.snapshot)
        told("a snapshot is taken", begun_s)
        with self.mounted(self.share) as place:
            self.said('cd "$1" && rm -rf deep && echo later > plain', place)
        self.before = self.cluster.bricks()

    def start(self, **options):
        """Another worker."""
        if self.driver is not None:
            self.driver.stop()
        section = self.cluster.section() | {"durability": self.durability, "snapshots_per_share": "1"} | options
        state = self.cluster.network.run.path("backend")
        backend = contract.Backend(name="b1", host="h@b1", share_backend_name="B1", state_dir=state)
        self.driver = load.driver(backend, "glusterfs", section)
        self.driver.start()
        return self.driver

    def instance(self, **more):
        id = str(uuid.uuid4())
        values = {"id": id, "share_id": id, "project_id": "p", "size_gib": 1, "protocol": "GLUSTERFS"}
        return contract.ShareInstance(**values | {"pool": self.cluster.cluster} | more)

    def clone(self):
        return contract.Clone(instance=self.instance(), snapshot=self.snapshot)

    def said(self, script, *words):
        return self.node.check(["bash", "-c", script, "bash", *words], SHOWN_S)

    @contextlib.contextmanager
    def mounted(self, share):
        assert self.node.mount(f"{self.node.ipv4}:/abaca_{share.id}", PLACE).code == 0
        try:
            yield PLACE
        finally:
            self.node.unmount(PLACE)

    def copying(self, clone):
        """The clone is begun, and its copy is in the middle: how much it has copied of the large file."""
        settled(self.driver.start_clone, clone)
        place = f"/run/abaca-copy-abaca_{clone.instance.id}"
        return wait_until(lambda: self.node.run(["test", "-s", f"{place}/to/big"], SHOWN_S).code == 0, SHOWN_S)

    def done(self, clone):
        try:
            return self.driver.look_at_clone(clone).is_done
        except (contract.Unreachable, contract.Busy) as error:
            sys.stderr.write(f"\n{error}\n")
            return False

    def ended(self, clone):
        """It has all that the snapshot has, to the last attribute, and nothing else is left of the copy."""
        wait_until(lambda: self.done(clone), SHOWN_S, 1)
        assert settled(self.driver.end_clone, clone).exports
        assert self.cluster.copies() == []
        assert "Stopped" in self.node.gluster("snapshot", "info", f"abaca_snapshot_{self.snapshot.id}")
        with self.mounted(clone.instance) as place:
            assert self.said(SEEN, place) == self.tree

    def end(self):
        """Take everything away, of which nothing is left."""
        settled(self.driver.delete, self.share)
        settled(self.driver.delete_snapshot, self.snapshot)
        assert (self.cluster.volumes(), self.cluster.bricks(), self.cluster.copies()) == ([], [], [])
        self.driver.stop()

    def deleted(self, share):
        settled(self.driver.delete, share)
        wait_until(lambda: self.cluster.bricks() == self.before, SHOWN_S, 1)


@pytest.fixture(scope="module")
def rig(cluster):
    made = Rig(cluster)
    yield made
    made.end()


@pytest.fixture(scope="module")
def alice(rig):
    """The machine of who is let into the share that the snapshot is of."""
    client = gluster_machines.GlusterClient(rig.cluster.network, "alice").start()
    request = gluster_cluster.make_key(client, "alice")
    issued = rig.driver.issue("alice", request)
    gluster_cluster.seal(client, issued.pem, issued.authority)
    let_in(rig, client)
    client.unmount(PLACE)
    yield client
    client.stop()


def let_in(rig, client):
    """The client mounts the share; after a power cut a brick needs a while."""
    place = f"{rig.node.ipv4}:/abaca_{rig.share.id}"
    wait_until(lambda: client.mount(place, PLACE).code == 0, SHOWN_S, 2)


@contextlib.contextmanager
def trying(rig, client, share):
    """A client tries to mount a share all the while, and never does; when it has tried."""
    tried, reached, over = [], [], threading.Event()

    def go_on():
        while not over.is_set():
            with contextlib.suppress(processes.LabError, OSError):  # the node may have no power
                if f"abaca_{share.id}" not in rig.cluster.volumes():
                    continue
                tried.append(time.monotonic())
                if client.mount(f"{rig.node.ipv4}:/abaca_{share.id}", PLACE).code == 0:
                    reached.append(time.monotonic())
                client.unmount(PLACE)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield tried
    finally:
        over.set()
        thread.join()
    assert reached == []


def patiently(call, *arguments):
    """Call it as its operation does: again, while Heketi has not yet noticed that a node is back."""

    def ended():
        try:
            return (settled(call, *arguments),)
        except contract.Unreachable as error:
            sys.stderr.write(f"\n{error}\n")
            return None

    return wait_until(ended, SHOWN_S, 5)[0]


def test_a_share_from_a_snapshot_has_all_of_it_and_its_users_do_not_reach_it(rig, alice):
    clone = rig.clone()
    with trying(rig, alice, clone.instance) as tried:
        begun_s = time.monotonic()
        settled(rig.driver.start_clone, clone)
        told("its volume is made, and the copy begun", begun_s)
        rig.ended(clone)
        told(f"a share from a snapshot of {BIG_MIB} MiB is made and compared", begun_s)
    assert len(tried) > 1
    rig.deleted(clone.instance)


def test_a_copy_whose_node_loses_its_power_is_ended_when_it_is_back(rig):
    clone = rig.clone()
    assert rig.copying(clone)
    rig.node.kill()
    with pytest.raises(contract.Unreachable):
        rig.driver.look_at_clone(clone)
    begun_s = time.monotonic()
    rig.node.start()
    told("a node is back", begun_s)
    rig.ended(clone)
    told("its copy has ended", begun_s)
    rig.deleted(clone.instance)


def test_a_copy_whose_process_is_killed_is_ended_by_another_worker(rig):
    clone = rig.clone()
    assert rig.copying(clone)
    rig.said("pkill -KILL -x cp")
    rig.start()
    rig.ended(clone)
    rig.deleted(clone.instance)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_copy_that_is_cancelled_in_the_middle_leaves_nothing(rig, is_restarted):
    clone = rig.clone()
    assert rig.copying(clone)
    if is_restarted:
        rig.node.kill()
        rig.node.start()
    begun_s = time.monotonic()
    patiently(rig.start().cancel_clone, clone)
    told("a copy is cancelled", begun_s)
    assert rig.cluster.copies() == []
    assert "Stopped" in rig.node.gluster("snapshot", "info", f"abaca_snapshot_{rig.snapshot.id}")
    wait_until(lambda: rig.cluster.bricks() == rig.before, SHOWN_S, 1)


def test_a_share_goes_back_although_its_node_loses_its_power_and_nobody_reaches_it_meanwhile(rig, alice):
    """She has it mounted, and goes on writing as long as she can."""
    revert = contract.Revert(snapshot=rig.snapshot, rules=rig.rules)
    let_in(rig, alice)
    alice.script(f"cd {PLACE} && {{ while echo hers > hers; do sleep 0.1; done > /dev/null 2>&1 & }}", SHOWN_S)
    settled(rig.driver.start_revert, revert)
    begun_s = time.monotonic()
    with pytest.raises(contract.UnderWay):
        rig.driver.end_revert(revert)
    told("the share is closed, and the copy begun", begun_s)
    assert not alice.reads(PLACE)
    alice.unmount(PLACE)
    with trying(rig, alice, rig.share) as tried:
        copied = f"/run/abaca-copy-abaca_{rig.share.id}/to/big"
        wait_until(lambda: rig.node.run(["test", "-s", copied], SHOWN_S).code == 0, SHOWN_S)
        rig.node.kill()
        with pytest.raises(contract.Unreachable):
            rig.driver.end_revert(revert)
        rig.node.start()
        wait_until(lambda: is_under_way(rig.start(), revert), SHOWN_S, 1)
    patiently(rig.start().end_revert, revert)
    told("the share is back", begun_s)
    assert tried
    let_in(rig, alice)
    alice.unmount(PLACE)
    assert rig.cluster.copies() == []
    with rig.mounted(rig.share) as where:
        assert rig.said(SEEN, where) == rig.tree
    # It is Heketi's as before, which makes it larger; times of directories are those of their new bricks then.
    patiently(rig.driver.extend, rig.share, 3)
    with rig.mounted(rig.share) as where:
        assert without_times(rig.said(SEEN, where)) == without_times(rig.tree)


def without_times(seen):
    return [line.rpartition(" ")[0] if " d " in line else line for line in seen.splitlines()]


def is_under_way(driver, revert):
    """Whether it has begun again; what it says else passes."""
    try:
        driver.end_revert(revert)
    except contract.UnderWay:
        return True
    except (contract.Unreachable, contract.Busy) as error:
        sys.stderr.write(f"\n{error}\n")
    return False


def test_a_share_of_nfs_goes_back_and_is_exported_again(rig):
    address, port = rig.cluster.network.host_ipv4, processes.free_port()
    before = rig.node.bricks()
    driver = rig.start(export_ips=address, ganesha_port=str(port), nfs_minor_versions="0,1,2")
    share = rig.instance(protocol="NFS")
    place = f"nfs://{address}/abaca_{share.id}/plain?version=4&nfsport={port}"
    rules = [contract.AccessRule(id="1", type="ip", to=address, level="rw")]
    try:
        settled(driver.create, share)
        driver.set_access(share, rules)
        with rig.mounted(share) as where:
            rig.said('echo before > "$1/plain" && sync', where)
        assert processes.command(["nfs-cat", place]) == "before\n"
        snapshot = contract.Snapshot(id=str(uuid.uuid4()), instance=share)
        settled(driver.create_snapshot, snapshot)
        with rig.mounted(share) as where:
            rig.said('echo later > "$1/plain" && sync', where)
        revert = contract.Revert(snapshot=snapshot, rules=rules)
        settled(driver.start_revert, revert)
        with pytest.raises(contract.UnderWay):
            driver.end_revert(revert)
        with pytest.raises(processes.LabError):
            processes.command(["nfs-cat", place])
        patiently(driver.end_revert, revert)
        assert processes.command(["nfs-cat", place]) == "before\n"
        patiently(driver.delete, share)
        patiently(driver.delete_snapshot, snapshot)
        wait_until(lambda: rig.node.bricks() == before, SHOWN_S, 1)
    finally:
        driver.shutdown()
        rig.start()
