# SPDX-License-Identifier: Apache-2.0
"""From settings to running parts: the only package that knows all of them.

Each function imports what it needs when it is called, because start time and memory are promises: an API process never
loads drivers, and a worker never loads the web framework or policies.
"""

from abaca.app.backends import driver, reload
from abaca.app.checks import check, missing
from abaca.app.databases import open_database, ready_database
from abaca.app.doors import SYSTEM_CONFIG, api, wsgi
from abaca.app.events import event_targets
from abaca.app.examination import examine, refuse_callers, refuse_database
from abaca.app.local import local_api
from abaca.app.networks import network_of, network_plugin
from abaca.app.observability import log_options, open_metrics, set_up_logs
from abaca.app.servers import compute, nodes, serve_nodes
from abaca.app.workers import worker

__all__ = [
    "SYSTEM_CONFIG",
    "api",
    "check",
    "compute",
    "driver",
    "event_targets",
    "examine",
    "local_api",
    "log_options",
    "missing",
    "network_of",
    "network_plugin",
    "nodes",
    "open_database",
    "open_metrics",
    "ready_database",
    "refuse_callers",
    "refuse_database",
    "reload",
    "serve_nodes",
    "set_up_logs",
    "worker",
    "wsgi",
]
