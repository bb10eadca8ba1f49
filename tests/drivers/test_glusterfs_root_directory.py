# SPDX-License-Identifier: Apache-2.0
"""Owner and mode of a volume's topmost directory, which GlusterFS loses when the volume gets more bricks."""

import os

import pytest

from abaca.drivers import contract
from abaca.drivers.glusterfs import names
from tests.drivers.harness import GlusterfsHarness

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives directories away")


@pytest.fixture
def rig():
    made = GlusterfsHarness()
    made.start()
    yield made
    made.close()


@pytest.fixture
def driver(rig):
    return rig.driver


def test_owner_and_mode_of_the_topmost_directory_outlive_growing(rig, driver):
    share = rig.share()
    rig.volume(share).root = (0o2770, 5, 6)
    driver.extend(share, 100)
    assert rig.volume(share).root == (0o2770, 5, 6)
    assert rig.bed.nodes.copies() == []
    driver.delete(share)


def test_what_users_have_set_since_an_expansion_failed_stays(rig, driver):
    share = rig.share()
    rig.volume(share).root = (0o700, 5, 6)
    rig.volume(share).options[names.ROOT] = "755@5:6"
    driver.extend(share, 1)
    assert rig.volume(share).root == (0o700, 5, 6)
    assert not driver.is_root_noted(driver.held(share))
    driver.delete(share)


def test_what_the_topmost_directory_lost_is_given_back_by_whoever_goes_on(rig, driver):
    """A worker has died when the bricks were there already, and no node could mount the volume."""
    share = rig.share()
    rig.volume(share).root = (0o750, 5, 6)
    rig.bed.nodes.programs.fails["mount"] = "Mount failed."
    with pytest.raises(contract.Unreachable, match="topmost directory"):
        driver.extend(share, 100)
    assert rig.size_gib(share) == 1
    rig.bed.nodes.programs.fails.clear()
    rig.volume(share).options[names.ROOT] = "750@5:6"
    rig.volume(share).root = (0, 0, 0)
    grown = rig.known(share, is_held=True)
    (outcome,) = driver.ensure([grown]).values()
    assert outcome.repairs == ["its topmost directory had lost owner and mode"]
    assert rig.volume(share).root == (0o750, 5, 6)
    assert driver.inspect([grown]) == {}
    driver.delete(share)
