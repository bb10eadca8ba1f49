# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL server, for addresses in the database; a real Neutron and its Keystone, for ports."""

import contextlib

import pytest

from lab import keystone, neutron, runs
from tests.databases import database, postgres  # noqa: F401 (fixtures)


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
