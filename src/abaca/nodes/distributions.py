# SPDX-License-Identifier: Apache-2.0
"""Which packages a machine's distribution needs, and the command that installs them there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from abaca.nodes.contract import Distribution

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
# A login by SSH may bring a language of its own.
_ENVIRONMENT = ("env", "LC_ALL=C")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]*")
ABSENT = 127
"""What a command ends with whose program is not there."""
TIMED_OUT = (124, 137)
"""What a command ends with whose time is over."""
# What the package managers say while another one is at work.
_LOCKED = re.compile(
    "Could not get lock|Unable to lock|System management is locked|Waiting for process|create transaction lock"
    "|obtain rpm transaction lock"
)


class Installer(msgspec.Struct, frozen=True, kw_only=True):
    """How packages come onto a machine: `commands` are tried in order until they are there; `by_hand` is for people.

    Where the first one's program is not there, `instead` is tried.
    """

    commands: tuple[tuple[str, ...], ...]
    instead: tuple[tuple[str, ...], ...] = ()
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


def locked(code: int, *said: str) -> str:
    """The line that says why an installation had to wait for another one and failed; empty when it was not that."""
    lines = [line for text in said for line in text.splitlines() if _LOCKED.search(line)]
    return lines[-1].strip() if code and lines else ""


def installer(distribution: Distribution, packages: Sequence[str], lock_s: float = 120.0) -> Installer | None:
    """How `packages` are installed there; None for a distribution that is not known, or without packages.

    A package manager that knows how waits `lock_s` seconds for another one; dnf and yum as long as they may run.
    """
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
    commands, instead = (
        tuple((*_ENVIRONMENT, *command) for command in some)
        for some in _commands(kind, plain[kind], packages, f"{lock_s:.0f}")
    )
    return Installer(commands=commands, instead=instead, by_hand=shlex.join(plain[kind]))


_Commands = tuple[tuple[str, ...], ...]


def _commands(kind: str, plain: tuple[str, ...], packages: Sequence[str], lock_s: str) -> tuple[_Commands, _Commands]:
    """The commands, and those for where the first one's program is not there."""
    if kind == "debian":
        apt = ("DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", f"DPkg::Lock::Timeout={lock_s}")
        install = (*apt, "-o", "Dpkg::Options::=--force-confold", *plain[1:])
        # Without the mode a repository that is away is but a warning.
        return (install, (*apt, "-o", "APT::Update::Error-Mode=any", "update"), install), ()
    if kind == "fedora":
        return (plain,), (("yum", "install", "-y", *packages),)
    if kind == "suse":
        return ((f"ZYPP_LOCK_TIMEOUT={lock_s}", *plain),), ()
    return (("apk", "add", "--wait", lock_s, *packages),), ()
