# SPDX-License-Identifier: Apache-2.0
"""The harness of the GlusterFS driver over a real GlusterFS and a real Heketi, for `make thorough` and `make bed`."""

import contextlib
import shlex

import pytest

from abaca.drivers import contract, wrappers
from abaca.drivers.clients import gluster
from lab import gluster_bed, gluster_cluster, processes
from tests.drivers import server_files
from tests.drivers.contract.calls import settled
from tests.drivers.harness import GIB, DummyHarness, GlusterfsHarness, LocalHarness

OF_SNAPSHOTS = {contract.Snapshots, contract.ClonesSnapshots, contract.Reverts, contract.RevertsAtOnce}


class GlusterfsNodesHarness(GlusterfsHarness):
    """The same over a real GlusterFS and a real Heketi. Users are one of the nodes, which every volume lets in."""

    marks = (pytest.mark.system,)
    come_and_go = 4
    can_be_held_up = False
    place = LocalHarness.place

    @classmethod
    def is_tested(cls, promise):
        """The nodes' stand-in for LVM has no thin pools, without which GlusterFS takes no snapshots."""
        return super().is_tested(promise) and promise not in OF_SNAPSHOTS

    def __init__(self):
        DummyHarness.__init__(self)
        self.bed = self.make_bed()
        self.bed.start()
        self.node = self.bed.nodes[0]
        self.section = self.bed.section()

    def make_bed(self):
        """The cluster, which is not started."""
        return gluster_cluster.GlusterCluster(self.run)

    def build(self, **options):
        """It returns when nothing is under way, which takes a real Heketi seconds."""
        return wrappers.wrap(super().build(**options), lambda _name, call: settled(call))

    @contextlib.contextmanager
    def mounted(self, share):
        """Where the share is mounted on the node meanwhile."""
        place = f"/mnt/{share.id}"
        assert self.node.mount(f"{self.node.ipv4}:/{self.names()[share.id]}", place).code == 0
        try:
            yield place
        finally:
            self.node.unmount(place)

    def names(self):
        """The names of volumes by the ids of the instances that they are."""
        marked = {}
        for name in self.bed.volumes():
            with contextlib.suppress(contract.Gone):  # another thread has just deleted it
                marked[self.options(name).get(gluster_bed.MARK)] = name
        return {id: name for id, name in marked.items() if id not in gluster_bed.NOBODYS}

    def options_of(self, share):
        return self.options(self.names()[share.id])

    def options(self, name):
        """What is set of a volume. Raises `contract.Gone`."""
        shown = self.node.run(["gluster", "--mode=script", "volume", "info", name], 300.0)
        return gluster.read_info(name, shown.stdout).options

    def write(self, share, text):
        with self.mounted(share) as place:
            self.node.check(["sh", "-c", f"printf %s {shlex.quote(text)} > {place}/file"])

    def read(self, share):
        with self.mounted(share) as place:
            return self.node.check(["cat", f"{place}/file"])

    def fill(self, share, used_gib):
        with self.mounted(self.used(share)) as place:
            self.node.check(["fallocate", "--length", f"{int(used_gib * 1024) - 1}M", f"{place}/big"])

    def damage(self, share):
        name = self.names()[self.used(share).id]
        self.node.gluster("volume", "quota", name, "limit-usage", "/", "3GB")
        self.node.gluster("volume", "set", name, "client.ssl", "off")
        self.node.gluster("volume", "stop", name, "force")

    def held(self):
        return set(self.names())

    def size_gib(self, share):
        shown = self.node.gluster("--xml", "volume", "quota", self.names()[self.used(share).id], "list", "/")
        return gluster.read_quota(shown).limit_bytes / GIB

    def clients(self, share):
        allowed = self.options_of(share)["auth.ssl-allow"].split(",")
        return {(name, "rw") for name in allowed if not name.startswith("abaca-node-")}

    def close(self):
        self.driver.stop()
        self.bed.stop()
        self.run.close()


class GlusterfsNfsHarness(GlusterfsNodesHarness):
    """The same with shares of NFS, which a real NFS-Ganesha on this host mounts and exports."""

    weaker, odd_rules, very_many = DummyHarness.weaker, DummyHarness.odd_rules, DummyHarness.very_many
    rules = DummyHarness.rules

    def __init__(self):
        super().__init__()
        self.address, self.port = self.bed.network.host_ipv4, processes.free_port()
        self.section |= {"export_ips": self.address, "ganesha_port": str(self.port), "nfs_minor_versions": "0,1,2"}

    def instance(self, **more):
        return super().instance(**{"protocol": "NFS"} | more)

    def place_of(self, share):
        """Where its users mount it."""
        return f"nfs://{self.address}/{self.names()[share.id]}?version=4&nfsport={self.port}"

    def clients(self, share):
        with server_files.bus(self.directory / "ganesha") as bus:
            shown = {path: bus.show(id) for id, path in bus.paths().items()}
        seen = shown[f"/volumes/{self.names()[share.id]}"].clients
        return {(network.removesuffix("/32").removesuffix("/128"), level) for network, level in seen}

    def damage(self, share):
        """It has no export either."""
        path = f"/volumes/{self.names()[self.used(share).id]}"
        with server_files.bus(self.directory / "ganesha") as bus:
            bus.remove(next(id for id, seen in bus.paths().items() if seen == path))
        super().damage(share)

    def close(self):
        self.driver.stop()
        self.driver.shutdown()
        super().close()


class GlusterfsThinHarness(GlusterfsNodesHarness):
    """The same on one node with real thin LVM, a user-mode-linux machine: only what there is of snapshots."""

    @classmethod
    def is_tested(cls, promise):
        return super(GlusterfsNodesHarness, cls).is_tested(promise) and promise in OF_SNAPSHOTS

    def __init__(self):
        super().__init__()
        self.section |= {"durability": "none", "snapshots_per_share": "1"}

    def make_bed(self):
        return gluster_cluster.ThinCluster(self.run, nodes=1)

    def snapshots(self):
        listed = self.node.gluster("snapshot", "list").split()
        return {name.removeprefix(gluster_bed.SNAPSHOT) for name in listed if name.startswith(gluster_bed.SNAPSHOT)}

    def close(self):
        left = self.bed.copies()
        super().close()
        assert not left, f"copies left {left}"
