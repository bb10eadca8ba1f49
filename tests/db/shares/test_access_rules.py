# SPDX-License-Identifier: Apache-2.0
"""A share has one rule for a client, whoever comes first, and in whatever form it was written."""

import contextlib
import datetime
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from abaca.db.engine import schema
from abaca.db.engine.database import Database
from abaca.db.shares import access_rules, shares
from tests.conftest import wait_until
from tests.databases import on_postgres, on_sqlite

NOON = datetime.datetime(2026, 3, 9, 12)  # noqa: DTZ001 (naive UTC, as in all tables)
SHARE = "01a203aa-0000-7000-8000-000000000001"
OTHER_SHARE = "01a203aa-0000-7000-8000-000000000002"


def rule(access_to, client, kind="ip"):
    return {"access_type": kind, "access_to": access_to, "client": client, "access_level": "rw"}


def a_share(db, share_id=SHARE):
    with db.write() as tx:
        shares.add(tx, {"id": share_id, "project_id": "p", "size": 1, "share_proto": "NFS", "metadata": {}})


@pytest.fixture
def db(database):
    opened = database.open()
    a_share(opened)
    a_share(opened, OTHER_SHARE)
    yield opened
    opened.close()


def add(db, *args, share_id=SHARE):
    with db.write() as tx:
        return access_rules.add(tx, share_id, rule(*args))


def test_another_form_of_the_same_client_is_taken(db):
    add(db, "10.44.0.7", "10.44.0.7")
    with pytest.raises(access_rules.Taken):
        add(db, "10.44.0.7/32", "10.44.0.7")
    add(db, "10.44.0.7/32", "10.44.0.7", share_id=OTHER_SHARE)
    add(db, "10.44.0.7", "10.44.0.7", "cephx")


def test_of_two_at_once_one_is_taken(db):
    """The second sees nothing of the first before it is committed."""
    with ThreadPoolExecutor(1) as pool:
        with db.write() as tx:
            access_rules.add(tx, SHARE, rule("10.44.0.7", "10.44.0.7"))
            second = pool.submit(add, db, "10.44.0.7/32", "10.44.0.7")
            wait_until(lambda: db.is_sqlite or is_waiting(db))
        with pytest.raises(access_rules.Taken):
            second.result(20)


def is_waiting(db):
    with db.read() as tx:
        return tx.scalar(sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")) > 0


BEFORE = (
    # id, share, as it was stored, level, made for, denied; and what becomes of it: client and level, or nothing
    ("alone", SHARE, "10.1.0.0/16", "ro", None, False, ("10.1.0.0/16", "ro")),
    ("single", SHARE, "10.44.0.6/32", "ro", None, False, ("10.44.0.6", "ro")),
    ("elder", SHARE, "10.44.0.7/32", "ro", None, False, ("10.44.0.7", "rw")),
    ("younger", SHARE, "10.44.0.7", "rw", None, False, None),
    ("elsewhere", OTHER_SHARE, "10.44.0.7", "rw", None, False, ("10.44.0.7", "rw")),
    ("mapped", SHARE, "::ffff:102:304", "rw", None, False, ("1.2.3.4", "rw")),
    ("plain", SHARE, "1.2.3.4", "ro", "attachments", False, None),
    ("going", SHARE, "2001:db8::7/128", "rw", None, True, None),
    ("staying", SHARE, "2001:db8::7", "ro", None, False, ("2001:db8::7", "ro")),
    ("wide", SHARE, "2001:db8::/32", "ro", None, False, ("2001:db8::/32", "ro")),
)


@pytest.mark.parametrize("database_url", [on_sqlite, on_postgres], indirect=True)
def test_rules_of_the_release_before_for_one_client_become_one(database_url):
    """It lets in as far as the back end did with both, and has the locks of both."""
    schema.upgrade(database_url, "0004")
    engine = schema.migration_engine(sa.make_url(database_url))
    found = sa.MetaData()
    with engine.begin() as connection:
        found.reflect(connection)
        for share_id in (SHARE, OTHER_SHARE):
            share = {"id": share_id, "project_id": "p", "size": 1, "share_proto": "NFS", "created_at": NOON}
            traits = {one.name: False for one in found.tables["shares"].c if one.name.endswith("_support")}
            flags = {"is_public": False, "is_soft_deleted": False, "metadata": {}}
            connection.execute(sa.insert(found.tables["shares"]), {**share, **traits, **flags})
        for second, (name, share_id, to, level, made_for, is_denied, _) in enumerate(BEFORE):
            row = {"id": name, "share_id": share_id, "access_type": "ip", "access_to": to, "access_level": level}
            at = {"created_at": NOON + datetime.timedelta(seconds=second), "metadata": {}}
            more = {"made_for": made_for, "is_denied": is_denied, **at}
            connection.execute(sa.insert(found.tables["access_rules"]), {**row, **more})
        lock = {"id": "lock", "project_id": "p", "user_id": "u", "lock_context": "user", "share_id": SHARE}
        of = {"access_rule_id": "younger", "resource_type": "access_rule", "resource_id": "younger"}
        connection.execute(
            sa.insert(found.tables["resource_locks"]), {**lock, **of, "resource_action": "delete", "created_at": NOON}
        )
    engine.dispose()
    schema.upgrade(database_url)
    with contextlib.closing(Database(database_url)) as db, db.read() as tx:
        rows = tx.rows(sa.text("SELECT id, access_to, client, access_level FROM access_rules"))
        locked = tx.scalar(sa.text("SELECT access_rule_id FROM resource_locks"))
        held = tx.scalar(sa.text("SELECT resource_id FROM resource_locks"))
    expected = {name: (to, *after) for name, _, to, _, _, _, after in BEFORE if after}
    assert {row.id: tuple(row)[1:] for row in rows} == expected
    assert (locked, held) == ("elder", "elder")
    schema.downgrade(database_url, "0004")
    with contextlib.closing(Database(database_url)) as db, db.read() as tx:
        rows = tx.rows(sa.text("SELECT access_to FROM access_rules"))
    assert sorted(row.access_to for row in rows) == sorted(after[0] for *_, after in BEFORE if after)


@pytest.fixture
def database_url(request, tmp_path):
    if request.param == "postgresql":
        return request.getfixturevalue("postgres").create_database(f"rules_{tmp_path.name[-1]}")
    return f"sqlite:///{tmp_path / 'abaca.sqlite'}"
