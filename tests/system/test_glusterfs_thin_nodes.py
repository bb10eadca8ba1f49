# SPDX-License-Identifier: Apache-2.0
"""A share that three nodes keep on real thin LVM: it is snapshotted, copied, reverted and grows although one dies.

`make bed` runs it: the nodes are user-mode-linux machines, on which all takes ten times as long as elsewhere.
"""

import os
import time

import pytest

from abaca.drivers import contract
from tests.drivers.contract.calls import settled
from tests.system.test_glusterfs_thin_disks import SEEN, Rig, is_under_way, patiently, thin_cluster, told, without_times

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not os.environ.get("GLUSTER_BED"), reason="many minutes: make bed"),
]


@pytest.fixture(scope="module")
def rig():
    with thin_cluster(3) as cluster:
        made = Rig(cluster, "replica 3")
        yield made
        made.end()


def test_every_node_has_the_files_and_a_snapshot_of_them(rig):
    volume = rig.node.gluster("volume", "info", f"abaca_{rig.share.id}")
    assert "1 x 3 = 3" in volume
    for node in rig.cluster.nodes:
        assert f"{node.ipv4}:/" in volume
        assert node.check(["bash", "-c", "lvs --noheadings -o origin"], 600.0).split()
    shown = rig.node.gluster("snapshot", "status", f"abaca_snapshot_{rig.snapshot.id}")
    assert shown.count("Brick Path") == 3


def test_a_share_from_a_snapshot_has_all_of_it_although_a_node_loses_its_power(rig):
    clone = rig.clone()
    begun_s = time.monotonic()
    settled(rig.driver.start_clone, clone)
    told("its volume is made, and the copy begun", begun_s)
    rig.cluster.nodes[2].kill()
    rig.cluster.nodes[2].start()
    told("a node is back", begun_s)
    rig.ended(clone)
    told("a share from a snapshot is made and compared", begun_s)
    patiently(rig.driver.delete, clone.instance)


def test_a_share_goes_back_and_grows_on_all_nodes(rig):
    revert = contract.Revert(snapshot=rig.snapshot, rules=rig.rules)
    begun_s = time.monotonic()
    patiently(rig.driver.start_revert, revert)
    assert is_under_way(rig.driver, revert)
    patiently(rig.driver.end_revert, revert)
    told("the share is back", begun_s)
    assert rig.cluster.copies() == []
    with rig.mounted(rig.share) as where:
        assert rig.said(SEEN, where) == rig.tree
    patiently(rig.driver.extend, rig.share, 3)
    told("it has grown", begun_s)
    assert "2 x 3 = 6" in rig.node.gluster("volume", "info", f"abaca_{rig.share.id}")
    with rig.mounted(rig.share) as where:
        assert without_times(rig.said(SEEN, where)) == without_times(rig.tree)
