# SPDX-License-Identifier: Apache-2.0
"""Connections for looks at the database are kept from one look to the next, and never more or longer than is right."""

import threading

import pytest
import sqlalchemy as sa

from tests.conftest import wait_until
from tests.databases import on_postgres

ONE, WHO = sa.text("SELECT 1"), sa.text("SELECT pg_backend_pid()")
OURS = sa.text(
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'abaca' AND datname = current_database()"
)
on_a_server = pytest.mark.parametrize("database", [on_postgres], indirect=True)


def look(db, statement=ONE, times=1):
    """What the last of so many looks finds; from the second on a statement goes straight to the driver."""
    for _ in range(times):
        with db.read() as tx:
            found = tx.scalar(statement)
    return found


@on_a_server
def test_one_look_after_the_other_is_by_the_same_connection(database):
    db = database.open()
    look(db, WHO, times=3)
    assert len({look(db, WHO) for _ in range(5)}) == 1


@on_a_server
def test_a_connection_that_the_server_has_ended_is_not_used_again(database):
    db, other = database.open(), database.open()
    for _ in range(3):
        before = look(db, WHO, times=3)
        with other.read() as tx:
            assert tx.scalar(sa.text("SELECT pg_terminate_backend(:pid, 60000)"), {"pid": before})
        assert look(db, WHO) != before


def test_as_many_as_want_to_look_at_once_do(database):
    db, most = database.open(pool_size=2), 12
    look(db, times=3)
    # of four that may be open at once each is needed by several
    waiting, found, failed = threading.Barrier(most), [], []

    def looks():
        try:
            waiting.wait(60)
            found.extend(look(db) for _ in range(20))
        except sa.exc.SQLAlchemyError as error:
            failed.append(error)

    threads = [threading.Thread(target=looks) for _ in range(most)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert (failed, len(found)) == ([], 20 * most)
    if not database.is_sqlite:
        with db.write() as tx:
            assert tx.scalar(OURS) <= 2 + 1  # this one is of the other pool


@on_a_server
def test_a_look_that_fails_leaves_no_connection_behind(database):
    db = database.open(pool_size=1)
    for _ in range(5):
        with pytest.raises(KeyError), db.read() as tx:
            {}[tx.scalar(ONE)]
        with pytest.raises(sa.exc.DBAPIError), db.read() as tx:
            tx.scalar(sa.text("SELECT nothing FROM nowhere"))
        look(db, times=3)
    with db.write() as tx:
        assert tx.scalar(OURS) <= 1 + 1


@on_a_server
def test_a_database_that_is_closed_has_no_connection_left(database):
    other, db = database.open(), database.open(pool_size=3)
    db.open_connections(3)
    look(db, times=3)
    look(other, times=3)
    assert look(other, OURS) > 3
    db.close()
    # the server takes a moment to notice
    wait_until(lambda: look(other, OURS) <= 2)
