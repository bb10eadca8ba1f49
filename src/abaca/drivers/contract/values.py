# SPDX-License-Identifier: Apache-2.0
"""What all values of the contract are."""

from __future__ import annotations

from typing import Annotated

import msgspec


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen value passed over the contract."""


Positive = Annotated[int, msgspec.Meta(ge=1)]
