# SPDX-License-Identifier: Apache-2.0
"""How tests get into their machines, and a file system that every kernel can mount."""

import contextlib
import uuid

from abaca.domain.attachments.servers import Login
from abaca.nodes.contract import Mount, Mounter
from lab import processes


def login_of(machine):
    """The way into a guest or a node of the lab."""
    ssh = machine.ssh
    return Login(host=ssh.host, port=ssh.port, user=ssh.user, host_key=ssh.host_key, key=f"file:{ssh.private_key}")


class Memory(Mounter):
    """Memory under the name of the source: mounted by every kernel, without a server.

    A MiB for each export location, so that options depend on the others too.
    """

    protocols = ("MEMORY",)
    fstype = "tmpfs"
    program = "mount"

    def packages(self, distribution):
        return ()

    def check(self, source):
        return None if source.isprintable() and source else "an empty name"

    def options(self, mount):
        return ("ro" if mount.is_read_only else "rw", f"size={1 + len(mount.others)}m")


class Certified(Memory):
    """The same, where machines show a certificate."""

    protocols = ("CERTIFIED",)
    program = "mount openssl"
    is_certified = True


class Absent(Memory):
    """A protocol whose program no machine has."""

    protocols = ("ABSENT",)
    program = "mount.absent"

    def packages(self, distribution):
        return ("absent-client",)


def wanted(**more):
    """A mount of memory under a name of its own."""
    id = str(uuid.uuid4())
    values = {"name": id, "protocol": "MEMORY", "source": f"10.0.0.1:/{id}", "mount_point": f"/mnt/{id}"}
    return Mount(**values | more)


@contextlib.contextmanager
def standing_still(server):
    """Connections to the server stay, and nothing is answered."""
    with processes.frozen(int((server.directory / "ganesha" / "ganesha.pid").read_text())):
        yield
