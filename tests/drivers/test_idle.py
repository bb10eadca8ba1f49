# SPDX-License-Identifier: Apache-2.0
"""The contract tests find out a driver that does nothing: as a whole, and each method that does nothing by itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from abaca.drivers.contract import promises
from abaca.drivers.dummy import Dummy
from abaca.drivers.dummy_each import DummyEach
from tests.drivers import idle

ROOT = Path(__file__).resolve().parents[2]

# Methods that may do nothing, with the reason.
MAY_BE_IDLE = {
    "choose_server": "each server that runs is a good choice, and the contract itself chooses the first",
    "backend_info": "it only says when shares are to be ensured again; saying nothing is a driver's right",
    "change": "a driver whose options cannot change while it serves has nothing to do",
    "renew": "a driver of which no server has a certificate has none to renew",
    "stop": "what clients use stays as it is, and nothing else can be seen from outside",
}


def outcomes(tmp_path, methods=()):
    """What became of each contract test: `passed`, `failed`, or `failed around it`: in a fixture."""
    report = tmp_path / "report.txt"
    words = [
        "-p",
        "tests.drivers.idle",
        "-p",
        "no:cacheprovider",
        "--assert=plain",
        "--tb=no",
        "tests/drivers/contract",
    ]
    command = [sys.executable, "-m", "pytest", *words]
    environ = {**os.environ, idle.METHODS: " ".join(methods), idle.REPORT: str(report)}
    subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, check=False, timeout=300)
    return dict(line.split("\t") for line in report.read_text().splitlines())


@pytest.fixture(scope="module")
def partly_idle(tmp_path_factory):
    """What became of the contract tests of dummy drivers of which one method does nothing, by that method."""
    methods = sorted({*promises.methods(Dummy), *promises.methods(DummyEach)} - set(MAY_BE_IDLE))
    seen = {method: set() for method in methods}
    for case, outcome in outcomes(tmp_path_factory.mktemp("idle"), methods).items():
        words = case.partition("[")[2].rstrip("]").split("-")
        seen[next(word for word in words if word in seen)].add(outcome)
    return seen


def test_a_driver_that_does_nothing_fails_every_contract_test(tmp_path):
    seen = outcomes(tmp_path)
    assert len(seen) > 100
    assert {case for case, outcome in seen.items() if outcome != "failed"} == set()


def test_a_method_that_does_nothing_fails_a_contract_test(partly_idle):
    assert {method for method, seen in partly_idle.items() if seen == {"passed"}} == set()


def test_what_may_be_idle_is_promised():
    assert set(MAY_BE_IDLE) <= set(promises.methods(Dummy))
