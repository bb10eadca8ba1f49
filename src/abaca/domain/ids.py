# SPDX-License-Identifier: Apache-2.0
"""Ids of everything that is stored: UUIDs in the order of their making."""

from __future__ import annotations

import re
import secrets
import time

_NS_A_MS = 1_000_000


def new_id() -> str:
    """A UUID of version 7, as RFC 9562 has it (5.7; 6.2, method 3): milliseconds, their 4096th parts, 62 random bits.

    What is made together lies together in an index, so writing a thousand rows writes a few of its pages and not a
    thousand of them, however many rows there are.
    """
    ms, ns = divmod(time.time_ns(), _NS_A_MS)
    number = ms << 80 | 7 << 76 | (ns << 12) // _NS_A_MS << 64 | 2 << 62 | secrets.randbits(62)
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def random_id() -> str:
    """A UUID of version 4, for what is not stored: nobody learns from it when it was made."""
    text = secrets.token_hex(16)
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{_VARIANT[text[16]]}{text[17:20]}-{text[20:]}"


# what the first digit of the fourth part becomes
_VARIANT = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}


def is_id(text: str) -> bool:
    """Whether a text has the form of an id; another may be a name."""
    return _FORM.fullmatch(text) is not None


_FORM = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
