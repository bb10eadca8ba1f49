# SPDX-License-Identifier: Apache-2.0
"""Settings: `read()` gives the frozen tree of `tree.py`; unknown names and wrong values are refused with the mend.

The tree is passed down from `app`; nothing else reads configuration files or the environment.
"""

from __future__ import annotations

from abaca.settings.events import Webhook
from abaca.settings.networks import DeclaredSubnet, Networks
from abaca.settings.options import Section
from abaca.settings.reading import Loaded, read
from abaca.settings.servers import Compute
from abaca.settings.tree import Api, Backend, Database, OsloMiddleware, OsloPolicy, Quota, Settings, Worker

__all__ = [
    "Api",
    "Backend",
    "Compute",
    "Database",
    "DeclaredSubnet",
    "Loaded",
    "Networks",
    "OsloMiddleware",
    "OsloPolicy",
    "Quota",
    "Section",
    "Settings",
    "Webhook",
    "Worker",
    "read",
]
