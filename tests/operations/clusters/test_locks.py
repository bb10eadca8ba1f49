# SPDX-License-Identifier: Apache-2.0
"""Who deletes a cluster and who ends a change of it lock the same rows in one order; nodes wait for none in vain."""

import threading

import pytest
import sqlalchemy as sa

from abaca.db.attachments import attachments
from abaca.db.clusters import clusters
from abaca.db.journal import waits
from abaca.db.shares import shares
from abaca.db.tables.journal import operations
from tests.conftest import wait_until
from tests.databases import on_postgres
from tests.operations import cases


@pytest.mark.parametrize("database", [on_postgres], indirect=True)
def test_who_deletes_waits_for_the_operation_before_the_cluster(theatre):
    theatre.ensure_actor()
    prepared = cases.a_share_and_servers(theatre, 1)
    theatre.leave()
    cluster_id = cases.make_cluster(theatre, prepared)
    changing = theatre.operation("cluster-change", cluster_id).id
    with theatre.db.write() as tx:
        waits.add(tx, changing, [attachments.cluster_condition(cluster_id)])
    answers = []

    def delete():
        answers.append(theatre.world.ask("member", "DELETE", f"//abaca/v1/clusters/{cluster_id}").status)

    thread = threading.Thread(target=delete)
    with theatre.db.write() as tx:  # as the end of the change does
        tx.execute(sa.update(operations).where(operations.c.id == changing).values(updated_at=tx.now))
        thread.start()
        wait_until(lambda: theatre.waiting() == 1)
        assert clusters.hold(tx, cluster_id) is not None
    thread.join(30)
    assert answers == [202]


@pytest.mark.parametrize("database", [on_postgres], indirect=True)
def test_a_node_that_is_let_in_already_waits_for_nobody_who_has_its_share_locked(theatre):
    is_locked = threading.Event()

    def hold(point):
        if point == "attachment-attach:grant_access:before":
            assert is_locked.wait(60)

    theatre.enter(arms=hold)
    share_id, servers = cases.a_share_and_servers(theatre, 2)
    cluster_id = cases.make_cluster(theatre, (share_id, servers))
    wait_until(lambda: [rule["state"] for rule in rules_of(theatre, share_id)] == ["active"] * 2)
    with theatre.db.write() as tx:  # as another node's attaching would
        shares.lock(tx, share_id)
        is_locked.set()
        wait_until(lambda: len(theatre.nodes.tables()) == 2)
    theatre.until_ended("cluster-change", cluster_id)
    assert theatre.ask("GET", f"//abaca/v1/clusters/{cluster_id}")["cluster"]["node_states"] == {"ready": 2}


def rules_of(theatre, share_id):
    return theatre.ask("GET", f"/share-access-rules?share_id={share_id}")["access_list"]
