# SPDX-License-Identifier: Apache-2.0
"""Between a real Nova and the golden file: their ids and addresses differ, what they say does not."""

import contextlib
import hashlib
import http.client
import json

from tests.api.world import OTHER_PROJECT, PROJECT
from tests.compute.questions import SERVERS
from tests.compute.recorded import ADDRESS, HEADERS, Answer

# people of the golden file: user and project of the Keystone
PEOPLE = {
    "admin": ("admin", "demo"),
    "plug-in": ("admin", "admin"),
    "member": ("demo", "demo"),
    "reader": ("demo-reader", "demo"),
    "other": ("other", "other"),
}


class Translator:
    """Asks the Nova what stands in the golden file, and says its answers as they stand there."""

    def __init__(self, login, compute):
        self._login, self._compute = login, compute
        self._tokens = {who: login.token(*of) for who, of in PEOPLE.items()} | {"wrong": "0123456789"}
        projects = {login.project_id("demo"): PROJECT, login.project_id("other"): OTHER_PROJECT}
        self._inward = {compute.address: ADDRESS, **projects}
        for real, ours in projects.items():
            for host in {server.get("host") for server in SERVERS} - {None}:
                self._inward[_host_id(real, host)] = _host_id(ours, host)
        self._outward = {ours: real for real, ours in projects.items()}

    def plant(self):
        """Put the golden file's servers there."""
        for server in SERVERS:
            said = {**server, "project_id": self._outward[server["project_id"]]}
            self._compute.plant(said.pop("display_name"), said.pop("project_id"), **said)

    def renew(self, who, of):
        """Give `who` a token, as of one of `PEOPLE`, that Nova has never seen."""
        self._tokens[who] = self._login.token(*PEOPLE[of])

    def answer(self, question):
        """What Nova says to a question."""
        headers = {"Content-Type": "application/json"}
        if question.who in self._tokens:
            headers["X-Auth-Token"] = self._tokens[question.who]
        if question.version is not None:
            headers["OpenStack-API-Version"] = f"compute {question.version}"
        connection = http.client.HTTPConnection("127.0.0.1", self._compute.port, timeout=60)
        with contextlib.closing(connection):
            target = _replaced(question.target, self._outward)
            connection.request(question.method, target, question.body, headers)
            response = connection.getresponse()
            said = _replaced(response.read().decode(), self._inward)
            kept = {name: ", ".join(response.headers.get_all(name, [])) for name in HEADERS}
            kept = {name: _replaced(value, self._inward) for name, value in kept.items() if value}
            if "x-compute-request-id" in response.headers:
                kept["x-compute-request-id"] = "req"
            is_json = kept.get("content-type", "").startswith("application/json")
            return Answer(response.status, kept, json.loads(said) if is_json and said else said or None)


def _replaced(said, by):
    for old, new in by.items():
        said = said.replace(old, new)
    return said


def _host_id(project_id, host):
    return hashlib.sha224(f"{project_id}{host}".encode()).hexdigest()
