# SPDX-License-Identifier: Apache-2.0
"""What is attached on the nodes of a cluster, compared by the database with what is wanted there."""

import threading

import pytest
import sqlalchemy as sa

from abaca.db.attachments import attachments
from abaca.db.clusters import clusters, nodes
from abaca.domain.clusters.clusters import MOST_GROUPS, MOST_SHARES, Selector, WantedShare
from tests.conftest import wait_until
from tests.databases import on_postgres
from tests.db.shares.test_access_rules import SHARE, a_share

SERVERS = ("s0", "s1")


@pytest.fixture
def db(database):
    opened = database.open()
    a_share(opened)
    yield opened
    opened.close()


def a_cluster(db):
    """A cluster with a group of two nodes, and what it has attached there, by their order."""
    with db.write() as tx:
        values = {"project_id": "p", "user_id": None, "name": "c", "description": None, "shares": []}
        cluster_id = clusters.add(tx, {**values, "tolerance": 0, "network": None, "is_protected": False})
        group = clusters.new_group("nodes", (), Selector(), None)
        clusters.add_group(tx, cluster_id, group)
        nodes.add(tx, cluster_id, group.id, SERVERS)
        common = {"share_id": SHARE, "project_id": "p", "user_id": None, "mode": "network", "cluster_id": cluster_id}
        common |= {"addresses": ["10.0.0.1"], "access_level": "rw"}
        made = [
            attachments.add(tx, {**common, "server_id": one, "mount_point": f"/mnt/{one}", "tag": one})
            for one in SERVERS
        ]
    return cluster_id, group, made


def test_as_many_groups_and_shares_as_there_may_be_are_compared(db):
    cluster_id, group, (_, elsewhere) = a_cluster(db)
    of_each = [WantedShare(f"share-{number}", f"/srv/{number}") for number in range(2 * MOST_SHARES)]
    wanted = {f"group-{number}": of_each for number in range(MOST_GROUPS)}
    wanted[group.id] = [*of_each, WantedShare(SHARE, "/mnt/s0")]
    with db.read() as tx:
        assert [one.id for one in nodes.surplus(tx, cluster_id, wanted, None, nodes.Part("", 10))] == [elsewhere]


def test_what_failed_and_is_tried_again_is_not_waited_for(db):
    cluster_id, _, made = a_cluster(db)
    for number, one in enumerate(made):
        with db.read() as tx:
            assert nodes.number_busy(tx, cluster_id) == (2 - number, 2)
            assert nodes.is_busy(tx, cluster_id)
        with db.write() as tx:
            attachments.update(tx, one, {"attempts": 1, "error_text": "it does not answer"})
    with db.read() as tx:
        assert nodes.number_busy(tx, cluster_id) == (0, 2)
        assert nodes.number_busy(tx, cluster_id, again=True) == (2, 2)
        assert not nodes.is_busy(tx, cluster_id)
        # and is named
        assert {one.error_text for one in nodes.problems(tx, cluster_id, 5)} == {"it does not answer"}


@pytest.mark.parametrize("database", [on_postgres], indirect=True)
def test_of_those_that_end_at_the_same_moment_the_last_sees_that_none_is_left(db):
    cluster_id, _, (first, second) = a_cluster(db)
    seen = []

    def end(tx, attachment_id):
        assert attachments.try_move(tx, attachment_id, "attached")
        seen.append(nodes.is_busy(tx, cluster_id))

    def beside():
        with db.write() as tx:
            end(tx, second)

    thread = threading.Thread(target=beside)
    with db.write() as tx, db.read() as reading:
        end(tx, first)
        thread.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory' AND datname = current_database()"
        wait_until(lambda: len(seen) == 2 or reading.scalar(sa.text(waiting)))
    thread.join(30)
    assert seen == [True, False]
