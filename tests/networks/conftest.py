# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL server, for addresses in the database; a real Neutron and its Keystone, for ports."""

import contextlib

import pytest

from lab import keystone, neutron, runs
from tests.databases import database, place, postgres  # noqa: F401 (fixtures)
from tests.networks.harness import NeutronHarness


@pytest.fixture(scope="package")
def real_cloud():
    """A Keystone, and a Neutron without networks that is in its catalog."""
    with contextlib.ExitStack() as stack:
        run = stack.enter_context(runs.Run())
        networks = stack.enter_context(neutron.Neutron(run))
        login = stack.enter_context(keystone.Keystone(run))
        yield login, networks.start(login)
        stack.close()
        assert run.leftovers() == []


@pytest.fixture
def harness(request, tmp_path, real_cloud):
    """A Neutron, and the database of an Abaca that asks it; files with other plug-ins have one of their own."""
    with contextlib.ExitStack() as stack:
        database = place("sqlite", tmp_path, request)
        stack.callback(database.close)
        made = NeutronHarness(database, tmp_path, *real_cloud)
        stack.callback(made.close)
        yield made
