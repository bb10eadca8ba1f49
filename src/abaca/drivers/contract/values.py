# SPDX-License-Identifier: Apache-2.0
"""What all values of the contract are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

Positive = Annotated[int, msgspec.Meta(ge=1)]

DriverData = Mapping[str, str]
"""What a driver wants kept for one share, snapshot or replica, under names of its own: a volume's number, a path.

It is handed in with each call that concerns the thing, and forgotten with it. Where an outcome carries it, None leaves
what is kept, and a mapping takes the place of all that is kept. It is written in the transaction that ends the call, so
a call that is repeated after a crash may get what was kept before.
"""


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen value passed over the contract."""
