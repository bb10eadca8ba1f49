# SPDX-License-Identifier: Apache-2.0
"""A stage on both databases on which attachments are made true, with machines on paper."""

import contextlib

import pytest

from tests.databases import database, postgres  # noqa: F401 (fixtures)
from tests.operations import cases
from tests.operations import theatre as stage
from tests.operations.theatre import Theatre


@pytest.fixture
def theatre(database, tmp_path):  # noqa: F811
    with contextlib.ExitStack() as stack:
        made = Theatre(database, tmp_path, None, stack)
        made.enter()
        yield made
        made.settle()
        with made.db.read() as tx:
            assert [*stage.stuck(tx), *stage.left_on_servers(tx, made.nodes)] == []


@pytest.fixture
def attachment(theatre):
    """One that is active, as the API shows it."""
    return theatre.ask("GET", f"//abaca/v1/attachments/{cases.an_attachment(theatre)}")["attachment"]
