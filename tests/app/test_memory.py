# SPDX-License-Identifier: Apache-2.0
"""What has ended leaves nothing in the memory of the API and of the worker, however long they run."""

import gc
import threading

import pytest
import sqlalchemy as sa

from abaca import app
from abaca.db import tables
from tests.api import world as worlds
from tests.conftest import wait_until

NEWEST = {"x-openstack-manila-api-version": worlds.NEWEST}
LIVES = 20
ROUNDS = 2


@pytest.fixture
def here(tmp_path):
    """The API and a worker in this process, on SQLite."""
    (tmp_path / "metrics").touch()  # so that this process keeps none
    with worlds.world(tmp_path, worker=False) as made:
        specs = {"driver_handles_share_servers": "False"}
        made.ask("admin", "POST", "/types", {"share_type": {"name": "default", "extra_specs": specs}}, **NEWEST)
        worker = app.worker(made.settings)
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            wait_until(lambda: made.number("SELECT count(*) FROM pools"))
            made.has_worker = True
            yield made
        finally:
            worker.stop()
            thread.join()
            worker.db.close()


def live(here):
    """So many lives of shares at once: made, reached, grown, looked at, and gone; one is refused, and one fails."""
    wish = {"share": {"share_proto": "NFS", "size": 1, "metadata": {"k": "v"}}}
    made = [here.ask("member", "POST", "/shares", wish, **NEWEST).body["share"]["id"] for _ in range(LIVES)]
    here.settle()
    for number, share_id in enumerate(made):
        rule = {"allow_access": {"access_type": "ip", "access_to": f"10.0.0.{number}"}}
        assert here.ask("member", "POST", f"/shares/{share_id}/action", rule, **NEWEST).status == 200
    here.settle()
    for share_id in made:
        assert (
            here.ask("member", "POST", f"/shares/{share_id}/action", {"extend": {"new_size": 2}}, **NEWEST).status
            == 202
        )
    here.settle()
    assert len(here.ask("reader", "GET", "/shares/detail", **NEWEST).body["shares"]) == LIVES
    assert here.ask("member", "POST", "/shares", {"share": {"share_proto": "x", "size": 1}}, **NEWEST).status == 400
    for share_id in made:
        assert here.ask("member", "DELETE", f"/shares/{share_id}", **NEWEST).status == 202
    here.settle()
    assert here.ask("member", "GET", f"/shares/{made[0]}", **NEWEST).status == 404


def kept(ids):
    """Which of these texts anything in memory has, beside the set itself."""
    gc.collect()
    of_the_set = {id(one) for one in ids}
    todo, seen, found = gc.get_objects(), set(), set()
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, str):
            if one in ids and id(one) not in of_the_set:
                found.add(one)
        else:
            todo.extend(gc.get_referents(one))
    return found


def test_what_has_ended_leaves_nothing_in_memory(here):
    for _ in range(ROUNDS):
        live(here)
    with here.db.read() as tx:
        operations = {str(row.id) for row in tx.rows(sa.select(tables.journal.operations.c.id))}
        shares = {str(row.resource_id) for row in tx.rows(sa.select(tables.journal.operations.c.resource_id))}
    assert len(operations) >= ROUNDS * LIVES * 4
    # What was done last may be remembered, and what was done before for the moment in which the worker looks at it.
    for ids in (operations, shares):
        wait_until(lambda ids=ids: len(kept(ids)) < LIVES)
