# SPDX-License-Identifier: Apache-2.0
"""What the data processing door keeps to make clusters of: templates of clusters and of node groups, and images."""

from __future__ import annotations

import datetime
from typing import Literal

import msgspec

Kind = Literal["cluster", "node_group", "image"]


class Template(msgspec.Struct, frozen=True, gc=False):
    """A template, or an image that is named by its id.

    `content` is all that was said of it beside its own columns. Times are naive UTC.
    """

    id: str
    project_id: str
    kind: Kind
    name: str
    description: str | None
    is_protected: bool
    content: dict[str, object]
    created_at: datetime.datetime
    updated_at: datetime.datetime | None
