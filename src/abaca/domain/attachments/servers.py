# SPDX-License-Identifier: Apache-2.0
"""Servers that shares are attached to: what a name, an address and a way in must look like.

Each `check_*` gives the value as it is kept, or raises `Invalid` saying what it must be.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import ipaddress
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from abaca import errors
from abaca.domain import metadata

# What a server of the inventory may be said to be; Nova has more of them.
STATUSES = ("ACTIVE", "SHUTOFF", "ERROR")
MOST_ADDRESSES = 32
KEY_SCHEME = "file:"
NETWORK = "default"

_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")
_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,254}")
# As part of a path that is handed to other programs.
_KEY_PATH = re.compile(r"/[A-Za-z0-9._@+/-]{1,1023}")
_QMP_SOCKET = re.compile(r"/[A-Za-z0-9._@+:/-]{1,106}")
_HOST_KEY_TYPES = frozenset(
    (
        "ssh-ed25519",
        "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp384",
        "ecdsa-sha2-nistp521",
        "ssh-rsa",
        "sk-ssh-ed25519@openssh.com",
        "sk-ecdsa-sha2-nistp256@openssh.com",
    )
)


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker logs in to a server by SSH; it never leaves the process.

    `host_key` is the server's public key ("ssh-ed25519 AAAA..."). `key` is a reference to the worker's private key,
    such as `file:/etc/abaca/keys/id_ed25519`: its content is read when it is needed, and kept nowhere. A `user` other
    than root needs `sudo` without a password.
    """

    host: str
    port: int = 22
    user: str = "root"
    host_key: str
    key: str


class RegisteredServer(msgspec.Struct, frozen=True, gc=False):
    """A server as an operator registered it; its addresses are kept apart. Times are naive UTC.

    Without `ssh_host` its first address is where a worker logs in. Of a guest, `hypervisor_id` is the server that can
    hand it shares, and `qmp_socket` where the guest's QEMU takes orders there.
    """

    id: str
    name: str
    project_id: str
    user_id: str | None
    description: str | None
    status: str
    availability_zone: str | None
    metadata: dict[str, str]
    ssh_host: str | None
    ssh_port: int
    ssh_user: str
    host_key: str | None
    key: str | None
    hypervisor_id: str | None
    qmp_socket: str | None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


def check_name(name: str) -> str:
    """A server's name: 1 to 255 printable characters, no blank at either end."""
    if not 1 <= len(name) <= 255 or not name.isprintable() or name != name.strip():
        raise errors.Invalid("'name' must be 1 to 255 printable characters without a blank at either end.")
    return name


def check_project(project_id: str) -> str:
    """A project's id as it may stand in addresses."""
    if not _PROJECT.fullmatch(project_id):
        raise errors.Invalid("'project_id' must be 1 to 255 letters, digits and any of . _ @ -")
    return project_id


def check_ip(ip: str) -> str:
    """An IPv4 or IPv6 address of one machine, in its shortest form."""
    try:
        found = ipaddress.ip_address(ip)
    except ValueError:
        raise errors.Invalid(f"{ip[:64]!r} is no IPv4 or IPv6 address.") from None
    if isinstance(found, ipaddress.IPv6Address):
        if found.scope_id:
            raise errors.Invalid(f"{ip[:64]!r} holds a zone, which means nothing on other machines; leave it out.")
        found = found.ipv4_mapped or found
    if found.is_multicast or found.is_unspecified:
        raise errors.Invalid(f"{ip[:64]!r} is not the address of one machine.")
    return str(found)


