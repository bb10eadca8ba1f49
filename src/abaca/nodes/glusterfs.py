# SPDX-License-Identifier: Apache-2.0
"""GlusterFS by FUSE: a client that knows all nodes of a volume, and shows them the machine's certificate.

One process on the machine serves each mount. It asks the first node that answers where the volume's bricks are; from
then on no node stands for the others.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping

from abaca.nodes import distributions
from abaca.nodes.contract import Distribution, Mount, Mounter

# Of a directory in a volume alone too; the table of mounts leaves the first slash out, or does not.
_SOURCE = re.compile(
    r"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?):/?"
    r"(?P<volume>[A-Za-z0-9_-]{1,255})(?P<path>(?:/[A-Za-z0-9_-][A-Za-z0-9._-]{0,254})*)/?"
)
_MOST_BACKUPS = 8
_PACKAGES: Mapping[str, tuple[str, ...]] = {
    "debian": ("glusterfs-client", "openssl"),
    "fedora": ("glusterfs-fuse", "openssl"),
    "suse": ("glusterfs", "openssl"),
    "alpine": ("glusterfs", "openssl"),
}
# What the mount helper passes on; it refuses any other word, those of NFS too.
_UNDERSTOOD = frozenset(("noatime", "nodiratime", "relatime", "nodev", "noexec", "nosuid", "acl"))
# Volumes that were made for shares: no two clusters have one of the same name.
_MADE_FOR_SHARES = "abaca_"


class Glusterfs(Mounter):
    """Mounts `host:/volume`; a node that is away is waited for, or its copies elsewhere serve."""

    protocols = ("GLUSTERFS",)
    fstype = "fuse.glusterfs"
    mount_type = "glusterfs"
    program = "mount.glusterfs openssl"
    port = 24007
    is_certified = True

    def __init__(self, *, more: tuple[str, ...] = ("nosuid", "nodev")) -> None:
        """`more` are options of every mount; those that GlusterFS does not know are left out."""
        self.more = tuple(one for one in more if one in _UNDERSTOOD)

    def packages(self, distribution: Distribution) -> tuple[str, ...]:
        family = distributions.family(distribution)
        return _PACKAGES[family] if family else ()

    def check(self, source: str) -> str | None:
        if _is_ipv6(source.partition("]:")[0].lstrip("[")):
            return f"{source!r} names a node by an IPv6 address, by which GlusterFS clients mount nothing"
        if not _SOURCE.fullmatch(source) or len(source) > 1024:
            return f"{source!r} is no GlusterFS volume: host:/volume is"
        return None

    def place_problem(self, mount_point: str) -> str | None:
        is_split = any(sign.isspace() or sign in "*?[" for sign in mount_point)
        return "GlusterFS's own helper mounts at no place with blanks or any of *?[ in its name" if is_split else None

    def options(self, mount: Mount) -> tuple[str, ...]:
        level = "ro" if mount.is_read_only else "rw"
        first = mount.source.partition(":")[0]
        hosts = (one.partition(":")[0] for one in mount.others if self.check(one) is None)
        backups = [host for host in dict.fromkeys(hosts) if host != first][:_MOST_BACKUPS]
        return (level, *([f"backup-volfile-servers={':'.join(backups)}"] if backups else []), *self.more)

    def is_same(self, source: str, other: str) -> bool:
        """A volume is the same whichever of its nodes it is asked of; of other people's only those of one node are."""
        one, another = _SOURCE.fullmatch(source), _SOURCE.fullmatch(other)
        if one is None or another is None or one.group("volume", "path") != another.group("volume", "path"):
            return False
        return one["volume"].startswith(_MADE_FOR_SHARES) or one["host"] == another["host"]


def _is_ipv6(text: str) -> bool:
    """Whether it is an IPv6 address."""
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
