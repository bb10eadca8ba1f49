# SPDX-License-Identifier: Apache-2.0
"""Each file of named requests is a collection of tests: one world a file, one test a request, played in order."""

import contextlib
from pathlib import Path

import pytest
import yaml

from tests.api.planted import planted, unchanged  # noqa: F401 (fixtures)
from tests.api.requests import Session
from tests.api.world import world
from tests.databases import fast_directory, postgres  # noqa: F401 (the second is a fixture)


def pytest_collect_file(file_path, parent):
    if file_path.suffix == ".yaml" and Path(__file__).parent in file_path.parents:
        return RequestsFile.from_parent(parent, path=file_path)
    return None


class RequestsFile(pytest.File):
    """A file; its world lives while its requests are played."""

    def collect(self):
        self.stack = contextlib.ExitStack()
        said = yaml.safe_load(self.path.read_text())
        self.defaults = said.get("defaults", {})
        names = [request["name"] for request in said["requests"]]
        if twice := {name for name in names if names.count(name) > 1}:
            # of two with one name only one is played where tests are spread
            raise self.CollectError(f"{self.path.name} has two requests of the name {', '.join(sorted(twice))}")
        for request in said["requests"]:
            yield Request.from_parent(self, name=request["name"], request=request)

    def setup(self):
        defaults = dict(self.defaults)
        options = {"worker": defaults.pop("worker", False), "more": defaults.pop("more", "")}
        directory = self.stack.enter_context(fast_directory())
        self.session_of_file = Session.new(self.stack.enter_context(world(directory, **options)), defaults)

    def teardown(self):
        self.stack.close()


class Request(pytest.Item):
    """One request and what must come back."""

    def __init__(self, *, request, **kwargs):
        super().__init__(**kwargs)
        self.request_said = request

    def runtest(self):
        self.parent.session_of_file.play(self.request_said)

    def repr_failure(self, excinfo):
        if excinfo.errisinstance((AssertionError, pytest.fail.Exception)):
            return f"{self.path.name}: {self.name}\n{excinfo.value}"
        return super().repr_failure(excinfo)

    def reportinfo(self):
        return self.path, None, f"{self.path.stem}: {self.name}"
