# SPDX-License-Identifier: Apache-2.0
"""Which addresses are tried for a share server: as good as drawn, but the same ones for the same server.

Drawn, so that the first try of most servers is free however many addresses are taken, and so that an address that was
given back is not the next one given out: its old clients may still ask there. However large a subnet is, and however
many of its addresses are taken, some tries are enough, unless nearly all are.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Collection, Iterator, Sequence
from typing import Literal

# First and last address, both included, as numbers.
Span = tuple[int, int]
# So many are tried before somebody asks which are free; of a small subnet so few, since asking is cheap there.
TRIES, FEW = 64, 8
SMALL = 256


class Choice:
    """The addresses of some spans, in the order of whoever `seed` names."""

    def __init__(self, spans: Sequence[Span], ip_version: Literal[4, 6], seed: str) -> None:
        self._spans = spans
        self._of = ipaddress.IPv4Address if ip_version == 4 else ipaddress.IPv6Address
        self._seed = seed
        self.size = sum(last - first + 1 for first, last in spans)

    def tries(self) -> Sequence[str]:
        """What to try at first, each once."""
        number = FEW if self.size <= SMALL else TRIES
        return [self._at(place) for place in dict.fromkeys(self._drawn(one) for one in range(number))]

    def free(self, taken: Collection[str]) -> Iterator[str]:
        """Those that are not taken. No more are passed by than are taken, of however many."""
        start = self._drawn(0)
        every = (self._at((start + one) % self.size) for one in range(self.size))
        return (address for address in every if address not in taken)

    def _drawn(self, one: int) -> int:
        digest = hashlib.blake2b(f"{self._seed} {one}".encode(), digest_size=24).digest()
        return int.from_bytes(digest) % self.size

    def _at(self, place: int) -> str:
        for first, last in self._spans:
            if place <= last - first:
                return str(self._of(first + place))
            place -= last - first + 1
        raise IndexError(place)
