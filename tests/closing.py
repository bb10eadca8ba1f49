# SPDX-License-Identifier: Apache-2.0
"""What a run says when all tests have run, in whichever process: tests tell it by `record_property`."""

from __future__ import annotations

import collections
from typing import Any, NamedTuple

import pytest


class Concluded(NamedTuple):
    """What became of an operation that was hurt at a step (`kind:name`); told as `concluded`."""

    step: str
    fault: str
    stuck: bool
    leaked: bool
    of: str = "all"


DEAREST, LONG_S = 20, 600.0
"""How many files are told of a run whose tests took so long together."""


def lines(reporter: pytest.TerminalReporter) -> None:
    """Print the figures that were told, and how all operations that were hurt ended."""
    for line in dearest([(one.nodeid, one.duration) for one in _reports(reporter)]):
        reporter.write_line(line)
    for line in _told(reporter, "figure"):
        reporter.write_line(line)
    cases = [Concluded(*said) for said in _told(reporter, "concluded")]
    if cases:
        steps, faults = {one.step for one in cases}, {one.fault for one in cases}
        operations = {step.partition(":")[0] for step in steps}
        size = f"{len(operations)} operations x {len(steps)} steps x {len(faults)} faults"
        stuck, leaked = sum(one.stuck for one in cases), sum(one.leaked for one in cases)
        of = ", ".join(sorted({one.of for one in cases}))
        reporter.write_line(f"faults: {size} = {len(cases)} cases ({of}), {stuck} stuck, {leaked} leaked")
    _toys(reporter)
    hostile = _told(reporter, "hostile")
    if hostile:
        sent, fives, undeclared = (sum(column) for column in zip(*hostile, strict=True))
        reporter.write_line(f"hostile: {sent} requests, {fives} 5xx, {undeclared} undeclared statuses")
    tried = _told(reporter, "schemathesis")
    if tried:
        reporter.write_line(f"{made_up(tried)} ({', '.join(sorted(set(_told(reporter, 'made up on'))))})")


def dearest(took: list[tuple[str, float]]) -> list[str]:
    """The files whose tests took longest, a line each; nothing of a short run. `took` has seconds by test."""
    files: dict[str, float] = collections.defaultdict(float)
    for test, seconds in took:
        files[test.partition("::")[0]] += seconds
    if sum(files.values()) < LONG_S:
        return []
    first = sorted(files, key=files.__getitem__, reverse=True)[:DEAREST]
    return [f"{files[file]:8.0f} s   {file}" for file in first]


def made_up(tried: list[tuple[str, int, int, int]]) -> str:
    """The line about requests that were made up: of each door's name how many, 5xx, and undeclared statuses."""
    doors = collections.Counter[str]()
    for name, cases, _, _ in tried:
        doors[name] += cases
    each = " + ".join(f"{cases} {name}" for name, cases in sorted(doors.items()))
    fives, undeclared = sum(one[2] for one in tried), sum(one[3] for one in tried)
    return f"schemathesis: {each} = {doors.total()} cases, {fives} 5xx, {undeclared} undeclared statuses"


def _toys(reporter: pytest.TerminalReporter) -> None:
    """The same of toys, which tests tell as `toy`; those that were not hurt are no cases."""
    cases = [said for said in _told(reporter, "toy") if said["fault"] != "none"]
    if cases:
        kinds, steps, faults = ({one[what] for one in cases} for what in ("kind", "step", "fault"))
        size = f"{len(kinds)} kinds x {len(steps)} steps x {len(faults)} faults"
        stuck, leaked = (sum(one[what] for one in cases) for what in ("stuck", "leaked"))
        of = ", ".join(sorted({one["of"] for one in cases}))
        reporter.write_line(f"toys: {size} = {len(cases)} cases ({of}), {stuck} stuck, {leaked} leaked")


def _reports(reporter: pytest.TerminalReporter) -> list[pytest.TestReport]:
    return [one for some in reporter.stats.values() for one in some if isinstance(one, pytest.TestReport)]


def _told(reporter: pytest.TerminalReporter, name: str) -> list[Any]:
    reports = [one for one in _reports(reporter) if one.when == "teardown"]
    return [value for report in reports for said, value in report.user_properties if said == name]
