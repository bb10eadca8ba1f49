# SPDX-License-Identifier: Apache-2.0
"""The list of extensions: empty, since microversions took their place; old clients ask for it."""

from __future__ import annotations

from typing import Any

from abaca import policy
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Plain

INDEX = policy.anyone("extension:index", "List extensions.")
RESOURCE = Resource("extensions", "/extensions")


@RESOURCE.get(policy=INDEX, view=Plain("extensions", list[Any]))
def index(call: Call) -> list[Any]:
    """Always empty."""
    return []
