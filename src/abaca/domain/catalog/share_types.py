# SPDX-License-Identifier: Apache-2.0
"""A share type: what users ask for by its name, and what its shares ask of a back end."""

from __future__ import annotations

import datetime

import msgspec


class ShareType(msgspec.Struct, frozen=True, gc=False):
    """A share type; one that is not public serves the projects that were allowed to use it. Times are naive UTC."""

    id: str
    name: str
    description: str | None
    is_public: bool
    extra_specs: dict[str, str]
    created_at: datetime.datetime
    updated_at: datetime.datetime | None
