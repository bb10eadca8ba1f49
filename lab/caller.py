# SPDX-License-Identifier: Apache-2.0
"""A user of the shared-file-system API in a few lines, for the tour and the tests of real components."""

from __future__ import annotations

import base64
import http.client
import json
import urllib.parse
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from lab import processes

NEWEST = "2.88"
"""The microversion in which requests are sent: the first in which access rules can be changed."""


class Refused(processes.LabError):
    """The API answered with an error; `status` is the HTTP status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class Answer(NamedTuple):
    """Status and JSON of an answer (None without a body)."""

    status: int
    body: Any


class Caller:
    """Sends requests to `url` (without `/v2`), each with `headers`: see `basic` and `token`."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._netloc = urllib.parse.urlsplit(url).netloc
        self._headers = {"X-OpenStack-Manila-API-Version": NEWEST, "Content-Type": "application/json", **headers}

    def call(self, method: str, path: str, body: object = None) -> Answer:
        """Send one request below `/v2`, or with `//` from the root; raises `Refused` for every status from 400 on."""
        connection = http.client.HTTPConnection(self._netloc, timeout=processes.PATIENCE_S)
        try:
            content = json.dumps(body) if body is not None else None
            full = path[1:] if path.startswith("//") else f"/v2{path}"
            connection.request(method, full, content, self._headers)
            response = connection.getresponse()
            text = response.read()
        except OSError as problem:
            raise processes.LabError(f"{method} {path}: {problem}") from None
        finally:
            connection.close()
        if response.status >= http.client.BAD_REQUEST:
            raise Refused(response.status, text.decode(errors="replace"))
        return Answer(response.status, json.loads(text) if text else None)

    def get(self, path: str) -> Any:
        """Return the one value in the answer's object: the share, the list of types."""
        body = self.call("GET", path).body
        return next(iter(body.values()))

    def post(self, path: str, key: str, **values: object) -> Any:
        """Send `values` as the object `key`, and return the value of the answer's only key, None without a body."""
        body = self.call("POST", path, {key: values}).body
        return next(iter(body.values())) if body else None

    def wait(self, path: str, wanted: str, timeout_s: float = 60.0, key: str = "status") -> Any:
        """Return the resource at `path` when its `key` is `wanted`; raises `LabError` when it has an error instead."""

        def settled() -> Any:
            found = self.get(path)
            return found if found[key] == wanted or "error" in found[key] else None

        found = processes.wait_until(settled, timeout_s, f"{path} {wanted}")
        if found[key] != wanted:
            raise processes.LabError(f"{path} is {found[key]}, not {wanted}: {self._messages(found.get('id'))}")
        return found

    def wait_gone(self, path: str, timeout_s: float = 60.0) -> None:
        """Return when there is nothing at `path` any more; raises `LabError` when it is in an error state instead."""

        def gone() -> bool:
            try:
                found = self.get(path)
            except Refused as refused:
                if refused.status == http.client.NOT_FOUND:
                    return True
                raise
            if "error" in found.get("status", ""):
                raise processes.LabError(f"{path} is {found['status']}: {self._messages(found.get('id'))}")
            return False

        processes.wait_until(gone, timeout_s, f"{path} gone")

    def _messages(self, resource_id: object) -> Collection[str]:
        try:
            return [message["user_message"] for message in self.get(f"/messages?resource_id={resource_id}")]
        except processes.LabError:
            return []


def basic(name: str, password: str) -> dict[str, str]:
    """Return the header of a user of `http_basic`."""
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def token(value: str) -> dict[str, str]:
    """Return the header of a Keystone token."""
    return {"X-Auth-Token": value}


def ensure_type(administrator: Caller, name: str = "default", **extra_specs: object) -> bool:
    """Make a share type if there is none of that name, and say whether it was made."""
    if any(known["name"] == name for known in administrator.get("/types")):
        return False
    specs = {"driver_handles_share_servers": False, **extra_specs}
    words = {key: str(value) for key, value in specs.items()}
    administrator.post("/types", "share_type", name=name, extra_specs=words)
    return True


def wait_for_pools(administrator: Caller, timeout_s: float = 60.0) -> list[str]:
    """Return the names of the pools as soon as a worker has reported any."""

    def reported() -> list[str]:
        return [pool["name"] for pool in administrator.get("/scheduler-stats/pools")]

    return processes.wait_until(reported, timeout_s, "a report of a back end")
