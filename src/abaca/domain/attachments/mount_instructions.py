# SPDX-License-Identifier: Apache-2.0
"""What people need who mount shares by themselves: commands, fstab lines, systemd units, Kubernetes volumes, and for
many machines a part of cloud-init and tasks of Ansible.

Texts only. Each value is quoted for the place where it stands.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from typing import NamedTuple

from abaca import errors

# The families of operating systems, the package that brings the NFS client, and how it is installed.
_FAMILIES = {
    "debian": ("nfs-common", "apt-get install -y"),
    "ubuntu": ("nfs-common", "apt-get install -y"),
    "fedora": ("nfs-utils", "dnf install -y"),
    "rhel": ("nfs-utils", "dnf install -y"),
    "centos": ("nfs-utils", "dnf install -y"),
    "rocky": ("nfs-utils", "dnf install -y"),
    "almalinux": ("nfs-utils", "dnf install -y"),
    "opensuse": ("nfs-client", "zypper --non-interactive install"),
    "sles": ("nfs-client", "zypper --non-interactive install"),
    "alpine": ("nfs-utils", "apk add"),
}
SYSTEMS = tuple(_FAMILIES)
FSTYPE = "nfs4"
_PORT = 2049
_LONGEST_NAME = 255
_PLAIN = re.compile(r"[A-Za-z0-9:_.]")


def check_system(name: str) -> str:
    """One of `SYSTEMS`. Raises `Invalid`."""
    if name not in _FAMILIES:
        raise errors.Invalid(f"'os' must be one of: {', '.join(SYSTEMS)}.")
    return name


class Way(NamedTuple):
    """A share by itself: where from (`10.0.0.10:/shares/x`, `[fd77::1]:/shares/x`), where to, `rw` or `ro`.

    `port` is where its NFS server listens, `more` are options that the operator wants for every mount.
    """

    share_id: str
    source: str
    mount_point: str
    level: str
    size_gib: int
    port: int = _PORT
    more: tuple[str, ...] = ()

    @property
    def options(self) -> tuple[str, ...]:
        """Of the mount."""
        port = () if self.port == _PORT else (f"port={self.port}",)
        return (self.level, "vers=4.2", "hard", "timeo=600", "retrans=2", *port, *self.more)


def commands(way: Way, system: str) -> list[str]:
    """What to type as root, line by line."""
    package, install = _FAMILIES[system]
    return [
        f"{install} {package}",
        shlex.join(["mkdir", "-p", way.mount_point]),
        shlex.join(["mount", "-t", FSTYPE, "-o", ",".join(way.options), way.source, way.mount_point]),
    ]


def fstab(way: Way) -> str:
    """A line of /etc/fstab that waits for the network."""
    return " ".join(_fields(way))


def _fields(way: Way) -> tuple[str, ...]:
    """The six of the line."""
    return (_for_fstab(way.source), _for_fstab(way.mount_point), FSTYPE, _at_boot(way), "0", "0")


def _at_boot(way: Way) -> str:
    return ",".join((*way.options, "_netdev", "nofail"))


def _for_fstab(text: str) -> str:
    return "".join(f"\\{ord(one):03o}" if one in " \t\n\\#" else one for one in text)


def unit_name(mount_point: str) -> str:
    """What systemd demands that a mount unit of this mount point is called."""
    parts = mount_point.strip("/")
    found = []
    for place, one in enumerate(parts):
        if one == "/":
            found.append("-")
        elif _PLAIN.fullmatch(one) and not (place == 0 and one == "."):
            found.append(one)
        else:
            found.append("".join(f"\\x{byte:02x}" for byte in one.encode()))
    return "".join(found) + ".mount"


def systemd(way: Way) -> dict[str, str] | None:
    """The unit's file, `name` and `text`; None where no file can be called as systemd demands."""
    name = unit_name(way.mount_point)
    return {"name": name, "text": unit(way)} if len(name) <= _LONGEST_NAME else None


