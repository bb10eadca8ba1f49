# SPDX-License-Identifier: Apache-2.0
"""What the double of Heketi (heketi.py) makes of an order for a volume, and what it refuses."""

from __future__ import annotations

import math
from typing import Any

_EXTENT_KIB = 4096
_METADATA = 0.005
_PARTS = ((2, 1), (4, 2), (8, 3), (8, 4))


class Problem(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


def snapshot_room(given: dict[str, Any]) -> dict[str, Any]:
    """How many times their size the pools of bricks have."""
    if not given.get("enable"):
        return {"enable": False, "factor": 1}
    factor = given.get("factor", 0)
    if not 1 <= factor <= 100:
        raise Problem(400, "Invalid snapshot factor")
    return {"enable": True, "factor": factor}


def refuse_size(field: str, size: int) -> None:
    """Raises `Problem` for a size that no volume has."""
    if size == 0:
        raise Problem(400, f"validation failed: {field}: cannot be blank.")
    if size < 1:
        raise Problem(400, f"validation failed: {field}: must be no less than 1.")


def copies(durability: dict[str, Any], size_gib: int, by_gib: int = 0) -> tuple[int, float]:
    """How many bricks a volume of that size has, or such `by_gib` more, and which part of the size each takes.

    Raises `Problem` where a brick would be smaller than 1 GiB.
    """
    count, share = _copies(durability)
    if by_gib and by_gib * share < 1:
        raise Problem(500, "Failed to allocate volume expansion: Minimum brick size limit reached.  Out of space.")
    if size_gib * share < 1:
        least = round(1 / share) << 20
        text = f"Requested volume size ({size_gib} GB) is smaller than the minimum supported volume size ({least})"
        raise Problem(400, text)
    return count, share


def _copies(durability: dict[str, Any]) -> tuple[int, float]:
    kind = durability["type"]
    if kind == "none":
        return 1, 1.0
    if kind == "replicate":
        count = durability["replicate"].get("replica") or 2
        if count > 3:
            raise Problem(400, "Invalid replica value")
        return count, 1.0
    if kind == "disperse":
        data, redundancy = (durability["disperse"].get(key, 0) for key in ("data", "redundancy"))
        if (data, redundancy) not in _PARTS:
            raise Problem(400, f"Invalid dispersion combination: {data}+{redundancy}")
        return data + redundancy, 1 / data
    raise Problem(400, "Unknown durability type")


def pool_kib(brick_kib: int, factor: float) -> int:
    """What a brick takes of its device: its thin pool, and for the pool's metadata 0.5 % more, in whole extents."""
    pool = _whole_extents(brick_kib * factor)
    return pool + _whole_extents(pool * _METADATA)


def _whole_extents(kib: float) -> int:
    return math.ceil(int(kib) / _EXTENT_KIB) * _EXTENT_KIB
