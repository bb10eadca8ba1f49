# SPDX-License-Identifier: Apache-2.0
"""Pages go by an index that has their order, whatever the databases believe about the sizes of projects."""

import datetime
import re

import pytest
import sqlalchemy as sa

from abaca.db.administration import resource_locks
from abaca.db.engine.lists import Page
from abaca.db.shares import export_location_history, shares
from abaca.db.shares import share_instances as instances
from abaca.db.tables import administration as administration_tables
from abaca.db.tables.shares import access_rules, instance_access_rules, share_instances
from tests import planting
from tests.databases import on_postgres
from tests.db.watched import Watched

START = datetime.datetime(2026, 1, 1)  # noqa: DTZ001
ONE_PROJECT, ALL_PROJECTS = "ix_shares_project_id_created_at_id", "ix_shares_created_at_id"
COLUMNS = ("id", "name", "status", "has_replicas", "share_type_name")


@pytest.fixture
def db(database):
    """Three thousand shares of one project, younger than the three of another."""
    opened = database.open()
    numbers = [(n, "small" if n < 3 else "large") for n in range(3003)]
    at = {n: START + datetime.timedelta(seconds=n) for n, _ in numbers}
    with planting.by_hand(opened) as tx:
        for n, project in numbers:
            shares.add(
                tx,
                {"id": f"s{n}", "project_id": project, "size": 1, "share_proto": "NFS", "name": f"n{n}"}
                | {"created_at": at[n]},
            )
        fixed = {
            "status": "available",
            "status_rank": 1,
            "host": "host@backend#pool",
            "access_rules_status": "active",
            "cast_rules_to_readonly": False,
        }
        tx.execute(
            sa.insert(share_instances),
            [{"id": f"i{n}", "share_id": f"s{n}", "created_at": at[n], **fixed} for n, _ in numbers],
        )
        rule = {"access_type": "ip", "access_to": "10.0.0.1", "client": "10.0.0.1"}
        rule |= {"access_level": "rw", "metadata": {}}
        tx.execute(
            sa.insert(access_rules),
            [{"id": f"r{n}", "share_id": f"s{n}", "created_at": at[n], **rule} for n, _ in numbers],
        )
        tx.execute(
            sa.insert(instance_access_rules).values(state="active"),
            [{"access_rule_id": f"r{n}", "share_instance_id": f"i{n}", "created_at": at[n]} for n, _ in numbers],
        )
    with opened.read() as tx:
        tx.connection.exec_driver_sql("ANALYZE")
    return opened


def plan(db, page, **asked):
    """How the database gets that page."""
    asked = {"is_soft_deleted": False, **asked}
    return plan_of(db, lambda tx: shares.SHARES.rows(tx, COLUMNS, asked, page), "ORDER BY")


def plan_of(db, ask, word):
    """How the database finds what `ask(tx)` wants, once it has seen that statement often: the one with `word` in it."""
    with db.read() as tx:
        driver = tx.connection.connection.dbapi_connection
        for _ in range(10):
            ask(tx)
        if tx.dialect == "sqlite":
            said = []
            driver.set_trace_callback(said.append)
            ask(tx)
            driver.set_trace_callback(None)
            found = driver.execute(f"EXPLAIN QUERY PLAN {said[-1]}")
            return "\n".join(row[3] for row in found)
        prepared = driver.execute(
            "SELECT name, cardinality(parameter_types) FROM pg_prepared_statements WHERE strpos(statement, %s) > 0",
            [word],
        ).fetchone()
        if prepared is None:  # it is planned for its values each time
            watched = Watched()
            watched.watch(driver)
            ask(tx)
            (seen,) = (one for one in watched.statements(db) if word in one.text)
            return "\n".join(seen.lines)
        name, types = prepared
        values = f"({', '.join(['NULL'] * types)})" if types else ""
        return "\n".join(row[0] for row in driver.execute(f"EXPLAIN EXECUTE {name}{values}"))


def used(found):
    all_are_read = re.search(r"Sort|TEMP B-TREE|Seq Scan on shares\b", found)
    return set(re.findall(r"\b(ix_shares_\w+)", found)), all_are_read is not None


@pytest.mark.parametrize("project", ["small", "large"])
@pytest.mark.parametrize("page", [Page(50), Page(300), Page(50, marker="s2")], ids=["50", "300", "after"])
def test_a_page_of_a_project_goes_by_the_projects_index(db, project, page):
    assert used(plan(db, page, project_id=project)) == ({ONE_PROJECT}, False)


@pytest.fixture
def own_words(db):
    """A tenth of the shares is of a project that has descriptions of its own, five of fifty."""
    number = "CAST(substr(id, 2) AS integer)"
    of_it = "UPDATE shares SET project_id = 'tenth', description = 'Ours ' || {0} / 10 % 5 WHERE {0} % 10 = 0"
    of_others = "UPDATE shares SET description = 'Theirs ' || {0} % 45 WHERE {0} % 10 <> 0"
    with planting.by_hand(db) as tx:
        for statement in (of_it, of_others):
            tx.connection.execute(sa.text(statement.format(number)))
    with db.read() as tx:
        tx.connection.exec_driver_sql("ANALYZE")
    return db


@pytest.mark.parametrize("database", [on_postgres], indirect=True)
@pytest.mark.parametrize("described", ["Ours 0", "Ours 4"])
def test_what_one_project_alone_calls_its_shares_is_not_thought_rare_there(own_words, described):
    assert used(plan(own_words, Page(10), project_id="tenth", description=described)) == ({ONE_PROJECT}, False)


