# SPDX-License-Identifier: Apache-2.0
"""What the shared file system service of OpenStack (its release 23) answers, as facts, and how to compare with them.

A line of <part>.jsonl is one call: who asked, what, at which version (or `since` which the answer to this GET was so),
with the status and the shape of the body: its keys, and the kind of value under each. The words of messages are our
own. `save` names values of the answer for later lines. Where that service answered 500 to bad input, `4xx` stands here.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from abaca.api.versions import MAXIMUM, MINIMUM
from tests.api.requests import NOTHING, Session, read
from tests.api.world import Answer

HERE = Path(__file__).parent
# The parts build on each other, in this order.
PARTS = (
    "versions",
    "share_types",
    "shares_create",
    "shares_read",
    "shares_change",
    "access_rules",
    "snapshots",
    "quotas_limits",
    "services_pools",
    "messages",
    "networks",
    "resource_locks",
    "transfers_locks_manage",
    "rest",
    "delete",
)
FREE = "object"


@dataclass(frozen=True)
class Line:
    """One recorded answer; `name` is its part and number."""

    name: str
    said: dict[str, Any]

    @property
    def asked(self) -> tuple[Any, ...]:
        """What tells one sweep from another."""
        return self.said["as"], self.said["call"], self.said.get("experimental", True)


@dataclass(frozen=True)
class Step:
    """One call, or a GET at every version: the lines say from which version on the answer was so."""

    lines: tuple[Line, ...]

    @property
    def is_sweep(self) -> bool:
        """Whether it is asked at every version."""
        return "since" in self.lines[0].said

    @property
    def name(self) -> str:
        """For the reader of a test report."""
        said = self.lines[0].said
        return f"{self.lines[0].name} {said['as']} {said['call']}" + (" at every version" if self.is_sweep else "")

    def differences(self, session: Session, decisions: dict[str, Any]) -> Iterator[str]:
        """Where our answers differ, apart from what was decided otherwise."""
        if not self.is_sweep:
            (line,) = self.lines
            yield from _differences(line, ask(session, line.said, line.said["version"]), session, decisions)
            return
        for number in range(MINIMUM, MAXIMUM + 1):
            line = [line for line in self.lines if int(line.said["since"][2:]) <= number][-1]
            answer = ask(session, line.said, f"2.{number}")
            yield from (f"at 2.{number}: {text}" for text in _differences(line, answer, session, decisions))


def steps() -> Iterator[Step]:
    """All steps of the parts that are here, in order."""
    for part in PARTS:
        path = HERE / f"{part}.jsonl"
        texts = path.read_text().splitlines() if path.exists() else []
        sweep: list[Line] = []
        for number, text in enumerate(texts, 1):
            line = Line(f"{part}:{number}", json.loads(text))
            goes_on = sweep and sweep[0].asked == line.asked and line.said.get("since", "2.0") != "2.0"
            if sweep and not goes_on:
                yield Step(tuple(sweep))
                sweep = []
            if "since" in line.said:
                sweep.append(line)
            else:
                yield Step((line,))
        if sweep:
            yield Step(tuple(sweep))


def decided() -> dict[str, Any]:
    """What we answer otherwise, by line, each with its reason."""
    return {entry["line"]: entry for entry in yaml.safe_load((HERE / "decisions.yaml").read_text())}


def ask(session: Session, said: dict[str, Any], version: str | None) -> Answer:
    """Our answer to a line's call, when all that was begun before has ended."""
    session.world.settle()
    method, _, path = session.filled(said["call"]).partition(" ")
    headers = {} if version is None else {"x-openstack-manila-api-version": version}
    if said.get("experimental", True):
        headers["x-openstack-manila-api-experimental"] = "true"
    if "content_type" in said:
        headers["content-type"] = said["content_type"]
    if said.get("whole_path"):
        path = "/" + path
    elif "project" in said:
        path = f"//v2/{session.filled(said['project'])}{path}"
    return session.world.ask(said["as"], method, path.replace(" ", "+"), session.filled(said.get("request")), **headers)


def _differences(line: Line, answer: Answer, session: Session, decisions: dict[str, Any]) -> Iterator[str]:
    for name, path in line.said.get("save", {}).items():
        value = read(answer.body, path)
        if value is not NOTHING:
            session.saved[name] = value
    decision = decisions.get(line.name)
    wanted = decision["status"] if decision else line.said["status"]
    if wanted == "4xx":
        if not 400 <= answer.status < 500:
            yield f"{line.name}: status {answer.status}, 4xx is right: {answer.body}"
    elif answer.status != wanted:
        yield f"{line.name}: status {answer.status}, {wanted} is right: {answer.body}"
    elif not decision and not agree(line.said.get("shape"), answer.body):
        yield f"{line.name}: keys or kinds of values differ, {line.said.get('shape')} is right: {answer.body}"


def agree(shape: Any, body: Any) -> bool:
    """Whether a body has a shape. Null and the empty list stand for anything: a value may be absent in one world."""
    if shape is None or body is None:
        return True
    if isinstance(shape, dict):
        return isinstance(body, dict) and shape.keys() == body.keys() and all(agree(shape[k], body[k]) for k in shape)
    if isinstance(shape, list):
        return isinstance(body, list) and (not shape or not body or agree(shape[0], body[0]))
    return shape == _kind(body)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "text"
    return FREE if isinstance(value, dict) else "number"
