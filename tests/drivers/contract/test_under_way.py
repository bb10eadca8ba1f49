# SPDX-License-Identifier: Apache-2.0
"""What a driver that has begun something promises of it: it says so at once, and whoever asks again ends it."""

import contextlib

import pytest

from abaca.drivers import contract
from tests.drivers.contract.calls import settled
from tests.drivers.harness import GlusterfsHarness


def under_way(call, *arguments):
    """The call says that it is not done, and when it wants to be asked again."""
    with pytest.raises(contract.UnderWay) as raised:
        call(*arguments)
    assert 0 < raised.value.look_again_s <= 60 < raised.value.within_s


@contextlib.contextmanager
def held_up(harness):
    """What is begun meanwhile ends after that."""
    if isinstance(harness, GlusterfsHarness):
        harness.bed.heketi.is_held = True
        yield
        harness.bed.heketi.release()
    else:
        harness.section["failures"] = "create:UnderWay,extend:UnderWay,delete:UnderWay"
        harness.start()
        yield
        del harness.section["failures"]
        harness.start()


class TestUnderWay:
    capability = contract.Driver
    holds_up = True

    def test_a_share_that_is_being_made_is_made_once_whoever_asks_again(self, harness, driver):
        instance, before = harness.instance(), harness.held()
        with held_up(harness):
            under_way(harness.driver.create, instance)
            under_way(harness.driver.create, instance)
            harness.start()
            under_way(harness.driver.create, instance)
        assert settled(harness.driver.create, instance).exports
        assert harness.held() == before | {instance.id}
        settled(harness.driver.delete, instance)

    def test_a_share_that_is_being_made_can_be_deleted(self, harness, driver):
        instance, before = harness.instance(), harness.held()
        with held_up(harness):
            under_way(harness.driver.create, instance)
            under_way(harness.driver.delete, instance)
        settled(harness.driver.delete, instance)
        assert harness.held() == before

    def test_a_share_that_is_being_deleted_is_gone_whoever_asks_again(self, harness, driver):
        share = harness.share()
        with held_up(harness):
            under_way(harness.driver.delete, share)
            harness.start()
            under_way(harness.driver.delete, share)
        settled(harness.driver.delete, share)
        assert share.id not in harness.held()


class TestGrowing:
    capability = contract.Resizes
    holds_up = True

    def test_a_share_that_is_growing_has_its_size_at_the_end_whoever_asks_again(self, harness, driver):
        share = harness.share()
        with held_up(harness):
            under_way(harness.driver.extend, share, 9)
            harness.start()
            under_way(harness.driver.extend, share, 9)
        settled(harness.driver.extend, share, 9)
        assert harness.size_gib(share) == 9
        settled(harness.driver.delete, share)
