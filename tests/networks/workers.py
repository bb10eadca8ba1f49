# SPDX-License-Identifier: Apache-2.0
"""What workers do in processes of their own, which import nothing else."""

import os
import signal

import sqlalchemy as sa

from abaca import settings
from abaca.db.engine.database import Database
from abaca.networks.standalone import Standalone


def die_while_taking(url, server_id, subnet, network, declared):
    """A worker that is killed between taking an address and the end of its transaction."""
    plugin = Standalone(Database(url), settings.Networks(), declared)

    @sa.event.listens_for(plugin._db._writer, "commit")
    def die(_connection):
        os.kill(os.getpid(), signal.SIGKILL)

    plugin.allocate(server_id, subnet, network, 2)


def take_some(url, servers, subnet, network, declared):
    """A worker that takes an address for each of these servers."""
    plugin = Standalone(Database(url), settings.Networks(), declared)
    for server_id in servers:
        plugin.allocate(server_id, subnet, network, 1)
