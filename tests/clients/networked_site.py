# SPDX-License-Identifier: Apache-2.0
"""The example configuration in a cloud: a real Keystone with its catalog, and a real Neutron beneath share networks."""

import configparser
import contextlib
import os

import pytest

from lab import caller, go_programs, keystone, neutron, service
from tests.clients.command import Cloud, write_clouds
from tests.conftest import ROOT

EXAMPLE = ROOT / "docs" / "operating" / "examples" / "rehearsal.conf"
PROJECT = "demo"
# Makes share servers or not. `dhss_false` is what the tests that others wrote ask for.
TYPES = {"default": "false", "dhss_false": "false", "tenant": "true"}
ABLE = ("snapshot", "create-share-from-snapshot", "revert-to-snapshot", "mount-snapshot")

thorough = pytest.mark.skipif(not os.environ.get("GO_THOROUGH"), reason="minutes, and Go: make thorough")


def need(find, *words):
    """What it finds; skips, and says what is not tested, where that cannot be had on this machine."""
    try:
        return find(*words)
    except go_programs.NotBuilt as problem:
        pytest.skip(f"NOT TESTED on this machine: {problem}")


class Site:
    """All of it, running, in a directory of that name.

    `clouds` is a clouds.yaml with `admin` and `demo`, both in the project `demo`.
    """

    def __init__(self, run, name):
        self.directory = run.path(name)
        self.clouds = self.directory / "clouds.yaml"
        self.abaca = service.Service(run, self._sections(), directory=self.directory)
        self.keystone = keystone.Keystone(run, self.abaca.url)
        self.neutron = neutron.Neutron(run)
        self._ends = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as ends:
            ends.enter_context(self.keystone)
            ends.enter_context(self.neutron).start(self.keystone)
            known = {who: self._entry(who, PROJECT) for who in ("admin", "demo")}
            write_clouds(self.clouds, {**known, "neutron": self._entry("admin", "admin")})
            self.abaca.configure("keystone_authtoken", **self.keystone.validation_options())
            ends.enter_context(self.abaca)
            words = [word for able in ABLE for word in (f"--{able}-support", "true")]
            for name, makes_servers in TYPES.items():
                Cloud(self.clouds, "admin").run("share", "type", "create", name, makes_servers, *words)
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *exception):
        self._ends.close()

    def caller(self, who):
        """Requests of one of them."""
        return caller.Caller(self.abaca.url, caller.token(self.keystone.token(who, PROJECT)))

    def _entry(self, who, project):
        login = self.keystone.credentials(who, project)
        return {"auth": login, "region_name": "RegionOne", "identity_api_version": "3"}

    def _sections(self):
        said = configparser.RawConfigParser(default_section="of none")
        said.read(EXAMPLE)
        sections = {name: dict(said[name]) for name in said.sections() if not name.startswith("subnet_")}
        sections["DEFAULT"]["auth_strategy"] = "keystone"
        sections["networks"] = {
            "plugin": "neutron",
            "neutron_clouds_file": self.clouds,
            "neutron_cloud": "neutron",
            "neutron_deployment": "networked",
        }
        return sections


def outcomes(said):
    """How each test of a Go program ended, by its name: PASS, FAIL or SKIP."""
    ended = [line.removeprefix("--- ").split()[:2] for line in said.splitlines() if line.startswith("--- ")]
    return {name: how.rstrip(":") for how, name in ended}
