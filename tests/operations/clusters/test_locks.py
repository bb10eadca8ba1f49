# SPDX-License-Identifier: Apache-2.0
"""Who deletes a cluster and who ends a change of it lock the same rows in one order."""

import threading

import pytest
import sqlalchemy as sa

from abaca.db.attachments import attachments
from abaca.db.clusters import clusters
from abaca.db.journal import waits
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
