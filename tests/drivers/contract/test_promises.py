# SPDX-License-Identifier: Apache-2.0
"""The contract itself: every promise is tested, every long call has its four methods."""

import importlib
import inspect
import pkgutil

import pytest

from abaca.drivers import contract
from abaca.drivers.contract import long_calls, promises
from tests.drivers import contract as suite


def capabilities_with_tests():
    """Every promise that a class of contract tests is about."""
    modules = [importlib.import_module(f"{suite.__name__}.{one.name}") for one in pkgutil.iter_modules(suite.__path__)]
    return {
        cls.capability
        for module in modules
        for cls in vars(module).values()
        if inspect.isclass(cls) and hasattr(cls, "capability")
    }


def test_every_promise_has_a_class_of_tests():
    assert set(promises.every()) - capabilities_with_tests() == set()


CALLS = [(promise, name) for promise in promises.every() for name in contract.long_call_names(promise)]


@pytest.mark.parametrize(("promise", "name"), CALLS, ids=lambda one: one if isinstance(one, str) else one.__name__)
def test_the_four_methods_of_a_long_call_take_one_and_the_same_request(promise, name):
    taken = []
    for verb in long_calls.VERBS:
        _, *parameters = inspect.signature(getattr(promise, f"{verb}_{name}")).parameters.values()
        taken.append([(one.name, one.annotation) for one in parameters])
    assert len(taken[0]) == 1
    assert taken == [taken[0]] * 4


def test_each_long_thing_that_back_ends_do_is_a_long_call():
    assert {name for _, name in CALLS} == {
        "backup_creation",
        "clone",
        "migration",
        "promotion",
        "replica_creation",
        "restore",
        "revert",
        "server_migration",
    }


@pytest.mark.parametrize("promise", promises.every())
def test_every_method_says_what_it_promises(promise):
    own = [value for name, value in vars(promise).items() if inspect.isfunction(value) and name[0] != "_"]
    assert [one.__name__ for one in own if not inspect.getdoc(one)] == []
