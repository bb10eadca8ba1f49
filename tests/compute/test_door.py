# SPDX-License-Identifier: Apache-2.0
"""The compute door answers as the Nova whose servers it shows, value by value, apart from what was decided otherwise.

Both sides are asked the same. Nova's answers are recorded (tests/compute/recorded.py), those to the plug-in behind the
door as well.
"""

import re
from pathlib import Path

import pytest
import yaml

from tests.compute import door, questions, recorded

pytestmark = [
    # the library's, of its own future
    pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]
EXCHANGES = recorded.load()
QUESTIONS = [asked for asked in EXCHANGES if asked.who not in ("plug-in", "unvalidated")]
DECISIONS = yaml.safe_load((Path(__file__).parent / "decisions.yaml").read_text())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A world whose servers are those of the recorded Nova."""
    with door.door(tmp_path_factory.mktemp("door"), recorded.Nova(recorded.replayed(EXCHANGES))) as made:
        yield made


@pytest.fixture(scope="module")
def differences(made):
    """By question: where our answer is another one, each with the decisions that say so."""
    found = {}
    for asked in QUESTIONS:
        at = door.differences(EXCHANGES[asked], door.ask(made, asked))
        found[asked] = [(text, [one for one in DECISIONS if _decides(one, asked, text)]) for text in at]
    return found


def _decides(decision, asked, text):
    return re.search(decision.get("asked", ""), str(asked)) and re.match(decision["difference"], text)


@pytest.mark.parametrize("asked", QUESTIONS, ids=str)
def test_the_door_answers_as_nova_does(differences, asked):
    undecided = [text for text, decisions in differences[asked] if not decisions]
    assert not undecided, "\n".join(("ours is the second:", *undecided))


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda one: one["difference"])
def test_every_decision_is_about_a_difference(differences, decision):
    assert decision["because"].strip()
    assert any(decision in decisions for found in differences.values() for _, decisions in found)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/servers", {"server": {"name": "mine", "addresses": ["192.0.2.1"]}}),
        ("PUT", f"/servers/{questions.WEB}", {"server": {"name": "mine"}}),
        ("POST", "/servers/register", {"servers": []}),
    ],
)
def test_no_server_is_registered_where_they_come_from_a_nova(made, method, path, body):
    answer = made.ask("admin", method, f"//abaca/v1{path}", body)
    assert answer.status == 409
    assert "nothing can be registered" in str(answer.body)
