# SPDX-License-Identifier: Apache-2.0
"""What a real Nova was asked, and what it answered: `tests/golden/nova.jsonl`, one exchange a line.

`make golden ARGS="-m system tests/compute"` has the lab's Nova answer anew. In the file it stands at `ADDRESS` and its
projects are those of the tests. `as` is one of the people of tests/api/world.py, `none` (no token), `wrong` (a token
that nobody issued), `unvalidated` (a member, when Keystone was away), or `plug-in`. Servers that are told in full
stand at the head, each once; answers refer to them.
"""

import dataclasses
import http.client
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

GOLDEN = "tests/golden/nova.jsonl"
ADDRESS = "http://nova.example"
SERVER = "one server"
HEADERS = ("openstack-api-version", "x-openstack-nova-api-version", "vary", "content-type", "location")


@dataclasses.dataclass(frozen=True)
class Question:
    """One request; `target` is path and query, `body` the JSON text that was sent."""

    who: str
    method: str
    target: str
    version: str | None = None
    body: str | None = None

    def __str__(self) -> str:
        return f"{self.who} {self.method} {self.target} {self.version or ''} {self.body or ''}".rstrip()


@dataclasses.dataclass(frozen=True)
class Answer:
    """What came back; `headers` are those of `HEADERS` that were there, and whether there was a request id."""

    status: int
    headers: Mapping[str, str]
    body: Any


def load() -> dict[Question, Answer]:
    """Every recorded exchange."""
    found: dict[Question, Answer] = {}
    servers: list[Any] = []
    for line in (Path(__file__).parent.parent.parent / GOLDEN).read_text().splitlines():
        said = json.loads(line)
        if SERVER in said:
            servers.append(said[SERVER])
            continue
        question = Question(said["as"], said["method"], said["target"], said["version"], said["sent"])
        found[question] = Answer(said["status"], said["headers"], _unfolded(said["answer"], servers))
    return found


def text(exchanges: Mapping[Question, Answer]) -> str:
    """The golden file."""
    lines = []
    servers: dict[str, int] = {}
    for asked, answer in exchanges.items():
        said = {"as": asked.who, "method": asked.method, "target": asked.target, "version": asked.version}
        heard = {"status": answer.status, "headers": answer.headers, "answer": _folded(answer.body, servers)}
        lines.append(json.dumps({**said, "sent": asked.body, **heard}))
    return "\n".join([*(f'{{"{SERVER}": {server}}}' for server in servers), *lines])


def _folded(body: Any, servers: dict[str, int]) -> Any:
    """The body with numbers where servers are told in full, and those in `servers` by their text."""
    if isinstance(body, dict) and "tenant_id" in body:
        return {SERVER: servers.setdefault(json.dumps(body), len(servers))}
    if isinstance(body, dict):
        return {key: _folded(value, servers) for key, value in body.items()}
    return [_folded(item, servers) for item in body] if isinstance(body, list) else body


def _unfolded(body: Any, servers: Sequence[Any]) -> Any:
    if isinstance(body, dict) and SERVER in body:
        return servers[body[SERVER]]
    if isinstance(body, dict):
        return {key: _unfolded(value, servers) for key, value in body.items()}
    return [_unfolded(item, servers) for item in body] if isinstance(body, list) else body


class Nova:
    """A WSGI application through which the plug-in asks; `answer` knows, `overrides` know better."""

    def __init__(self, answer: Callable[[Question], Answer]) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self.asked: list[Question] = []
        self.overrides: dict[str, Answer] = {}

    def __call__(self, environ: Any, start_response: Any) -> list[bytes]:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        sent = environ["wsgi.input"].read(length).decode() or None
        query = environ["QUERY_STRING"]
        target = environ["PATH_INFO"] + (f"?{query}" if query else "")
        words = environ.get("HTTP_OPENSTACK_API_VERSION", "").split()
        question = Question("plug-in", environ["REQUEST_METHOD"], target, words[1] if words else None, sent)
        with self._lock:
            self.asked.append(question)
            answer = self.overrides.get(environ["PATH_INFO"]) or self.overrides.get("*") or self._answer(question)
        said = answer.body if isinstance(answer.body, str) else json.dumps(answer.body) if answer.body else ""
        raw = said.replace(ADDRESS, f"http://{environ['HTTP_HOST']}").encode()
        headers = {**answer.headers, "content-length": str(len(raw))}
        start_response(f"{answer.status} {http.client.responses[answer.status]}", list(headers.items()))
        return [raw]


def replayed(exchanges: Mapping[Question, Answer]) -> Callable[[Question], Answer]:
    """Answers from the record; who asks for something else hears so, in a way that no test takes for Nova's."""
    nothing = {"code": 418, "message": "nobody recorded this: record the answers anew"}
    unknown = Answer(418, {"content-type": "application/json"}, {"unrecorded": nothing})

    def answer(question: Question) -> Answer:
        return exchanges.get(question, unknown)

    return answer
