# SPDX-License-Identifier: Apache-2.0
"""Which packages a machine's distribution needs, and the command that installs them there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from abaca.nodes.contract import Distribution

LOCK_WAIT_S = 120
"""How long a package manager that somebody else uses is waited for."""

# The family of an `ID` that names none of these in its `ID_LIKE`.
FAMILIES: Mapping[str, str] = {
    "debian": "debian",
    "ubuntu": "debian",
    "fedora": "fedora",
    "rhel": "fedora",
    "centos": "fedora",
    "rocky": "fedora",
    "almalinux": "fedora",
    "ol": "fedora",
    "amzn": "fedora",
    "suse": "suse",
    "sles": "suse",
    "sled": "suse",
    "sle-micro": "suse",
    "opensuse": "suse",
    "opensuse-leap": "suse",
    "opensuse-tumbleweed": "suse",
    "alpine": "alpine",
}
# A login by SSH may bring no path to the administrator's programs, and a language of its own.
_ENVIRONMENT = ("env", "LC_ALL=C", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]*")


class Installer(msgspec.Struct, frozen=True, kw_only=True):
    """How packages come onto a machine: `commands` are tried in order until they are there; `by_hand` is for people."""

    commands: tuple[tuple[str, ...], ...]
    by_hand: str


def read(lines: Iterable[str]) -> Distribution:
    """The distribution by the lines of its os-release; what cannot be read is left empty."""
    values = {}
    for line in lines:
        key, _, value = line.partition("=")
        try:
            values[key.strip()] = " ".join(shlex.split(value))
        except ValueError:
            continue
    id = values.get("ID", "linux").lower()
    return Distribution(id, tuple(values.get("ID_LIKE", "").lower().split()), values.get("PRETTY_NAME", id))


def family(distribution: Distribution) -> str | None:
    """`debian`, `fedora`, `suse` or `alpine`: who else's packages and commands it uses; None where unknown."""
    return next((FAMILIES[word] for word in (distribution.id, *distribution.like) if word in FAMILIES), None)


def installer(distribution: Distribution, packages: Sequence[str]) -> Installer | None:
    """How `packages` are installed there; None for a distribution that is not known, or without packages."""
    if not packages or not all(map(_PACKAGE.fullmatch, packages)):
        return None
    plain: dict[str, tuple[str, ...]] = {
        "debian": ("apt-get", "install", "--no-install-recommends", "-y", *packages),
        "fedora": ("dnf", "install", "-y", *packages),
        "suse": ("zypper", "--non-interactive", "install", *packages),
        "alpine": ("apk", "add", *packages),
    }
    kind = family(distribution)
    if kind is None:
        return None
    commands = tuple((*_ENVIRONMENT, *command) for command in _commands(kind, plain[kind], packages))
    return Installer(commands=commands, by_hand=shlex.join(plain[kind]))


def _commands(kind: str, plain: tuple[str, ...], packages: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    if kind == "debian":
        apt = ("DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", f"DPkg::Lock::Timeout={LOCK_WAIT_S}")
        install = (*apt, "-o", "Dpkg::Options::=--force-confold", *plain[1:])
        return (install, (*apt, "update"), install)
    if kind == "fedora":
        # dnf and yum wait for the lock by themselves; the command's own time limit bounds it.
        return (plain, ("yum", "install", "-y", *packages))
    if kind == "suse":
        return ((f"ZYPP_LOCK_TIMEOUT={LOCK_WAIT_S}", *plain),)
    return (("apk", "add", "--wait", str(LOCK_WAIT_S), *packages),)
