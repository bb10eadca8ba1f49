# SPDX-License-Identifier: Apache-2.0
"""What is put around a driver changes how it is called, never what it is."""

import logging

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
    wrapped = wrappers.wrap(driver, wrappers.logging_slow("b1"))
    kinds = promises.of(type(driver))
    assert all(isinstance(wrapped, kind) for kind in kinds)
    assert set(promises.of(type(wrapped))) == set(kinds)
    assert load.capabilities(wrapped) == load.capabilities(driver)


def test_what_a_driver_learns_from_its_options_is_announced_through_the_wrapping(dummy):
    driver = dummy.build(protocols="CIFS", replication_type="writable", export_ips="fd77::1")
    announced = load.capabilities(wrappers.wrap(driver, wrappers.logging_slow("b1")))
    assert (announced["storage_protocol"], announced["replication_type"]) == ("CIFS", "writable")
    assert (announced["ipv4_support"], announced["ipv6_support"]) == (False, True)


def test_a_call_goes_through_the_arounds_from_the_first_to_the_last(dummy):
    seen = []

    def noted(word):
        def around(name, call):
            seen.append(f"{word} {name}")
            return call()

        return around

    wrappers.wrap(dummy.start(), noted("outer"), noted("inner")).pools()
    assert seen == ["outer pools", "inner pools"]


def test_what_a_driver_does_not_promise_is_not_there():
    class Plain(contract.Driver):
        """The least that a driver can be."""

        start = stop = pools = create = delete = set_access = lambda self, *arguments: None

    backend = contract.Backend(name="b1", host="h@b1", share_backend_name="B1", state_dir=None)
    wrapped = wrappers.wrap(Plain(backend, None))
    assert not isinstance(wrapped, contract.Resizes)
    assert not hasattr(wrapped, "extend")


def test_each_call_is_measured_with_its_end(dummy):
    seen = []
    driver = dummy.start(failures="delete:Gone,extend:UnderWay")
    wrapped = wrappers.wrap(
        driver, wrappers.measuring(lambda *told: seen.append(told), clock=iter([1, 3, 5, 9, 10, 11]).__next__)
    )
    instance = dummy.instance(pool="pool1")
    wrapped.create(instance)
    with pytest.raises(contract.Gone):
        wrapped.delete(instance)
    with pytest.raises(contract.UnderWay):
        wrapped.extend(instance, 2)
    assert [(name, took_s, type(error)) for name, took_s, error in seen] == [
        ("create", 2, type(None)),
        ("delete", 4, contract.Gone),
        ("extend", 1, type(None)),
    ]


def test_a_slow_call_is_logged_with_its_back_end(dummy, caplog):
    wrapped = wrappers.wrap(dummy.start(), wrappers.logging_slow("b1", threshold_s=-1))
    with caplog.at_level(logging.WARNING):
        wrapped.pools()
    assert "backend=b1 pools took" in caplog.text


def test_a_drivers_own_extras_are_reached_through_the_wrapping(dummy):
    assert wrappers.wrap(dummy.start(), wrappers.logging_slow("b1")).contents() == {}
