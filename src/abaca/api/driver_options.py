# SPDX-License-Identifier: Apache-2.0
"""What administrators say to a driver where something of its back end is taken over."""

from __future__ import annotations

from collections.abc import Mapping

from abaca import errors


def options_of(said: Mapping[str, object]) -> dict[str, str]:
    """What is said to a driver, as text. Raises `Invalid` for what is no text, and for too much of it."""
    if not all(isinstance(value, str | int | float | bool) for value in said.values()):
        raise errors.Invalid("'driver_options' must be an object of text values.")
    found = {key: str(value) for key, value in said.items()}
    if len(found) > 50 or any(len(text) > 1023 for pair in found.items() for text in pair):
        raise errors.Invalid("'driver_options' must be at most 50 pairs of text of at most 1023 characters.")
    return found
