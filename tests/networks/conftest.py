# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL server, for addresses in the database; a real Neutron and its Keystone, for ports."""

import contextlib

import pytest

from lab import keystone, neutron, runs
from tests.databases import database, on_postgres, on_sqlite, place, postgres  # noqa: F401 (fixtures)
from tests.networks.harness import NeutronHarness, StandaloneHarness

on_a_real_neutron = pytest.param("neutron", id="neutron", marks=pytest.mark.system)


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


@pytest.fixture(params=[on_sqlite, on_postgres, on_a_real_neutron])
def each_plugin(request, tmp_path):
    """A plug-in, and the database of an Abaca that asks it: both kinds of databases, and a Neutron."""
    with contextlib.ExitStack() as stack:
        database = place("sqlite" if request.param == "neutron" else request.param, tmp_path, request)
        stack.callback(database.close)
        if request.param == "neutron":
            made = NeutronHarness(database, tmp_path, *request.getfixturevalue("real_cloud"))
        else:
            made = StandaloneHarness(database)
        stack.callback(made.close)
        yield made


@pytest.fixture
def harness(request, tmp_path, real_cloud):
    """A Neutron, and the database of an Abaca that asks it; files with other plug-ins have one of their own."""
    with contextlib.ExitStack() as stack:
        database = place("sqlite", tmp_path, request)
        stack.callback(database.close)
        made = NeutronHarness(database, tmp_path, *real_cloud)
        stack.callback(made.close)
        yield made