def test_a_page_over_all_projects_goes_by_the_index_over_all(db):
    assert used(plan(db, Page(50))) == ({ALL_PROJECTS}, False)


def test_counting_is_planned_for_the_project(db):
    with db.read() as tx:
        for _ in range(10):
            assert shares.SHARES.count(tx, {"project_id": "small", "is_soft_deleted": False}) == 3
            assert shares.SHARES.count(tx, {"project_id": "large", "status": "available"}) == 3000


def test_rules_on_their_way_are_found_without_reading_every_instance(db):
    found = plan_of(db, lambda tx: instances.rules_without_operation(tx, "host@backend"), "UNION")
    assert {"ix_instance_access_rules_state", "ix_share_instances_access_rules_status"} <= set(
        re.findall(r"ix_\w+", found)
    )
    assert not re.search(r"Seq Scan (on )?share_instances|SCAN share_instances\b|ix_share_instances_host", found)


@pytest.fixture
def unknown(database):
    """A database that knows nothing of the sizes of its tables."""
    return database.open()


def test_many_instances_are_moved_by_their_ids_whatever_their_number_in_a_status(unknown):
    ids = [f"i{n}" for n in range(500)]
    for ask, word in (
        (lambda tx: instances.move_many(tx, ids, "ensure"), "UPDATE share_instances"),
        (lambda tx: instances.hold_many(tx, ids, ["available", "ensuring"]), "FROM share_instances"),
    ):
        assert "ix_share_instances_status" not in plan_of(unknown, ask, word)


def test_a_back_end_is_gone_through_without_reading_what_others_have(unknown):
    def ask(tx):
        return instances.page_by_pools(tx, "host@backend", ("host@backend#pool", "i7"), 100)

    found = plan_of(unknown, ask, "FROM share_instances")
    assert "ix_share_instances_host_id" in found
    assert not re.search(r"Sort|TEMP B-TREE|SCAN|Seq Scan", found)


def test_export_locations_end_by_their_ids_and_old_ones_are_found_by_their_end(unknown):
    cause = export_location_history.Cause("operation", "backend-ensure")
    ids = [f"l{n}" for n in range(500)]
    found = plan_of(unknown, lambda tx: export_location_history.end(tx, ids, cause), "UPDATE export_location_history")
    assert "ix_export_location_history_until" not in found
    found = plan_of(unknown, lambda tx: export_location_history.purge(tx, START, 100), "DELETE FROM export_location")
    assert "ix_export_location_history_until" in found or not unknown.is_sqlite  # PostgreSQL knows that it is empty


LOCK = {"user_id": "u", "lock_context": "user", "lock_reason": "keep"}
LOCKS_OF_ONE, LOCKS_OF_ALL = "ix_resource_locks_project_id_created_at_id", "ix_resource_locks_created_at_id"


@pytest.fixture
def locked(db):
    """Many shares are locked by their projects, and many rules hidden; one share has very many locks."""
    ids = {"share_id": "s0", "resource_id": "s0", "resource_type": "share", "resource_action": "delete"}
    rows = [LOCK | ids | {"project_id": "many", "id": f"m{n}", "created_at": START} for n in range(500)]
    for n in range(500):
        whose = LOCK | {"project_id": "small" if n < 3 else "large", "share_id": f"s{n}", "created_at": START}
        on_share = {"id": f"a{n}", "resource_type": "share", "resource_id": f"s{n}", "resource_action": "delete"}
        on_rule = {"id": f"b{n}", "resource_type": "access_rule", "resource_id": f"r{n}", "resource_action": "show"}
        rows += [whose | on_share | {"access_rule_id": None}, whose | on_rule | {"access_rule_id": f"r{n}"}]
    with db.write() as tx:
        tx.execute(sa.insert(administration_tables.resource_locks), [{"access_rule_id": None, **row} for row in rows])
    with db.read() as tx:
        tx.connection.exec_driver_sql("ANALYZE")
    return db


def lock_plan(db, page, asked):
    columns = ("id", "lock_reason")
    found = plan_of(db, lambda tx: resource_locks.LOCKS.rows(tx, columns, asked, page), "ORDER BY")
    return set(re.findall(r"ix_resource_locks_\w+", found)), re.search(r"Sort|TEMP B-TREE|Seq Scan", found) is not None


@pytest.mark.parametrize("page", [Page(50), Page(50, marker="a2")], ids=["50", "after"])
def test_a_page_of_a_projects_locks_goes_by_the_projects_index(locked, page):
    assert lock_plan(locked, page, {"project_id": "small"}) == ({LOCKS_OF_ONE}, False)


def test_a_page_of_all_projects_locks_goes_by_the_index_over_all(locked):
    assert lock_plan(locked, Page(50), {}) == ({LOCKS_OF_ALL}, False)


@pytest.mark.parametrize(
    ("ask", "index"),
    [
        (lambda tx: resource_locks.of_share(tx, "s7"), "share_id"),
        (lambda tx: resource_locks.hiding(tx, "s7"), "share_id"),
        (lambda tx: resource_locks.of_rule(tx, "r7", "delete"), "access_rule_id"),
        (lambda tx: resource_locks.LOCKS.rows(tx, ("id",), {"resource_id": "r7"}), "resource_id"),
    ],
    ids=["share", "hidden", "rule", "resource"],
)
def test_what_locks_a_thing_is_looked_up(locked, ask, index):
    assert f"ix_resource_locks_{index}" in plan_of(locked, ask, "FROM resource_locks")
