# SPDX-License-Identifier: Apache-2.0
"""Services of hosts that are gone: shown, and removed when nothing is left there."""

import json

import pytest
import sqlalchemy as sa

from abaca.cli import exits
from abaca.db.administration import services
from abaca.db.engine.database import Database
from abaca.db.journal import operations
from abaca.db.shares import share_instances
from abaca.db.tables import administration as tables
from abaca.db.tables import shares as share_tables

HOST = "gone@fast"


@pytest.fixture
def db(abaca, config, tmp_path):
    """A database with a service of long ago, its pool, and one of another host."""
    abaca("db", "upgrade", "--config-file", config())
    db = Database(f"sqlite:///{tmp_path / 'state' / 'abaca.sqlite'}")
    with db.write() as tx:
        for host in (HOST, "there@fast"):
            services.report_problem(tx, services.SHARE_BINARY, host, "nova", "nobody knows")
            pool = {"host": f"{host}#pool1", "service_host": host, "name": "pool1", "capabilities": {}}
            tx.execute(sa.insert(tables.pools), {"created_at": tx.now, **pool})
    yield db
    db.close()


def left(db):
    with db.read() as tx:
        pools = [row[0] for row in tx.rows(sa.select(tables.pools.c.host))]
        return [one.host for one in services.of_back_ends(tx)], sorted(pools)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "abaca.conf"


def test_a_service_of_a_host_that_is_gone_is_removed_with_its_pools(abaca, db, file):
    rows = json.loads(abaca("service", "list", "--config-file", file, "--json").out)
    assert [(row["host"], row["state"], row["instances"]) for row in rows] == [
        (HOST, "down", 0),
        ("there@fast", "down", 0),
    ]
    assert abaca("service", "remove", HOST, "--config-file", file).out == f"The service {HOST} is removed.\n"
    assert left(db) == (["there@fast"], ["there@fast#pool1"])
    again = abaca("service", "remove", HOST, "--config-file", file)
    assert (again.status, again.err) == (exits.EX_FAILED, f"abaca: Service {HOST} could not be found.\n")


def test_a_comparison_under_way_goes_with_the_service(abaca, db, file):
    with db.write() as tx:
        row = {"kind": "backend-reconcile", "queue": HOST, "keys": ["reconcile-slowly:1"], "args": {}}
        operations.add(tx, {**row, "resource_type": "service", "resource_id": "1", "not_before": 9e9})
    assert abaca("service", "remove", HOST, "--config-file", file).status == 0
    with db.read() as tx:
        assert operations.find(tx, live=True) == []


def with_a_share(tx):
    row = {"id": "s1", "project_id": "p", "size": 5, "share_proto": "NFS", "metadata": {}}
    tx.execute(sa.insert(share_tables.shares), {**row, "created_at": tx.now})
    share_instances.add(tx, {"id": "i1", "share_id": "s1", "host": f"{HOST}#pool1"})


def with_an_operation(tx):
    row = {"kind": "share-create", "queue": HOST, "keys": ["share:s1"], "args": {}}
    operations.add(tx, {**row, "resource_type": "share", "resource_id": "s1"})


def with_a_worker(tx):
    services.heartbeat(tx, [HOST])


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (with_a_share, "1 share instances live at gone@fast"),
        (with_an_operation, "Operations wait for gone@fast"),
        (with_a_worker, "The service gone@fast is up"),
    ],
)
def test_where_anything_is_left_nothing_is_removed(abaca, db, file, plant, says):
    with db.write() as tx:
        plant(tx)
    before = left(db)
    refused = abaca("service", "remove", HOST, "--config-file", file)
    assert (refused.status, says in refused.err) == (exits.EX_FAILED, True), refused
    assert left(db) == before
