# SPDX-License-Identifier: Apache-2.0
"""A share group type: of which share types the shares of a group may be, and what is asked of their back end."""

from __future__ import annotations

import msgspec


class ShareGroupType(msgspec.Struct, frozen=True, gc=False):
    """A share group type; one that is not public serves the projects that were allowed to use it."""

    id: str
    name: str
    is_public: bool
    group_specs: dict[str, str]
