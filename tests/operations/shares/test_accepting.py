# SPDX-License-Identifier: Apache-2.0
"""What accepting and making a share costs in statements."""

import re
import threading

import pytest

from tests.databases import database, postgres  # noqa: F401 (fixtures)
from tests.db.watched import Watched
from tests.operations import cases


@pytest.fixture
def watched(request):
    """The statements of making a share where shares have been made before."""
    made = Watched()
    with made.on():  # until the end: while others hold all connections another is opened
        theatre = request.getfixturevalue("theatre")
        theatre.enter()
        for _ in range(4):
            cases.a_share(theatre)
        made.forget()
        cases.a_share(theatre)
    return made


def test_a_share_is_written_down_by_one_statement(watched, theatre):
    mine = threading.current_thread().name
    found = watched.statements(theatre.db)
    asked = _together(one.text for one in found if one.thread == mine)
    made = _together(one.text for one in found if one.thread != mine)
    if theatre.db.is_sqlite:  # where a statement costs no round trip
        assert (asked, made) == ([], [])
        return
    assert asked == [{"shares", "share_instances", "operations", "operation_keys"}]
    assert made == [{"export_locations", "export_location_history"}]


def _together(texts):
    """To which tables each statement adds that adds to several."""
    found = [set(re.findall(r"INSERT INTO (\w+)", text)) for text in texts]
    return [tables for tables in found if len(tables) > 1]
