# SPDX-License-Identifier: Apache-2.0
"""Contract tests run once for each harness whose driver promises the class's `capability`, and none of `without`,
and announces what it calls `announced`; those of a class that `holds_up` only where that can be had."""

import os

import pytest

from abaca.drivers import contract, load
from tests.drivers.gluster_nodes import GlusterfsNfsHarness, GlusterfsNodesHarness, GlusterfsThinHarness
from tests.drivers.harness import HARNESSES

if os.environ.get("GLUSTER_THOROUGH"):  # minutes
    HARNESSES["glusterfs_nodes"] = GlusterfsNodesHarness
    HARNESSES["glusterfs_nfs"] = GlusterfsNfsHarness
if os.environ.get("GLUSTER_BED"):  # many minutes
    HARNESSES["glusterfs_thin"] = GlusterfsThinHarness


def pytest_generate_tests(metafunc):
    if "harness" in metafunc.fixturenames:
        promise = getattr(metafunc.cls, "capability", contract.Driver)
        without = getattr(metafunc.cls, "without", ())
        announced = getattr(metafunc.cls, "announced", None)
        holds_up = getattr(metafunc.cls, "holds_up", False)
        kinds = [
            kind
            for kind in HARNESSES.values()
            if kind.is_tested(promise)
            and not issubclass(kind.driver_class(), without)
            and (kind.can_be_held_up or not holds_up)
            and (announced is None or load.capabilities(kind.driver_class())[announced])
        ]
        names = {kind: name for name, kind in HARNESSES.items()}
        params = [pytest.param(names[kind], marks=kind.marks) for kind in kinds]
        metafunc.parametrize("harness", params, indirect=True, scope="session")


@pytest.fixture(scope="session")
def harness(request):
    """A started driver with all that a test may look at; one for all tests, so each uses instances of its own."""
    made = HARNESSES[request.param]()
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def driver(harness):
    return harness.driver


@pytest.fixture
def share(harness, driver):
    """A share that exists, as its instance."""
    instance = harness.instance()
    driver.create(instance)
    yield instance
    harness.driver.delete(instance)