def unit(way: Way) -> str:
    """A systemd unit that keeps it mounted over reboots."""

    def said(text: str) -> str:
        return text.replace("%", "%%")

    return "\n".join(
        (
            "[Unit]",
            f"Description=Share {way.share_id}",
            "After=network-online.target",
            "Wants=network-online.target",
            "",
            "[Mount]",
            f"What={said(way.source)}",
            f"Where={said(way.mount_point)}",
            f"Type={FSTYPE}",
            f"Options={','.join((*way.options, '_netdev'))}",
            "TimeoutSec=90",
            "",
            "[Install]",
            "WantedBy=remote-fs.target",
            "",
        )
    )


def cloud_init(ways: Iterable[Way], system: str) -> str:
    """A part of user data with which cloud-init keeps shares mounted on a machine, beside its other parts."""
    mounts = "".join(f"  - {_quoted(_fields(way))}\n" for way in ways)
    return (
        "#cloud-config\n"
        # otherwise one part's lists stand in the place of another's
        'merge_how: "list(append)+dict(no_replace,recurse_list)+str()"\n'
        "packages:\n"
        f"  - {_FAMILIES[system][0]}\n"
        "mounts:\n"
        f"{mounts}"
        # at the first boot packages come after what is mounted
        "runcmd:\n"
        f"  - [mount, -a, -t, {FSTYPE}]\n"
    )


def ansible(ways: Iterable[Way], system: str) -> str:
    """A list of Ansible's tasks that keep shares mounted; they need its collection ansible.posix."""
    tasks = "".join(
        f"- name: {_quoted(f'Mount share {way.share_id} at {way.mount_point}')}\n"
        "  become: true\n"
        "  ansible.posix.mount:\n"
        f"    src: {_literal(way.source)}\n"
        f"    path: {_quoted(way.mount_point)}\n"
        f"    fstype: {FSTYPE}\n"
        f"    opts: {_literal(_at_boot(way))}\n"
        "    state: mounted\n"
        for way in ways
    )
    return (
        "- name: Install the NFS client\n"
        "  become: true\n"
        "  ansible.builtin.package:\n"
        f"    name: {_FAMILIES[system][0]}\n"
        "    state: present\n"
        f"{tasks}"
    )


def _quoted(value: object) -> str:
    """As YAML."""
    return json.dumps(value, ensure_ascii=False)


def _literal(text: str) -> str:
    """The same where Ansible would take braces for an expression."""
    return f"!unsafe {_quoted(text)}" if "{" in text else _quoted(text)


def persistent_volumes(ways: Iterable[Way]) -> str:
    """A PersistentVolume for each share, as one stream of YAML."""
    return "---\n".join(persistent_volume(way) for way in ways)


def persistent_volume(way: Way) -> str:
    """A Kubernetes PersistentVolume, as YAML."""
    host, path = split(way.source)
    options = "".join(f"    - {_quoted(one)}\n" for one in way.options[1:])
    mode = "ReadOnlyMany" if way.level == "ro" else "ReadWriteMany"
    return (
        "apiVersion: v1\n"
        "kind: PersistentVolume\n"
        "metadata:\n"
        f"  name: share-{way.share_id}\n"
        "spec:\n"
        "  capacity:\n"
        f"    storage: {way.size_gib}Gi\n"
        "  accessModes:\n"
        f"    - {mode}\n"
        "  persistentVolumeReclaimPolicy: Retain\n"
        '  storageClassName: ""\n'
        "  mountOptions:\n"
        f"{options}"
        "  nfs:\n"
        f"    server: {_quoted(host)}\n"
        f"    path: {_quoted(path)}\n"
        f"    readOnly: {_quoted(way.level == 'ro')}\n"
    )


def split(source: str) -> tuple[str, str]:
    """The address, without brackets, and the path of an export location."""
    if source.startswith("["):
        host, _, path = source[1:].partition("]:")
    else:
        host, _, path = source.partition(":")
    return host, path
