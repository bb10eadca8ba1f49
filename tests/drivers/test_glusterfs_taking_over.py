# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811
"""Volumes that were there before: whose they are, how large they become, and what is left as it was."""

import msgspec
import pytest

from abaca.drivers import contract
from tests.drivers.contract.calls import settled
from tests.drivers.test_glusterfs import GIB, rig, shared  # noqa: F401 (fixtures)


@pytest.fixture
def theirs(rig):
    """A volume of 10 GiB that is nobody's, and that lets in somebody, with the exports by which it is taken over."""
    share = rig.instance(size_gib=9)
    exports = rig.driver.create(share).exports
    rig.driver.unmanage(share)
    volume = rig.bed.gluster.volumes[f"abaca_{share.id}"]
    volume.options["auth.ssl-allow"] += ",somebody"
    yield volume, exports
    volume.options["user.abaca.instance"] = share.id
    rig.driver.delete(msgspec.structs.replace(share, exports=exports))


def test_a_volume_is_taken_over_from_no_other_cluster(rig, theirs):
    volume, exports = theirs
    other = rig.bed.heketi.stock([])
    before = dict(volume.options)
    driver = rig.start(clusters=f"gold:{rig.bed.cluster},silver:{other}")
    try:
        with pytest.raises(contract.Gone, match="in the cluster of the pool silver"):
            driver.manage(rig.instance(exports=exports, pool="silver"), {})
        assert volume.options == before
        assert driver.manage(rig.instance(exports=exports, pool="gold"), {}).size_gib == 9
    finally:
        del rig.bed.heketi.clusters[other]
        rig.start()


@pytest.mark.parametrize("protocol", ["NFS", "CIFS"])
def test_what_the_back_end_does_not_serve_is_refused_before_anything_is_changed(rig, theirs, protocol):
    volume, exports = theirs
    before = dict(volume.options)
    with pytest.raises(contract.Refused, match=f"has no shares of protocol {protocol}"):
        rig.driver.manage(rig.instance(exports=exports, protocol=protocol), {})
    assert volume.options == before


@pytest.mark.parametrize(("limit_gib", "used_gib", "size_gib"), [(4, 1, 4), (4, 6, 6), (3.5, 0, 4)])
def test_a_limit_that_counts_later_is_kept_and_none_is_below_what_is_used(rig, theirs, limit_gib, used_gib, size_gib):
    volume, exports = theirs
    for option in ("features.soft-timeout", "features.hard-timeout"):
        del volume.options[option]
    volume.limit_bytes, volume.used_bytes = int(limit_gib * GIB), used_gib * GIB
    assert rig.driver.manage(rig.instance(exports=exports), {}).size_gib == size_gib
    assert volume.limit_bytes == size_gib * GIB
    assert volume.options["features.hard-timeout"] == "0"
    volume.used_bytes = 0


def test_a_volume_without_a_limit_gets_none_below_what_it_may_hold_and_grows_when_it_is_extended(rig, theirs):
    volume, exports = theirs
    volume.limit_bytes, volume.used_bytes = None, int(9.7 * GIB)
    for option in ("features.quota", "features.soft-timeout", "features.hard-timeout"):
        del volume.options[option]
    taken = rig.instance(exports=exports)
    assert rig.driver.manage(taken, {}).size_gib == 10
    assert volume.limit_bytes == 10 * GIB
    settled(rig.driver.extend, taken, 11)
    sizes = {one["name"]: one["size"] for one in rig.bed.heketi.volumes.values()}
    assert (volume.limit_bytes, sizes[exports[0].path.partition(":/")[2]]) == (11 * GIB, 12)
    volume.used_bytes = 0


def test_a_volume_that_is_kept_for_its_snapshots_says_so(rig, theirs):
    volume, exports = theirs
    volume.options["user.abaca.instance"] = "deleted"
    with pytest.raises(contract.Refused, match="is kept for the snapshots of a share that was deleted"):
        rig.driver.manage(rig.instance(exports=exports), {})
