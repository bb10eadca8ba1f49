# SPDX-License-Identifier: Apache-2.0
"""Machines in the inventory of an installation, which shares are attached to."""

import ipaddress
import itertools

from abaca.db.attachments import servers
from tests.api.world import PROJECT

NUMBERS = itertools.count(1)
HYPERVISORS = ipaddress.ip_address("10.7.128.1")
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
NEW_SERVER = {"user_id": None, "status": "ACTIVE", "metadata": {}, "ssh_user": "root", "ssh_port": 22}


def a_server(theatre, ip, name=None):
    """A machine of the member's project in the inventory."""
    values = {"name": name or f"machine-{ip}", "project_id": PROJECT, "ssh_host": ip, "host_key": KEY, "key": "file:/k"}
    with theatre.db.write() as tx:
        return servers.create(tx, {**NEW_SERVER, **values}, [(ip, "default")])


def a_guest(theatre, *, number=None):
    """A machine that another one can hand shares to."""
    number = next(NUMBERS) if number is None else number
    host = str(HYPERVISORS + number)
    values = {"name": f"guest-{number}", "project_id": PROJECT, "hypervisor_id": a_server(theatre, host)}
    with theatre.db.write() as tx:
        return servers.create(
            tx, {**NEW_SERVER, **values, "qmp_socket": f"/run/{number}.qmp"}, [("192.168.0.7", "inside")]
        )


def a_wide_server(theatre):
    """A machine with addresses of both families; that of the second lies in the second subnet."""
    number = next(NUMBERS)
    values = {"name": f"wide-{number}", "project_id": PROJECT, "ssh_host": f"10.8.{number // 200}.{number % 200 + 1}"}
    addresses = [(values["ssh_host"], "default"), (f"fd20::1:{number:x}", "wide")]
    with theatre.db.write() as tx:
        return servers.create(tx, {**NEW_SERVER, **values, "host_key": KEY, "key": "file:/k"}, addresses)
