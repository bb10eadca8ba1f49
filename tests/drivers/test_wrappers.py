# SPDX-License-Identifier: Apache-2.0
"""What is put around a driver changes how it is called, never what it is."""

import concurrent.futures
import logging
import threading

import pytest

from abaca.drivers import contract, load, wrappers
from abaca.drivers.contract import promises
from tests.drivers.harness import DummyHarness


@pytest.fixture
def dummy():
    made = DummyHarness()
    yield made
    made.close()


@pytest.mark.parametrize("name", load.names())
def test_a_wrapped_driver_promises_and_announces_the_same(dummy, name):
    backend = contract.Backend(name="b1", host="h@b1", share_backend_name="B1", state_dir=dummy.directory)
    driver = load.driver(backend, name, {})
    wrapped = wrappers.wrap(driver, wrappers.bounding(2))
    kinds = promises.of(type(driver))
    assert all(isinstance(wrapped, kind) for kind in kinds)
    assert set(promises.of(type(wrapped))) == set(kinds)
    assert load.capabilities(wrapped) == load.capabilities(driver)


def test_what_a_driver_does_not_promise_is_not_there():
    class Plain(contract.Driver):
        """The least that a driver can be."""

        start = stop = pools = create = delete = set_access = lambda self, *arguments: None

    backend = contract.Backend(name="b1", host="h@b1", share_backend_name="B1", state_dir=None)
    wrapped = wrappers.wrap(Plain(backend, None))
    assert not isinstance(wrapped, contract.Resizes)
    assert not hasattr(wrapped, "extend")


def test_errors_that_can_pass_are_tried_again_with_growing_delays(dummy):
    delays = []
    driver = dummy.start(failures="create:Busy:2,delete:Unreachable:1")
    wrapped = wrappers.wrap(driver, wrappers.retrying(attempts=4, first_delay_s=1.0, sleep=delays.append))
    instance = dummy.instance()
    wrapped.create(instance)
    assert [round(delay + 0.5) for delay in delays] == [1, 2]
    wrapped.delete(instance)
    assert len(delays) == 3


def test_trying_again_ends(dummy):
    delays = []
    driver = dummy.start(failures="create:Busy")
    wrapped = wrappers.wrap(driver, wrappers.retrying(attempts=3, sleep=delays.append))
    with pytest.raises(contract.Busy):
        wrapped.create(dummy.instance())
    assert len(delays) == 2


def test_other_errors_and_starts_are_not_tried_again(dummy):
    driver = dummy.start(failures="create:Refused,pools:Unreachable")
    wrapped = wrappers.wrap(driver, wrappers.retrying(sleep=lambda delay: pytest.fail("it was tried again")))
    with pytest.raises(contract.Refused):
        wrapped.create(dummy.instance(pool="pool1"))
    with pytest.raises(contract.Unreachable):
        wrapped.pools()


def test_each_call_is_measured_with_its_end(dummy):
    seen = []
    driver = dummy.start(failures="delete:Gone")
    wrapped = wrappers.wrap(
        driver, wrappers.measuring(lambda *told: seen.append(told), clock=iter([1, 3, 5, 9]).__next__)
    )
    instance = dummy.instance(pool="pool1")
    wrapped.create(instance)
    with pytest.raises(contract.Gone):
        wrapped.delete(instance)
    assert [(name, took_s, type(error)) for name, took_s, error in seen] == [
        ("create", 2, type(None)),
        ("delete", 4, contract.Gone),
    ]


def test_a_slow_call_is_logged_with_its_back_end(dummy, caplog):
    wrapped = wrappers.wrap(dummy.start(), wrappers.logging_slow("b1", threshold_s=-1))
    with caplog.at_level(logging.WARNING):
        wrapped.pools()
    assert "backend=b1 pools took" in caplog.text


def test_no_more_calls_than_allowed_run_at_once(dummy):
    together, most, lock = [0], [0], threading.Lock()

    def counted(name, call):
        with lock:
            together[0] += 1
            most[0] = max(most[0], together[0])
        try:
            return call()
        finally:
            with lock:
                together[0] -= 1

    wrapped = wrappers.wrap(dummy.start(delays="create:0.01"), wrappers.bounding(3), counted)
    with concurrent.futures.ThreadPoolExecutor(12) as threads:
        list(threads.map(wrapped.create, [dummy.instance() for _ in range(24)]))
    assert most[0] == 3


def test_a_drivers_own_extras_are_reached_through_the_wrapping(dummy):
    assert wrappers.wrap(dummy.start(), wrappers.bounding(1)).contents() == {}