def check_addresses(addresses: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Pairs (IP, network): at least one, none twice."""
    if not 1 <= len(addresses) <= MOST_ADDRESSES:
        raise errors.Invalid(f"'addresses' must hold 1 to {MOST_ADDRESSES} addresses.")
    found: dict[str, str] = {}
    for ip, network in addresses:
        checked = check_ip(ip)
        if checked in found:
            raise errors.Invalid(f"Address {checked} is there twice.")
        if not 1 <= len(network) <= 255 or not network.isprintable():
            raise errors.Invalid("The name of a network must be 1 to 255 printable characters.")
        found[checked] = network
    return tuple(found.items())


def check_status(status: str) -> str:
    """One of `STATUSES`."""
    if status not in STATUSES:
        raise errors.Invalid(f"'status' must be one of: {', '.join(STATUSES)}.")
    return status


def check_ssh_host(host: str) -> str:
    """Where SSH connects to: an address or a host name."""
    try:
        return check_ip(host)
    except errors.Invalid:
        if not _HOST_NAME.fullmatch(host) or host.rpartition(".")[2].isdigit():
            raise errors.Invalid("'ssh_host' must be an IP address or a host name.") from None
        return host.lower()


def check_ssh_user(user: str) -> str:
    """A login name."""
    if not _USER.fullmatch(user):
        raise errors.Invalid("'ssh_user' must be a login name: up to 32 letters, digits and . _ - after a letter.")
    return user


def check_ssh_port(port: int) -> int:
    """A TCP port."""
    if not 1 <= port <= 65535:
        raise errors.Invalid("'ssh_port' must be from 1 to 65535.")
    return port


def check_host_key(text: str) -> str:
    """The public host key as `ssh-keyscan` or /etc/ssh/ssh_host_*_key.pub give it: its type and its base64 text."""
    words = text.split(" ") if "\n" not in text and "\r" not in text and len(text) <= 8192 else []
    words = [word for word in words if word]
    if len(words) < 2 or words[0] not in _HOST_KEY_TYPES or not _is_blob_of(words[0], words[1]):
        raise errors.Invalid("'host_key' must be one public host key, such as: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5...")
    return f"{words[0]} {words[1]}"


def check_key(reference: str, directory: str) -> str:
    """Where the worker finds the private key: `file:` and an absolute path below `directory`. It is not looked at."""
    scheme, path = reference[: len(KEY_SCHEME)], reference[len(KEY_SCHEME) :]
    below = directory.rstrip("/") + "/"
    if scheme != KEY_SCHEME or not _KEY_PATH.fullmatch(path) or posixpath.normpath(path) != path:
        raise errors.Invalid(f"'key' must refer to a file: {KEY_SCHEME}/ and the rest of an absolute path.")
    if not path.startswith(below):
        raise errors.Invalid(f"'key' must refer to a file in {below} (the setting key_directory in [compute]).")
    return reference


def check_qmp_socket(path: str) -> str:
    """Where the guest's QEMU takes orders on its hypervisor: an absolute path that a Unix socket can have."""
    if not _QMP_SOCKET.fullmatch(path) or posixpath.normpath(path) != path:
        raise errors.Invalid(
            "'qmp_socket' must be a normalised absolute path of at most 107 letters, digits and any of . _ @ + : / -"
        )
    return path


def check_hypervisor(server_id: str | None, hypervisor_id: str | None, qmp_socket: str | None) -> None:
    """Raises `Invalid` unless both are said or neither is, and the server is not its own hypervisor."""
    if (hypervisor_id is None) != (qmp_socket is None):
        raise errors.Invalid("'hypervisor_id' and 'qmp_socket' go together: say both, or neither.")
    if hypervisor_id is not None and hypervisor_id == server_id:
        raise errors.Invalid("A server is not its own hypervisor: 'hypervisor_id' must be another server.")


def _is_blob_of(kind: str, text: str) -> bool:
    """Whether the base64 text is a key of that type; the type stands at the start of what it encodes."""
    try:
        blob = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    named = len(kind).to_bytes(4, "big") + kind.encode()
    return blob.startswith(named) and len(blob) > len(named) + 16


def check(said: Mapping[str, object], key_directory: str) -> tuple[dict[str, Any], tuple[tuple[str, str], ...] | None]:
    """The columns that `said` stands for, and the addresses if it says them. Raises Invalid naming the field."""
    unknown = sorted(str(name) for name in said if name not in FIELDS)
    if unknown:
        known = ", ".join(FIELDS)
        raise errors.Invalid(f"Nothing is known of {unknown[0][:64]!r} of a server; known are: {known}.")
    values: dict[str, Any] = {}
    for name, value in said.items():
        field = FIELDS[name]
        if value is None and field.may_be_null:
            values[name] = None
        elif not isinstance(value, field.type) or isinstance(value, bool):
            raise errors.Invalid(f"'{name}' must be {field.must}.")
        else:
            values[name] = field.check(value)
    if values.get("key") is not None:
        check_key(values["key"], key_directory)
    return values, values.pop("addresses", None)


class _Field(NamedTuple):
    type: type
    must: str
    check: Callable[[Any], Any]
    may_be_null: bool = False


def _addresses(said: Sequence[Any]) -> tuple[tuple[str, str], ...]:
    """Each is an address as text, or an object with `ip` and, if need be, `network`."""
    pairs = []
    for one in said[: MOST_ADDRESSES + 1]:
        whole = {"ip": one} if isinstance(one, str) else one
        if not isinstance(whole, dict) or not {"ip"} <= set(whole) <= {"ip", "network"}:
            raise errors.Invalid("Each of 'addresses' must be an address, or an object with 'ip' and 'network'.")
        pair = whole["ip"], whole.get("network", NETWORK)
        if not all(isinstance(part, str) for part in pair):
            raise errors.Invalid("'ip' and 'network' must be text.")
        pairs.append(pair)
    return check_addresses(pairs)


def _line(name: str) -> Callable[[str], str]:
    def check_line(text: str) -> str:
        if len(text) > 255 or not text.isprintable():
            raise errors.Invalid(f"'{name}' must be at most 255 printable characters.")
        return text

    return check_line


def _as_it_is(value: Any) -> Any:
    return value


# What is said of a server when it is registered.
FIELDS: Mapping[str, _Field] = {
    "name": _Field(str, "text", check_name),
    "project_id": _Field(str, "text", check_project),
    "description": _Field(str, "text", _line("description"), may_be_null=True),
    "status": _Field(str, "text", check_status),
    "availability_zone": _Field(str, "text", _line("availability_zone"), may_be_null=True),
    "metadata": _Field(dict, "an object of text", metadata.check),
    "addresses": _Field(list, "a list", _addresses),
    "ssh_host": _Field(str, "text", check_ssh_host, may_be_null=True),
    "ssh_port": _Field(int, "a whole number", check_ssh_port),
    "ssh_user": _Field(str, "text", check_ssh_user),
    "host_key": _Field(str, "text", check_host_key, may_be_null=True),
    "key": _Field(str, "text", _as_it_is, may_be_null=True),
    "hypervisor_id": _Field(str, "text", _line("hypervisor_id"), may_be_null=True),
    "qmp_socket": _Field(str, "text", check_qmp_socket, may_be_null=True),
}
# What it is where nothing is said.
DEFAULTS: Mapping[str, Any] = {"status": "ACTIVE", "metadata": {}, "ssh_port": 22, "ssh_user": "root"}
REQUIRED = ("name", "addresses")
