# SPDX-License-Identifier: Apache-2.0
"""Who may reach a share: a rule's states and what each kind of rule may say."""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from abaca import errors
from abaca.domain.state_machine import StateMachine

AccessType = Literal["ip", "user", "cert", "cephx"]
AccessLevel = Literal["rw", "ro"]
TYPES: tuple[AccessType, ...] = ("ip", "user", "cert", "cephx")
LEVELS: tuple[AccessLevel, ...] = ("rw", "ro")

ACCESS_RULE = StateMachine(
    "access rule",
    # at                                     event     to
    ("none",                                 "allow",  "queued_to_apply"),
    ("queued_to_apply",                      "take",   "applying"),
    ("applying",                             "done",   "active"),
    (("active", "error"),                    "update", "queued_to_update"),
    ("queued_to_update",                     "take",   "updating"),
    ("updating",                             "done",   "active"),
    (("active", "error", "queued_to_apply", "queued_to_update",
      "applying", "updating"),               "deny",   "queued_to_deny"),
    ("queued_to_deny",                       "take",   "denying"),
    ("denying",                              "done",   "gone"),
    (("applying", "updating", "denying"),    "failed", "error"),
    ("error",                                "done",   "active"),  # it is in every later set, so it may yet succeed
    ("error",                                "drop",   "denying"),  # it was denied, so no later set has it
    busy=("queued_to_apply", "queued_to_update", "queued_to_deny", "applying", "updating", "denying"),
)  # fmt: skip

# A rule's own state is the first of these that it has on any instance: what went wrong, what goes, what comes.
WORST_FIRST = (
    "error",
    "denying",
    "queued_to_deny",
    "queued_to_apply",
    "applying",
    "queued_to_update",
    "updating",
    "active",
)


class AccessRule(msgspec.Struct, frozen=True, gc=False):
    """A rule of a share: whom it lets in, as what, and how far that is so.

    `made_for` is `attachments` where those need it, None where a user made it; one that `is_denied` goes. `state` is
    the worst that it has on any instance, `mounted_state` the worst on those that servers mount from. `client` is whom
    it lets in, in the one form for that.
    """

    id: str
    share_id: str
    access_type: AccessType
    client: str
    access_level: AccessLevel
    made_for: str | None
    is_denied: bool
    state: str
    mounted_state: str


class RuleInForce(msgspec.Struct, frozen=True, gc=False):
    """A rule on an instance, in force there; `id` and what follows is None for an instance without rules."""

    instance_id: str
    cast_rules_to_readonly: bool
    id: str | None
    access_type: AccessType
    client: str
    access_level: AccessLevel


class InstanceAccessRule(msgspec.Struct, frozen=True, gc=False):
    """A rule as one instance has it; `state` is None where it never came there, or has gone."""

    id: str
    access_type: AccessType
    client: str
    access_level: AccessLevel
    is_denied: bool
    state: str | None


# What the share-wide word says before rules had states of their own: see the API's view of a rule.
PENDING = ("queued_to_apply", "queued_to_update", "queued_to_deny", "applying", "updating", "denying")

# A rule that a back end does not take back, or does not give its level, is tried again after so many seconds at least,
# and at most: in between after as long as it has been waited for already.
_SOONEST_S, _LATEST_S = 30.0, 3600.0

_USER = re.compile(r'[^"/\\\[\]:;|=,+*?<>\x00-\x1f\x7f]{4,255}')
_CEPHX = re.compile(r"[\x20-\x2d\x2f-\x7e]{1,255}")


# As long as the column that holds it.
LONGEST_TO = 255


def client_of(access_type: str, access_to: str) -> str:
    """Whom a rule lets in, in the one form by which rules are compared and drivers are told.

    An address and the network that holds only it are one client, and so are an IPv4 address and the IPv6 address that
    stands for it (`::ffff:192.0.2.1`). Raises `Invalid` with the rule that `access_to` breaks.
    """
    if len(access_to) > LONGEST_TO:
        raise errors.Invalid(f"'access_to' has at most {LONGEST_TO} characters.")
    if access_type == "ip":
        return _addresses(access_to)
    if access_type == "user":
        if not _USER.fullmatch(access_to) or not access_to.strip(". "):
            raise errors.Invalid(
                'A user or group name has 4 to 255 characters, none of "/\\[]:;|=,+*?<> and not only dots and blanks.'
            )
        return access_to
    if access_type == "cert":
        name = access_to.strip()
        if not 1 <= len(name) <= 64 or not access_to.isprintable():
            raise errors.Invalid("A certificate's common name has 1 to 64 printable characters.")
        return name
    if access_type == "cephx":
        if not _CEPHX.fullmatch(access_to):
            raise errors.Invalid("A cephx id consists of printable ASCII characters without a period.")
        return access_to
    raise errors.Invalid(f"Access type {access_type!r} is unknown; choose one of: {', '.join(TYPES)}.")


def _addresses(text: str) -> str:
    try:
        if "%" in text:
            raise ValueError("a scope means nothing to a server")
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise errors.Invalid(f"{text!r} is neither an IPv4 or IPv6 address nor a network.") from None
    if "/" in text and ipaddress.ip_interface(text).ip != network.network_address:
        raise errors.Invalid(f"{text} has host bits set; the network is {network}.")
    if isinstance(network, ipaddress.IPv6Network):
        mapped = network.network_address.ipv4_mapped
        if mapped is not None and network.prefixlen >= _MAPPED_BITS:
            network = ipaddress.IPv4Network((mapped, network.prefixlen - _MAPPED_BITS))
    return str(network.network_address) if network.num_addresses == 1 else str(network)


# How much of an IPv6 address says that it stands for an IPv4 address.
_MAPPED_BITS = 96


def check_level(level: str | None) -> str:
    """`rw` where nothing is said. Raises `Invalid`."""
    if level is None:
        return "rw"
    if level not in LEVELS:
        raise errors.Invalid(f"Access level {level!r} is not supported; choose rw or ro.")
    return level


def level_of(address: str, rules: Iterable[tuple[str, str]]) -> str | None:
    """What an address may do by rules (a network, its level), of which the one for the smallest network counts."""
    found = [(ipaddress.ip_network(to, strict=False).prefixlen, level) for to, level in rules if holds(to, address)]
    return max(found)[1] if found else None


def holds(network: str, address: str) -> bool:
    """Whether a rule for `network` (an address, or one with its prefix) lets `address` in."""
    wanted, given = ipaddress.ip_address(address), ipaddress.ip_network(network, strict=False)
    return wanted.version == given.version and wanted in given


def next_try_at(asked_at: datetime.datetime, failed_at: datetime.datetime) -> datetime.datetime:
    """When a rule is tried again by itself that has been wanted since `asked_at` and failed last at `failed_at`."""
    waited_s = (failed_at - asked_at).total_seconds()
    return failed_at + datetime.timedelta(seconds=min(max(waited_s, _SOONEST_S), _LATEST_S))
