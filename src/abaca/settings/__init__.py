# SPDX-License-Identifier: Apache-2.0
"""Settings: `read()` gives the frozen tree of `tree.py`; unknown names and wrong values are refused with the mend.

The tree is passed down from `app`; nothing else reads configuration files or the environment.
"""

from __future__ import annotations

from abaca.settings.reading import Loaded, read
from abaca.settings.tree import Api, Backend, Database, OsloMiddleware, OsloPolicy, Quota, Settings, Webhook, Worker

__all__ = [
    "Api",
    "Backend",
    "Database",
    "Loaded",
    "OsloMiddleware",
    "OsloPolicy",
    "Quota",
    "Settings",
    "Webhook",
    "Worker",
    "read",
]
