# SPDX-License-Identifier: Apache-2.0
"""What a worker looks at again and again costs the same whatever the database holds: nothing is read that rests.

A worker with everything that it does beside operations runs on a database that is filled as after a year of use; each
statement that it sends is judged by the plan that the database had for it. Whatever is added to the worker is judged.
"""

import threading
from typing import NamedTuple

import pytest
import sqlalchemy as sa

from abaca import app, settings
from abaca.db import tables
from abaca.db.tables import networks
from abaca.journal.periodic_tasks import PeriodicTask
from abaca.networks.contract import Held
from abaca.networks.standalone import Standalone
from abaca.reconcile import network_allocations
from benchmarks import population
from tests import planting
from tests.conftest import wait_until
from tests.databases import fast_directory, on_postgres, on_sqlite, place, postgres  # noqa: F401 (fixtures)
from tests.db.watched import Watched

SHARES = 5_000
CONFIG = """
[DEFAULT]
host = {host}
state_path = {directory}
auth_strategy = none
enabled_share_backends = {names},served
enabled_share_protocols = NFS
[database]
connection = {url}
[worker]
lease_s = 1
poll_s = 1
[nodes]
plugin = rehearsal
[events]
log = true
[served]
driver = dummy
driver_handles_share_servers = true
[networks]
subnets = red
[subnet_red]
cidr = 10.20.0.0/16
is_default = true
"""
# How many pages a look may read. The largest tables have thousands.
MOST_BUFFERS = 100
# These go through all of them, some at a time: reconcile/attachments.py; reconcile/network_allocations.py each hour,
# which looks up by their ids what is kept elsewhere.
MORE_BUFFERS = {"attachments": 500, "leaked addresses": 5 * network_allocations.PAGE}
# Share servers: so many with something on them, with an address each; and so many are gone.
SERVERS, GONE = 2_000, 50
CAN = dict.fromkeys(
    ("security_service_update_support", "network_allocation_update_support", "share_server_multiple_subnet_support"),
    True,
)
SERVED = f"{population.HOST}@served"
# By then each connection has the plan that it keeps.
TIMES = 8
# What runs as long as the worker does; how much these read depends on what there is to do at the moment.
ALWAYS = {"claims", "leases"}


class Elsewhere(Standalone):
    """Addresses that a network service keeps: of all share servers, and of those that are gone."""

    def held(self):
        return [Held(row_id("a", number), row_id("s", number), "10.20.0.1") for number in range(SERVERS + GONE)]


class Looks(NamedTuple):
    """The names of what is periodic, what was seen of each at its last run, and the tables that have many rows."""

    names: set
    seen: list
    large: set


@pytest.fixture(scope="module", params=[on_sqlite, on_postgres])
def looks(request):
    watched = Watched()
    with fast_directory() as directory, watched.on():
        made = place(request.param, directory, request)
        population.fill(made.url, SHARES)
        fill_servers(made.open())
        large = large_tables(made.open())
        worker = app.worker(read(directory, made.url))
        running = threading.Thread(target=worker.run, name="claims")
        running.start()
        try:
            wait_until(lambda: all(one.is_started for one in worker.queues.values()))
            worker.periodic_tasks.append(leaked_addresses(worker.db))
            for task in worker.periodic_tasks:
                for _ in range(TIMES):
                    watched.forget(task.name)
                    in_thread(task)
            names = {task.name for task in worker.periodic_tasks} | ALWAYS
            seen = [one for one in watched.statements(worker.db) if one.thread in names]
            yield Looks(names, seen, large)
        finally:
            worker.stop()
            running.join(60)
            worker.db.close()
            made.close()


def row_id(kind, number):
    return f"{kind}-{number:08}"


def fill_servers(db):
    """Share servers on which something is, and one on which nothing is, since lately."""
    rows = [
        {
            "id": row_id("s", number),
            "project_id": population.LARGE,
            "host": SERVED,
            "status": "active",
            "is_auto_deletable": True,
            "details": {},
            "unused_since": None if number else db.now(),
            "created_at": db.now(),
            **CAN,
        }
        for number in range(SERVERS)
    ]
    addresses = [
        {
            "id": row_id("a", number),
            "share_server_id": row_id("s", number),
            "network": "red",
            "ip_address": f"10.20.{number // 250}.{number % 250}",
            "ip_version": 4,
            "cidr": "10.20.0.0/16",
            "created_at": db.now(),
        }
        for number in range(SERVERS)
    ]
    with planting.by_hand(db) as tx:
        tx.execute(sa.insert(networks.share_servers), rows)
        tx.execute(sa.insert(networks.network_allocations), addresses)
        if not db.is_sqlite:
            tx.connection.exec_driver_sql("ANALYZE")


def leaked_addresses(db):
    """As the worker has it where addresses are kept elsewhere (app/networks.py)."""
    plugin = Elsewhere(db, settings.Networks(), ())
    return PeriodicTask("leaked addresses", 3600, network_allocations.NetworkAllocations(db, plugin).heal)


def large_tables(db):
    with db.read() as tx:
        found = {
            table.name: tx.connection.scalar(sa.select(sa.func.count()).select_from(table))
            for table in tables.metadata.sorted_tables
        }
    return {name for name, number in found.items() if number >= SHARES / 10}


def read(directory, url):
    text = CONFIG.format(host=population.HOST, directory=directory, url=url, names=",".join(population.BACKENDS))
    for name in population.BACKENDS:
        text += f"[{name}]\ndriver = dummy\n"
    (directory / "abaca.conf").write_text(text)
    return settings.read([directory / "abaca.conf"], environ={}).settings


def in_thread(task):
    thread = threading.Thread(target=task.do, name=task.name)
    thread.start()
    thread.join(60)


def test_everything_that_is_periodic_was_seen(looks):
    assert {one.thread for one in looks.seen} == looks.names


def test_the_database_is_as_after_a_year(looks):
    rest = {"shares", "share_instances", "operations", "attachments", "export_location_history", "access_rules"}
    assert looks.large >= rest | {"share_servers", "network_allocations"}
    assert looks.names >= {"unused share servers", "leaked addresses"}


def test_no_look_reads_what_rests(looks):
    found = [
        f"{one.thread}: {one.buffers} pages, all of {sorted(one.scanned)}: {one.text}\n  " + "\n  ".join(one.lines)
        for one in looks.seen
        if one.scanned & looks.large
        or (one.buffers > MORE_BUFFERS.get(one.thread, MOST_BUFFERS) and one.thread not in ALWAYS)
    ]
    assert not found, "\n".join(found)
