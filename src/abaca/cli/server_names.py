# SPDX-License-Identifier: Apache-2.0
"""Which server an operator means by a name or an id, wherever servers come from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from abaca import errors

if TYPE_CHECKING:
    from abaca.compute.contract import Compute, Server


def find_server(compute: Compute, name_or_id: str) -> Server | None:
    """The server that an operator means. Raises `Conflict` when several are called so."""
    from abaca.compute.contract import Wanted

    by_id = compute.show(name_or_id)
    if by_id is not None:
        return by_id
    called = Wanted(name=f"^{re.escape(name_or_id)}$", only=lambda one: one.name == name_or_id, limit=3)
    named = compute.list(called)
    if len(named) > 1:
        ids = ", ".join(one.id for one in named)
        raise errors.Conflict(f"Several servers are called {name_or_id}; say which one by its id: {ids}")
    return named[0] if named else None
