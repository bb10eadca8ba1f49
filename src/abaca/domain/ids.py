# SPDX-License-Identifier: Apache-2.0
"""Ids of everything that is stored: UUIDs in the order of their making."""

from __future__ import annotations

import os
import random
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
    """A UUID of version 4, for what is not stored and no secret: nobody learns from it when it was made."""
    text = f"{_numbers.getrandbits(128) & _RANDOM_BITS | _VERSION_4:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


# Begun at random in each process. Asking the system each time lets another thread go first, at every request.
_numbers = random.Random()
os.register_at_fork(after_in_child=_numbers.seed)
_VERSION_4 = 4 << 76 | 2 << 62
_RANDOM_BITS = (1 << 128) - 1 - (15 << 76 | 3 << 62)


def is_id(text: str) -> bool:
    """Whether a text has the form of an id; another may be a name."""
    return _FORM.fullmatch(text) is not None


def beginning(text: str) -> str | None:
    """The text as ids begin with it, in small letters; None where no id begins so. Four characters are the fewest.

    Whole ids have their dashes at the same places, which keeps their order in every collation.
    """
    if not 4 <= len(text) <= len(_SHAPE) or not _FORM.fullmatch(text + _SHAPE[len(text) :]):
        return None
    return text.lower()


_SHAPE = "00000000-0000-0000-0000-000000000000"
_FORM = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
