# SPDX-License-Identifier: Apache-2.0
"""How tests get into their machines."""

import msgspec


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A machine's address, as the compute plug-ins give it."""

    host: str
    port: int = 22
    user: str = "root"
    host_key: str
    key: str


def entry_of(guest):
    """The way into a guest of the lab."""
    ssh = guest.ssh
    return Entry(host=ssh.host, port=ssh.port, user=ssh.user, host_key=ssh.host_key, key=f"file:{ssh.private_key}")
