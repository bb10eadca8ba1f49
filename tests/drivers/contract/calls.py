# SPDX-License-Identifier: Apache-2.0
"""How contract tests call a driver: each call repeated, long calls to their end, whatever their kind."""

import contextlib

import pytest

from abaca.drivers import contract
from tests.conftest import wait_until

MOST_LOOKS = 1000


def settled(call, *arguments):
    """The call's answer, as soon as nothing is under way."""

    def answered():
        with contextlib.suppress(contract.UnderWay):
            return (call(*arguments),)

    return wait_until(answered, 600.0)[0]


def twice(call, *arguments):
    """The call's answer, which is the same when it is repeated."""
    first = call(*arguments)
    assert call(*arguments) == first
    return first


def gone(call, *arguments):
    """The call says that what it is about is not there."""
    with pytest.raises(contract.Gone):
        call(*arguments)


def looked_at(driver, name, request):
    """The percents that looks at a long call tell, until it is done."""
    seen = []
    while not seen or seen[-1] < 100:
        seen.append(contract.long_call(driver, name).look_at(request).percent)
        assert len(seen) < MOST_LOOKS
    return seen


def run(driver, name, request):
    """What the long call ends with, called as seldom as can be."""
    call = contract.long_call(driver, name)
    call.start(request)
    looked_at(driver, name, request)
    return settled(call.end, request)


class LongCallTests:
    """What every long call promises; a class of tests says what its `name` is, and what it does."""

    name: str

    def prepared(self, harness):
        """A request that can be started."""
        raise NotImplementedError

    def assert_done(self, harness, request, outcome):
        """What must be so after the end."""
        raise NotImplementedError

    def assert_as_before(self, harness, request):
        """What must be so before the start."""
        raise NotImplementedError

    def assert_cancelled(self, harness, request):
        """What must be so after a cancel."""
        self.assert_as_before(harness, request)

    def test_each_step_of_it_may_be_repeated(self, harness, driver):
        request = self.prepared(harness)
        self.assert_as_before(harness, request)
        call = contract.long_call(driver, self.name)
        twice(call.start, request)
        seen = looked_at(driver, self.name, request)
        assert seen == sorted(seen)
        call.start(request)
        looked_at(driver, self.name, request)
        self.assert_done(harness, request, twice(settled, call.end, request))

    def test_a_worker_that_dies_after_the_start_is_followed_by_one_that_ends_it(self, harness, driver):
        request = self.prepared(harness)
        self.assert_as_before(harness, request)
        contract.long_call(driver, self.name).start(request)
        follower = harness.start()
        looked_at(follower, self.name, request)
        outcome = settled(contract.long_call(harness.start(), self.name).end, request)
        self.assert_done(harness, request, outcome)

    def test_when_it_is_cancelled_all_is_as_before_and_it_can_begin_anew(self, harness, driver):
        request = self.prepared(harness)
        call = contract.long_call(driver, self.name)
        call.start(request)
        call.look_at(request)
        twice(call.cancel, request)
        self.assert_cancelled(harness, request)
        self.assert_done(harness, request, run(driver, self.name, request))

    def test_cancelling_what_was_never_started_changes_nothing(self, harness, driver):
        request = self.prepared(harness)
        twice(contract.long_call(driver, self.name).cancel, request)
        self.assert_as_before(harness, request)


class SlowCallTests:
    """What a long call promises besides when it is not done at once; as `LongCallTests`."""

    name: str

    def test_it_does_not_end_before_it_is_done(self, harness, driver):
        request = self.prepared(harness)
        call = contract.long_call(driver, self.name)
        call.start(request)
        with pytest.raises(contract.Busy):
            call.end(request)
        looked_at(driver, self.name, request)
        self.assert_done(harness, request, call.end(request))

    def test_what_was_cancelled_is_not_under_way(self, harness, driver):
        request = self.prepared(harness)
        call = contract.long_call(driver, self.name)
        call.start(request)
        call.cancel(request)
        gone(call.look_at, request)
