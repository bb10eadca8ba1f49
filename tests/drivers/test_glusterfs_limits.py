# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811
"""A share on GlusterFS gets its limit before the first client is let in, whatever happens in between."""

import msgspec
import pytest

from abaca.drivers import contract
from tests.drivers.contract.calls import settled
from tests.drivers.test_glusterfs import certs, rig, shared  # noqa: F401 (fixtures)
from tests.drivers.test_glusterfs_snapshots import let_in

GIB = 1 << 30
SOME = [contract.AccessRule(id="alice", type="cert", to="alice", level="rw")]


@pytest.fixture
def share(rig):
    """A new share of 2 GiB, which nobody was let in to yet."""
    made = rig.known(rig.instance(size_gib=2), size_gib=2)
    yield made
    rig.bed.gluster.refuses.clear()
    settled(rig.driver.delete, made)


def limit_gib(rig, share):
    """None for no limit."""
    limit = rig.bed.gluster.volumes[f"abaca_{share.id}"].limit_bytes
    return None if limit is None else limit / GIB


def test_the_first_client_is_let_in_once_there_is_a_limit(rig, share):
    assert limit_gib(rig, share) is None
    rig.bed.gluster.commands.clear()
    rig.driver.set_access(share, [])
    assert (limit_gib(rig, share), let_in(rig, share)) == (None, set())
    rig.driver.set_access(share, SOME)
    said = [" ".join(words) for words in rig.bed.gluster.commands]
    (limited,) = (at for at, line in enumerate(said) if "limit-usage" in line)
    (opened,) = (at for at, line in enumerate(said) if "auth.ssl-allow" in line)
    assert limited < opened
    assert "user.abaca.limit set" in said[opened]
    assert (limit_gib(rig, share), let_in(rig, share)) == (2, {"alice"})
    rig.bed.gluster.commands.clear()
    rig.driver.set_access(share, certs("bob"))
    assert not any("quota" in words for words in rig.bed.gluster.commands)


def test_a_rule_that_cannot_be_honoured_lets_nobody_in_and_needs_no_limit(rig, share):
    rule = msgspec.structs.replace(SOME[0], to="*")
    assert rig.driver.set_access(share, [rule])[rule.id].state == "error"
    assert (limit_gib(rig, share), let_in(rig, share)) == (None, set())


@pytest.mark.parametrize("verb", ["quota", "set"])
@pytest.mark.parametrize(
    ("said", "error"),
    [("Oops", contract.Refused), ("Another transaction is in progress. Please try again.", contract.Busy)],
)
def test_nobody_is_let_in_as_long_as_gluster_refuses_the_limit(rig, share, verb, said, error):
    rig.bed.gluster.refuses[verb] = said
    for _ in range(2):
        with pytest.raises(error):
            rig.driver.set_access(share, SOME)
        assert let_in(rig, share) == set()
    rig.bed.gluster.refuses.clear()
    rig.start().set_access(share, SOME)
    assert (limit_gib(rig, share), let_in(rig, share)) == (2, {"alice"})


def test_it_is_measured_looked_at_and_kept_without_a_limit(rig, share):
    assert rig.driver.measure_usage([share])[share.id].used_gib == 0
    assert (rig.driver.inspect([share]), rig.driver.ensure([share])) == ({}, {})
    assert limit_gib(rig, share) is None


def test_somebody_whom_another_let_in_before_that_is_found(rig, share):
    rig.volume(share).options["auth.ssl-allow"] += ",somebody"
    assert rig.driver.ensure([share])[share.id].repairs == ["what it holds was not counted"]
    assert limit_gib(rig, share) == 2


@pytest.mark.parametrize(("resize", "size_gib"), [("extend", 5), ("shrink", 1)])
def test_it_has_the_size_that_it_was_given_last(rig, share, resize, size_gib):
    settled(getattr(rig.driver, resize), share, size_gib)
    rig.driver.set_access(msgspec.structs.replace(share, size_gib=size_gib), SOME)
    assert limit_gib(rig, share) == size_gib


def test_one_that_is_given_up_has_its_limit(rig, share):
    rig.driver.unmanage(share)
    assert limit_gib(rig, share) == 2
    assert rig.driver.manage(share, {}).size_gib == 2
