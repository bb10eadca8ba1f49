# SPDX-License-Identifier: Apache-2.0
"""The GlusterFS driver where its settings, or what a share type asks for, are not as they should be."""

import pytest

from abaca import errors
from abaca.drivers import contract
from lab import gluster_bed
from tests.drivers.harness import GlusterfsHarness


@pytest.fixture(scope="module")
def rig():
    made = GlusterfsHarness()
    made.start()
    yield made
    made.close()


@pytest.mark.parametrize("name", ["heketi_url", "heketi_key_file", "ssh_key_file", "ssh_known_hosts"])
def test_a_setting_that_is_missing_is_named(rig, name):
    with pytest.raises(contract.Refused, match=f"{name} is not set"):
        rig.build(**{name: ""}).start()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("durability", "raid 5"),
        ("heketi_url", "heketi"),
        ("tls_directory", "/etc/ssl; reboot"),
        ("authority_key", "/k"),
        ("export_ips", "storage.example.org"),
        ("grace_s", "1"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_when_it_is_read(rig, name, value):
    with pytest.raises(errors.ConfigError, match=name):
        rig.build(**{name: value})


def test_a_share_of_nfs_needs_an_address_that_it_is_exported_at(rig):
    share = rig.instance(protocol="NFS")
    with pytest.raises(contract.Refused, match="no NFS server: set export_ips"):
        rig.driver.create(share)
    assert (rig.bed.heketi.volumes, rig.bed.heketi.hidden) == ({}, {})
    assert rig.driver.protocols == ("GLUSTERFS",)
    assert rig.build(export_ips="127.0.0.1").protocols == ("GLUSTERFS", "NFS")


def test_a_cluster_that_heketi_does_not_have_is_named(rig):
    with pytest.raises(contract.Refused, match="no cluster 00ff for the pool gold"):
        rig.build(clusters="gold:00ff").start()


def test_a_node_that_shows_another_host_key_is_told_nothing(rig, tmp_path):
    strangers = gluster_bed.Bed(tmp_path / "bed", nodes=1)
    other = rig.build(ssh_known_hosts=str(strangers.nodes.known_hosts))
    strangers.close()
    other.start()
    with pytest.raises(contract.Refused, match="host key"):
        other.create(rig.instance())
    other.stop()


def test_a_small_share_is_kept_in_parts_of_which_none_is_too_small_and_grows_by_such(rig):
    bed = gluster_bed.Bed(rig.directory / "six", nodes=6)
    driver = rig.build(**bed.section())
    try:
        driver.start()
        (pool,) = driver.clusters()
        share = rig.instance(pool=pool, extra_specs={"glusterfs:durability": "disperse 4+2"})
        driver.create(share)
        driver.extend(share, 4)
        (volume,) = bed.gluster.volumes.values()
        assert volume.limit_bytes == 4 << 30
        assert [one["size"] for one in bed.heketi.volumes.values()] == [8]
        driver.delete(share)
    finally:
        driver.stop()
        bed.close()


def test_a_share_that_needs_more_nodes_than_there_are_is_told_how_many(rig):
    share = rig.instance(extra_specs={"glusterfs:durability": "disperse 4+2"})
    with pytest.raises(contract.Full, match=r"disperse 4\+2 needs 6 nodes .* the pool has 3"):
        rig.driver.create(share)
    assert (rig.bed.heketi.volumes, rig.bed.heketi.hidden) == ({}, {})
