# SPDX-License-Identifier: Apache-2.0
"""Files of named requests: what is asked, in sequence, and what must come back.

    defaults: {as: member, version: "2.99"}     # worker: true starts one; more: lines for [DEFAULT]
    requests:
    - name: an administrator makes a type
      as: admin
      POST: /types                              # below /v2/{project}; //v2/types is the whole path
      body: {share_type: {name: gold, extra_specs: {driver_handles_share_servers: "False"}}}
      status: 200
      says: {share_type.name: gold, share_type.id: <uuid>, share_type.extra_specs: <object>, "#share_types": 1}
      keys: {share_type: [id, name]}            # exactly these; "" is the body itself
      lacks: [share_type.secret]
      headers: {vary: X-OpenStack-Manila-API-Version, retry-after: null}
      save: {gold: share_type.id}               # later: {gold} in paths, bodies and values
    - name: the share becomes available
      GET: /shares/{share}
      until: {share.status: available}          # asked again until it says so

A path into the body has dots between keys, and numbers for places in lists; `#path` is the length of what is there.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.api.world import NEWEST, OTHER_PROJECT, PROJECT, Answer, World
from tests.conftest import wait_until

METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH")
KNOWN = {
    "name",
    "as",
    "version",
    "body",
    "status",
    "says",
    "keys",
    "lacks",
    "headers",
    "save",
    "until",
    "with",
    *METHODS,
}
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}")
KINDS = {
    "<uuid>": lambda value: isinstance(value, str) and UUID.fullmatch(value) is not None,
    "<time>": lambda value: isinstance(value, str) and TIME.fullmatch(value) is not None,
    "<text>": lambda value: isinstance(value, str),
    "<int>": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "<bool>": lambda value: isinstance(value, bool),
    "<list>": lambda value: isinstance(value, list),
    "<object>": lambda value: isinstance(value, dict),
}
NOTHING = object()


@dataclass
class Session:
    """One file being played: what was saved so far."""

    world: World
    defaults: Mapping[str, Any]
    saved: dict[str, Any]

    @classmethod
    def new(cls, world: World, defaults: Mapping[str, Any]) -> "Session":
        """The session at the start of a file."""
        return cls(world, defaults, {"project": PROJECT, "other_project": OTHER_PROJECT})

    def play(self, request: Mapping[str, Any]) -> None:
        """Send one request and check the answer."""
        assert set(request) <= KNOWN, f"not understood: {sorted(set(request) - KNOWN)}"
        until = self.filled(request.get("until", {}))
        if until:
            wait_until(lambda: all(is_so(read(self.send(request).body, path), want) for path, want in until.items()))
        answer = self.send(request)
        assert answer.status == request.get("status", 200), answer.body
        for path, want in self.filled(request.get("says", {})).items():
            got = read(answer.body, path)
            assert is_so(got, want), f"{path} is {got!r}, not {want!r}: {answer.body}"
        for path, keys in request.get("keys", {}).items():
            assert sorted(read(answer.body, path)) == sorted(keys)
        for path in request.get("lacks", ()):
            assert read(answer.body, path) is NOTHING, f"{path} is there"
        for name, want in request.get("headers", {}).items():
            assert answer.headers.get(name) == want
        for name, path in request.get("save", {}).items():
            self.saved[name] = read(answer.body, path)

    def send(self, request: Mapping[str, Any]) -> Answer:
        """The answer to a request."""
        said = {**self.defaults, **request}
        method = next(name for name in METHODS if name in request)
        headers = {"x-openstack-manila-api-version": str(said.get("version", NEWEST)), **said.get("with", {})}
        path, body = self.filled(request[method]), self.filled(request.get("body"))
        return self.world.ask(said.get("as", "member"), method, path, body, **headers)

    def filled(self, said: Any) -> Any:
        """What was said, with {names} replaced by what was saved under them."""
        if isinstance(said, str):
            return re.sub(r"\{(\w+)\}", lambda m: str(self.saved.get(m[1], m[0])), said)
        if isinstance(said, dict):
            return {self.filled(key): self.filled(value) for key, value in said.items()}
        return [self.filled(item) for item in said] if isinstance(said, list) else said


def read(body: Any, path: str) -> Any:
    """What is at a path in the body, NOTHING when there is nothing."""
    if path.startswith("#"):
        return len(read(body, path[1:]))
    for step in path.split(".") if path else ():
        try:
            body = body[int(step)] if isinstance(body, list) else body[step]
        except (KeyError, IndexError, TypeError, ValueError):
            return NOTHING
    return body


def is_so(got: Any, want: Any) -> bool:
    """Whether a value is the one, or of the kind, that was wanted."""
    kind = KINDS.get(want) if isinstance(want, str) else None
    return bool(kind(got)) if kind else type(got) is type(want) and got == want
