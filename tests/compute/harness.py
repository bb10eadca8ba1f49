# SPDX-License-Identifier: Apache-2.0
"""One harness a compute plug-in: how the contract tests start it and put servers where it finds them."""

import asyncssh

from abaca.compute.inventory import Inventory
from abaca.db import servers as rows

PROJECT, OTHER = "a1" * 16, "b2" * 16


def host_key():
    """A public host key, as a machine would show it."""
    text = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    return " ".join(text.split()[:2])


class InventoryHarness:
    """The inventory over a database of its own."""

    def __init__(self, db):
        self._db = db
        self.compute = Inventory(db)

    def add(self, name, *ips, project_id=PROJECT, status="ACTIVE", **more):
        """The id of a new server; without `host_key` nobody can log in to it."""
        values = {
            "name": name,
            "project_id": project_id,
            "user_id": "someone",
            "status": status,
            "metadata": {},
            "ssh_user": "root",
            "ssh_port": 22,
            "key": "file:/etc/abaca/keys/id" if "host_key" in more else None,
            **more,
        }
        with self._db.write() as tx:
            return rows.create(tx, values, [(ip, "default") for ip in ips or ("10.0.0.9",)])

    def remove(self, server_id):
        with self._db.write() as tx:
            rows.delete(tx, server_id)

    def close(self):
        """The database is the test's."""
