# SPDX-License-Identifier: Apache-2.0
"""What every test may use: waiting with a deadline, golden files, and the marker for real components."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from tests import closing, spread

T = TypeVar("T")
ROOT = Path(__file__).resolve().parent.parent


PATIENCE_S = 300.0
"""How long is waited at least: how soon something happens is no test's matter, and machines are slow at times."""


def wait_until(predicate: Callable[[], T], timeout_s: float = PATIENCE_S, every_s: float = 0.02) -> T:
    """The predicate's first true value; fails when none came within `timeout_s`. The only place that polls."""
    timeout_s = max(timeout_s, PATIENCE_S)
    deadline = time.monotonic() + timeout_s
    while not (value := predicate()):
        if time.monotonic() >= deadline:
            pytest.fail(f"not so after {timeout_s} s: {getattr(predicate, '__qualname__', predicate)}")
        time.sleep(every_s)
    return value


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-golden", action="store_true", help="write golden files instead of comparing them")


def pytest_configure(config: pytest.Config) -> None:
    # What whoever started the tests ignores (nohup, a background job) would be ignored by all that they start.
    for number in (signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    if hasattr(config, "workerinput"):
        spread.own_mounts()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    return spread.processes()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> spread.Spread:
    return spread.Spread(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent / "system" in item.path.parents:
            item.add_marker("system")
    if config.getoption("--write-golden"):
        others = [item for item in items if "golden" not in getattr(item, "fixturenames", ())]
        items[:] = [item for item in items if item not in others]
        config.hook.pytest_deselected(items=others)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    # here, since only this file is read by the process that sees the reports of all others
    closing.lines(terminalreporter)


@pytest.fixture(scope="session")
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden("tests/golden/policy.txt", text)`: the file says this text; `make golden` writes it."""

    def matches(name: str, text: str) -> None:
        path = ROOT / name
        text = text.rstrip("\n") + "\n"
        if request.config.getoption("--write-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{name} is missing: `make golden` writes it"
        assert text == path.read_text(), f"{name} says something else: look at the difference, then `make golden`"

    return matches
