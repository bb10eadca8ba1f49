# SPDX-License-Identifier: Apache-2.0
"""Free key-value pairs that users hang on resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from abaca import errors

MAX_KEY = 255
MAX_VALUE = 1023


def check(metadata: object) -> dict[str, str]:
    """The pairs, all text. Raises `Invalid` naming the first rule that is broken."""
    if not isinstance(metadata, Mapping):
        raise errors.Invalid("Metadata must be an object of keys and text values.")
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise errors.Invalid(f"Metadata key {key!r}: keys and values must be text.")
        if not key.strip():
            raise errors.Invalid("A metadata key must not be blank.")
        if len(key) > MAX_KEY:
            raise errors.Invalid(f"A metadata key has at most {MAX_KEY} characters.")
        if not value.strip():
            raise errors.Invalid(f"The value of metadata key {key!r} must not be blank.")
        if len(value) > MAX_VALUE:
            raise errors.Invalid(f"A metadata value has at most {MAX_VALUE} characters.")
    return dict(metadata)


def check_size(pairs: Mapping[str, str], *, most_items: int, most_characters: int) -> None:
    """Raises `Invalid` when there are more pairs than one thing may have, or longer ones; -1: any."""
    if 0 <= most_items < len(pairs):
        raise errors.Invalid(f"Metadata of one thing are at most {most_items} pairs, and these would be {len(pairs)}.")
    if 0 <= most_characters < characters(pairs):
        raise errors.Invalid(
            f"Metadata of one thing have at most {most_characters} characters in all, "
            f"and these would have {characters(pairs)}."
        )


def characters(pairs: Mapping[str, str]) -> int:
    """How long they are, keys and values together."""
    return sum(len(key) + len(value) for key, value in pairs.items())


def hidden(admin_only: Iterable[str], *, is_admin: bool) -> frozenset[str]:
    """The keys that the caller may not see."""
    return frozenset() if is_admin else frozenset(admin_only)


def seen(pairs: Mapping[str, str], hidden: frozenset[str]) -> Mapping[str, str]:
    """Those that a caller may see to whom these keys are hidden."""
    if hidden.isdisjoint(pairs):
        return pairs
    return {key: value for key, value in pairs.items() if key not in hidden}


def check_admin_only(keys: Iterable[str], admin_only: Iterable[str], *, is_admin: bool) -> None:
    """Raises `Forbidden` when somebody but an administrator names a key that is reserved."""
    reserved = sorted(set(keys) & set(admin_only))
    if reserved and not is_admin:
        raise errors.Forbidden(f"Only an administrator may see, set or remove the metadata key {reserved[0]}.")


def replaced(
    old: Mapping[str, str], new: Mapping[str, str], admin_only: Iterable[str], *, is_admin: bool
) -> dict[str, str]:
    """What is stored when `new` replaces all: reserved keys survive a user's replacement."""
    kept = {} if is_admin else {key: old[key] for key in admin_only if key in old}
    return {**kept, **new}
