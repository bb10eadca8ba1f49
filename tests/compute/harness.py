# SPDX-License-Identifier: Apache-2.0
"""One harness a compute plug-in: how the contract tests start it and put servers where it finds them."""

import contextlib
import json

import asyncssh

from abaca import settings
from abaca.compute.inventory import Inventory
from abaca.compute.nova import Nova
from abaca.db.attachments import servers as rows
from tests.api.world import PASSWORD, world
from tests.compute import web

PROJECT, OTHER = "a1" * 16, "b2" * 16
KEY = "file:/etc/abaca/keys/id"


def host_key(kind="ssh-ed25519"):
    """A public host key, as a machine would show it."""
    text = asyncssh.generate_private_key(kind).export_public_key().decode()
    return " ".join(text.split()[:2])


def plant(db, name, ips, **more):
    """The id of a new server of an inventory."""
    values = {"project_id": PROJECT, "user_id": "someone", "status": "ACTIVE", "metadata": {}, "ssh_user": "root"}
    with db.write() as tx:
        at = [(ip, "default") for ip in ips or ("10.0.0.9",)]
        return rows.create(tx, {**values, "ssh_port": 22, "name": name, **more}, at)


def cloud(file, url):
    """A clouds.yaml for a Nova at `url` that knows its administrator by a password; JSON is YAML."""
    said = {
        "auth_type": "http_basic",
        "auth": {"endpoint": url, "username": "admin", "password": PASSWORD},
        "compute_endpoint_override": url,
    }
    file.touch(mode=0o600)
    file.write_text(json.dumps({"clouds": {"nova": said}}))
    return file


class InventoryHarness:
    """The inventory over a database of its own."""

    def __init__(self, place):
        self._db = place.open()
        self.compute = Inventory(self._db)

    def add(self, name, *ips, host_key=None, **more):
        """The id of a new server; without `host_key` nobody can log in to it."""
        way_in = {"host_key": host_key, "key": KEY} if host_key else {}
        return plant(self._db, name, ips, **way_in, **more)

    def remove(self, server_id):
        with self._db.write() as tx:
            rows.delete(tx, server_id)

    def close(self):
        """The database is the test's."""


class NovaHarness:
    """The plug-in for a Nova, which is Abaca's own compute door over an inventory, asked over HTTP.

    It tells two servers at a time, whoever asks for more.
    """

    def __init__(self, directory):
        self._stack = contextlib.ExitStack()
        self._world = self._stack.enter_context(world(directory, worker=False, more="osapi_max_limit = 2"))
        url = self._stack.enter_context(web.serving(self._world.application))
        file = cloud(directory / "clouds.yaml", f"{url}/compute/v2.1")
        self.compute = Nova(settings.Compute(plugin="nova", nova_clouds_file=file, nova_key=KEY))

    def add(self, name, *ips, host_key=None, **more):
        """The id of a new server; without `host_key` nobody can log in to it."""
        said = {"abaca_host_key": host_key} if host_key else {}
        return plant(self._world.db, name, ips, metadata=said, **more)

    def remove(self, server_id):
        with self._world.db.write() as tx:
            rows.delete(tx, server_id)

    def close(self):
        self.compute.close()
        self._stack.close()


class RealNovaHarness:
    """The plug-in for a Nova, over a real one that a real Keystone has in its catalog."""

    def __init__(self, directory, login, nova):
        self._nova = nova
        self._here = set()
        said = {"auth": login.credentials("admin"), "region_name": "RegionOne", "identity_api_version": "3"}
        self.clouds = directory / "clouds.yaml"
        self.clouds.touch(mode=0o600)
        self.clouds.write_text(json.dumps({"clouds": {"nova": said}}))
        self.compute = Nova(settings.Compute(plugin="nova", nova_clouds_file=self.clouds, nova_key=KEY))

    def add(self, name, *ips, host_key=None, status="ACTIVE", project_id=PROJECT):
        """The id of a new server; without `host_key` nobody can log in to it."""
        state = {"ACTIVE": ("active", 1), "SHUTOFF": ("stopped", 4)}[status]
        more = {"metadata": {"abaca_host_key": host_key} if host_key else {}, "user_id": "someone"}
        at = [{"network": "default", "ip": ip, "mac": "fa:16:3e:00:00:01"} for ip in ips or ("10.0.0.9",)]
        server_id = self._nova.plant(
            name, project_id, vm_state=state[0], power_state=state[1], host="compute-1", addresses=at, **more
        )
        self._here.add(server_id)
        return server_id

    def remove(self, server_id):
        self._nova.remove(server_id)
        self._here.discard(server_id)

    def close(self):
        """Leave the Nova without servers for the next test."""
        self.compute.close()
        for server_id in list(self._here):
            self.remove(server_id)
