# SPDX-License-Identifier: Apache-2.0
"""An attachment that is accepted in the moment in which its share's rules come into force hears of that."""

import threading

import pytest
import sqlalchemy as sa

from tests.conftest import wait_until
from tests.databases import database, on_postgres, postgres  # noqa: F401 (fixtures)
from tests.operations import cases

LIVE = "SELECT count(*) FROM operations WHERE state IN ('queued', 'running', 'waiting')"
# Who writes down that an operation waits is held up until the gate opens.
GATE = 4711
GUARD = (
    f"""CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_advisory_xact_lock_shared({GATE}); RETURN NEW; END $$""",
    "CREATE TRIGGER gate BEFORE INSERT ON operation_waits FOR EACH ROW EXECUTE FUNCTION gate()",
)


@pytest.mark.parametrize("database", [on_postgres], indirect=True)
def test_it_is_in_use_though_its_rule_came_into_force_while_it_was_accepted(theatre):
    theatre.enter()
    prepared = cases.a_share_and_a_server(theatre)
    server = theatre.ask("GET", f"//abaca/v1/servers/{prepared[1]}")["server"]
    theatre.leave()
    cases.allow(theatre, prepared[0], server["addresses"][0]["ip"])
    with theatre.db.write() as tx:
        for one in GUARD:
            tx.execute(sa.text(one))
    made = []
    accepting = threading.Thread(target=lambda: made.append(cases.attach(theatre, prepared)))
    with theatre.db.write() as tx:
        tx.execute(sa.text(f"SELECT pg_advisory_xact_lock({GATE})"))
        accepting.start()
        wait_until(lambda: theatre.waiting() == 1)
        theatre.enter()
        wait_until(lambda: theatre.waiting() == 2 or theatre.world.number(LIVE) == 0)
    accepting.join(60)
    cases.until_attached(theatre, made[0])
    shown = theatre.ask("GET", f"//abaca/v1/attachments/{made[0]}")["attachment"]
    assert shown["state"] == "active"
