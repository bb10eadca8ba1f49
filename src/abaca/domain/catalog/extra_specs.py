# SPDX-License-Identifier: Apache-2.0
"""What a share type asks for: which extra specs exist, who sees them, and when a pool's capability satisfies one."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from abaca import errors

T = TypeVar("T")

REQUIRED = ("driver_handles_share_servers",)
# Until snapshots became a matter of their own.
REQUIRED_ONCE = (*REQUIRED, "snapshot_support")

# Where a type says nothing, a user is shown False.
INFERRED = (
    "snapshot_support",
    "create_share_from_snapshot_support",
    "revert_to_snapshot_support",
    "mount_snapshot_support",
)
# The bounds of a share's size in GiB; the last holds for administrators who extend one, in the place of the second.
SMALLEST, LARGEST, LARGEST_EXTENDED = SIZES = (
    "provisioning:min_share_size",
    "provisioning:max_share_size",
    "provisioning:max_share_extend_size",
)
BOOLEANS = (*REQUIRED, *INFERRED, "mount_point_name_support", "snapshot_inherit_share_access_support")

# The zones in which shares of the type may lie, with commas between them.
ZONES = "availability_zones"

VISIBLE = (
    *BOOLEANS,
    "replication_type",
    ZONES,
    "encryption_support",
    *SIZES,
    "provisioning:mount_point_prefix",
    "default_qos_type",
)
REPLICATION_TYPES = ("writable", "readable", "dr")
ENCRYPTION_SCOPES = ("share", "share_server")

# What the type says to Abaca itself; no pool reports it.
NOT_CAPABILITIES = (ZONES, "default_qos_type", "replication_domain")

_KEY = re.compile(r"[\w.\-:]{1,255}")
_TRUE = frozenset(("1", "t", "true", "on", "y", "yes"))
_FALSE = frozenset(("0", "f", "false", "off", "n", "no"))


def truth(value: object) -> bool | None:
    """The boolean that a text (or boolean) says, None when it says none. `<is> True` is understood too."""
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower().removeprefix("<is>").strip()
    if text in _TRUE:
        return True
    return False if text in _FALSE else None


def is_true(specs: Mapping[str, str], key: str) -> bool:
    """Whether the type says yes to `key`."""
    return truth(specs.get(key, "")) is True


def visible(specs: Mapping[str, str]) -> dict[str, str]:
    """What users see of the specs."""
    return {key: value for key, value in specs.items() if key in VISIBLE}


def required(specs: Mapping[str, T]) -> dict[str, T]:
    """The specs that every type has."""
    return {key: specs[key] for key in REQUIRED if key in specs}


def zones(specs: Mapping[str, str]) -> tuple[str, ...]:
    """The availability zones that the type is bound to; empty when it is bound to none."""
    return tuple(zone.strip() for zone in specs.get(ZONES, "").split(",") if zone.strip())


def may_lie_in(specs: Mapping[str, str], wanted: Iterable[str]) -> bool:
    """Whether the type lets its shares be in all of these availability zones."""
    bound = zones(specs)
    return not bound or set(wanted) <= set(bound)


def check(specs: object) -> dict[str, str]:
    """The specs, all text, each known one well formed. Raises `Invalid` naming the first that is not."""
    if not isinstance(specs, Mapping):
        raise errors.Invalid("Extra specs must be an object of keys and text values.")
    checked = {}
    for key, value in specs.items():
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise errors.Invalid(
                f"Extra spec key {key!r}: up to 255 letters, digits, underscores, periods, colons and hyphens."
            )
        if not isinstance(value, str | bool | int) or not 1 <= len(str(value)) <= 255:
            raise errors.Invalid(f"The value of extra spec {key} must be text of 1 to 255 characters.")
        checked[key] = str(value)
        _check_value(key, checked[key])
    if ZONES in checked:
        # so it is shown by the service that clients were written for, and so they compare it
        checked[ZONES] = ",".join(zones(checked))
    smallest, largest = checked.get(SMALLEST), checked.get(LARGEST)
    if smallest and largest and int(smallest) > int(largest):
        raise errors.Invalid(f"{SMALLEST} ({smallest}) must not be greater than {LARGEST} ({largest}).")
    return checked


def check_required(specs: Mapping[str, str]) -> None:
    """Raises `Invalid` when a spec that every type must have is missing."""
    for key in REQUIRED:
        if key not in specs:
            raise errors.Invalid(f"A share type must say {key}, True or False, in its extra specs.")


def _check_value(key: str, value: str) -> None:
    if key in BOOLEANS and truth(value) is None:
        raise errors.Invalid(f"Extra spec {key} is {value!r}; it must be True or False.")
    if key in SIZES and not (value.isdecimal() and int(value) >= 1):
        raise errors.Invalid(f"Extra spec {key} is {value!r}; it must be a whole number of GiB, at least 1.")
    _check_one_of(key, value, "replication_type", REPLICATION_TYPES)
    _check_one_of(key, value, "encryption_support", ENCRYPTION_SCOPES)
    if key == ZONES and not all(zone.strip() for zone in value.split(",")):
        raise errors.Invalid(f"Extra spec {key} is {value!r}; it must be names of zones between commas.")


def _check_one_of(key: str, value: str, name: str, choices: Iterable[str]) -> None:
    if key == name and value not in choices:
        raise errors.Invalid(f"Extra spec {key} is {value!r}; choose one of: {', '.join(choices)}.")


def wanted_capabilities(specs: Mapping[str, str]) -> dict[str, str]:
    """The specs that a pool must satisfy, without the `capabilities:` scope; other scopes are not for the scheduler."""
    wanted = {}
    for key, value in specs.items():
        scope, _, name = key.partition(":")
        if not name and key not in NOT_CAPABILITIES:
            wanted[key] = value
        elif scope == "capabilities":
            wanted[name] = value
    return wanted


def satisfies(capability: object, wanted: str) -> bool:
    """Whether what a pool reports is what `wanted` asks for; of a list of capabilities one is enough.

    `wanted` is a plain value or begins with an operator: `<is> True`, `<in> part`, `<or> a <or> b`, the numeric `=` (at
    least), `==`, `!=`, `>=`, `<=`, and `s==`, `s!=`, `s<`, `s<=`, `s>`, `s>=` on text.
    """
    if capability is None:
        return False
    if isinstance(capability, list | tuple):
        return any(satisfies(one, wanted) for one in capability)
    words = wanted.split()
    if words and words[0] == "<or>":
        return any(_equal(capability, choice.strip()) for choice in wanted.split("<or>") if choice.strip())
    if words and words[0] in _OPERATORS:
        return len(words) > 1 and _OPERATORS[words[0]](capability, " ".join(words[1:]))
    return _equal(capability, wanted)


def _equal(capability: object, wanted: str) -> bool:
    if isinstance(capability, bool):
        return truth(wanted) is capability
    if isinstance(capability, int | float):
        return _numeric(operator.eq)(capability, wanted)
    return str(capability) == wanted


def _numeric(compare: Callable[[float, float], bool]) -> Callable[[object, str], bool]:
    def compared(capability: object, wanted: str) -> bool:
        if not isinstance(capability, int | float | str):
            return False
        try:
            return compare(float(capability), float(wanted))
        except ValueError:
            return False

    return compared


def _text(compare: Callable[[str, str], bool]) -> Callable[[object, str], bool]:
    return lambda capability, wanted: compare(str(capability), wanted)


_OPERATORS: dict[str, Callable[[object, str], bool]] = {
    "<is>": lambda capability, wanted: truth(capability) is truth(wanted) is not None,
    "<in>": lambda capability, wanted: wanted in str(capability),
    "=": _numeric(operator.ge),
    "==": _numeric(operator.eq),
    "!=": _numeric(operator.ne),
    ">=": _numeric(operator.ge),
    "<=": _numeric(operator.le),
    "s==": _text(operator.eq),
    "s!=": _text(operator.ne),
    "s<": _text(operator.lt),
    "s<=": _text(operator.le),
    "s>": _text(operator.gt),
    "s>=": _text(operator.ge),
}
