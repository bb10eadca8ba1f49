# SPDX-License-Identifier: Apache-2.0
"""The service answers like the one that clients were written for: status, keys and kinds of values at every version."""

import pytest

from tests.api.requests import Session
from tests.api.world import world
from tests.conformance import walk
from tests.databases import fast_directory

STEPS = list(walk.steps())
DECISIONS = walk.decided()


@pytest.fixture(scope="module")
def session():
    with fast_directory() as directory, world(directory, worker=True) as made:
        yield Session.new(made, {})


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_the_answer_is_the_one_that_clients_know(session, step):
    differences = list(step.differences(session, DECISIONS))
    assert not differences, "\n".join(differences)


def test_every_decision_is_about_a_line_that_says_otherwise():
    lines = {line.name: line for step in STEPS for line in step.lines}
    known = {name: entry for name, entry in DECISIONS.items() if name.split(":")[0] in {n.split(":")[0] for n in lines}}
    assert [name for name in known if name not in lines] == []
    assert [name for name, entry in known.items() if entry["status"] == lines[name].said["status"]] == []
    assert [name for name, entry in known.items() if not entry["because"].strip()] == []
