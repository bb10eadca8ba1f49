# SPDX-License-Identifier: Apache-2.0
"""A project's count of metadata is what its shares, rules and export locations have, whatever is done to them."""

import contextlib
import itertools
import random

import pytest
import sqlalchemy as sa

from abaca.db.catalog import quotas
from abaca.db.tables import shares as tables
from tests.api.world import NEWEST, PROJECT, world
from tests.databases import database, postgres  # noqa: F401 (fixtures)
from tests.db.administration.test_pools import at_once
from tests.operations import cases
from tests.operations import theatre as stage

VERSION = {"x-openstack-manila-api-version": NEWEST}
OF_PROJECT = 2000
LIMITS = f"[limits]\nproject_metadata_characters = {OF_PROJECT}\n"
KEYS = ("a", "floor", "größe", 'a "quoted" \\ key', "🙂")
VALUES = ("v", "naïve", "line\nbreak", "🙂" * 7, "x" * 40)
ROUNDS, SEED = 4, 20


@pytest.fixture
def theatre(database, tmp_path):  # noqa: F811
    with contextlib.ExitStack() as stack:
        made = stage.Theatre(database, tmp_path, None, stack, "dummy\nensured_metadata = place:here")
        made.enter()
        yield made


def counted(theatre):
    """What is counted; it is what there is."""
    with theatre.db.read() as tx:
        assert quotas.differences(tx) == []
        used = tx.rows(
            sa.text("SELECT scope, metadata_characters FROM quota_usages WHERE project_id = :of"), {"of": PROJECT}
        )
    assert {row.metadata_characters for row in used if row.scope != "project"} <= {0}
    return sum(row.metadata_characters for row in used)


class User:
    """Changes metadata in every way there is, drawn by chance; what is refused is refused."""

    def __init__(self, theatre, seed):
        self.theatre = theatre
        self.random = random.Random(seed)
        self.numbers = itertools.count(1)
        self.done = set()
        self.acts = (
            self.create, self.create_near, self.of_share, self.rule, self.of_rule, self.of_location, self.ensure,
            self.deny, self.bin, self.delete,
        )  # fmt: skip

    def ask(self, method, path, body=None):
        answer = self.theatre.world.ask("admin", method, path, body, **VERSION)
        assert answer.status < 500, answer
        return (answer.body or True) if answer.status < 300 else None

    def pairs(self):
        return {key: self.random.choice(VALUES) for key in self.random.sample(KEYS, self.random.randint(0, 3))}

    def ids(self, table):
        with self.theatre.db.read() as tx:
            return [row.id for row in tx.rows(sa.select(table.c.id).order_by(table.c.id))]

    def act(self, act):
        if act() is not None:
            self.done.add(act)

    def one(self, table):
        found = self.ids(table)
        return self.random.choice(found) if found else "none"

    def create(self):
        return self.ask("POST", "/shares", {"share": {"share_proto": "NFS", "size": 1, "metadata": self.pairs()}})

    def create_near(self):
        hints = {"same_host": self.one(tables.shares)}
        return self.ask("POST", "/shares", {"share": {"share_proto": "NFS", "size": 1, "scheduler_hints": hints}})

    def write(self, path):
        method = self.random.choice(("POST", "PUT"))
        return self.ask(method, f"{path}/metadata", {"metadata": self.pairs()})

    def of_share(self):
        return self.write(f"/shares/{self.one(tables.shares)}")

    def rule(self):
        to = f"10.1.{next(self.numbers)}.1"
        allow = {"allow_access": {"access_type": "ip", "access_to": to, "metadata": self.pairs()}}
        return self.ask("POST", f"/shares/{self.one(tables.shares)}/action", allow)

    def of_rule(self):
        rule_id = self.one(tables.access_rules)
        self.ask("DELETE", f"/share-access-rules/{rule_id}/metadata/a")
        return self.ask("PUT", f"/share-access-rules/{rule_id}/metadata", {"metadata": self.pairs()})

    def of_location(self):
        location_id = self.one(tables.export_locations)
        found = self.ask("GET", f"/shares?export_location_id={location_id}")["shares"]
        return self.write(f"/shares/{found[0]['id']}/export_locations/{location_id}") if found else None

    def deny(self):
        rule_id = self.one(tables.access_rules)
        found = self.ask("GET", f"/share-access-rules/{rule_id}")
        if found is None:
            return None
        with self.theatre.db.read() as tx:
            share_id = tx.scalar(sa.select(tables.access_rules.c.share_id).where(tables.access_rules.c.id == rule_id))
        return self.ask("POST", f"/shares/{share_id}/action", {"deny_access": {"access_id": rule_id}})

    def bin(self):
        share_id = self.one(tables.shares)
        self.ask("POST", f"/shares/{share_id}/action", {"soft_delete": None})
        return self.ask("POST", f"/shares/{share_id}/action", {"restore": None})

    def ensure(self):
        self.theatre.settle()
        with self.theatre.db.write() as tx:
            tx.execute(sa.update(tables.export_locations).values(path="10.9.9.9:/elsewhere"))
        self.ask("POST", "/services/ensure-shares", {"host": "testhost@alpha"})
        self.theatre.settle()
        return True

    def delete(self):
        return self.ask("DELETE", f"/shares/{self.one(tables.shares)}")


def test_what_is_counted_is_what_there_is_however_it_is_changed(theatre):
    user = User(theatre, SEED)
    for act in user.acts:
        user.act(act)
        theatre.settle()
    assert user.done == set(user.acts)
    most = counted(theatre)
    for _ in range(ROUNDS):
        for act in user.random.sample(user.acts * 2, 15):
            user.act(act)
        theatre.settle()
        most = max(most, counted(theatre))
    assert most > 50
    theatre.settle()
    for share_id in user.ids(tables.shares):
        user.ask("POST", f"/shares/{share_id}/action", {"force_delete": None})
    theatre.settle()
    assert (user.ids(tables.shares), counted(theatre)) == ([], 0)


def test_a_rule_that_attachments_take_over_leaves_no_count(theatre):
    share_id, server_id = cases.a_share_and_a_server(theatre)
    attachment_id = cases.until_attached(theatre, cases.attach(theatre, (share_id, server_id)))
    path = f"//abaca/v1/attachments/{attachment_id}"
    (address,) = theatre.ask("GET", path)["attachment"]["addresses"]
    before = counted(theatre)
    cases.detach(theatre, attachment_id)
    theatre.settle()
    allow = {"access_type": "ip", "access_to": address, "metadata": {"k": "v" * 9}}
    rule_id = cases.act(theatre, share_id, allow_access=allow)["access"]["id"]
    theatre.settle()
    cases.until_attached(theatre, cases.attach(theatre, (share_id, server_id)))
    assert counted(theatre) == before + 10
    cases.act(theatre, share_id, deny_access={"access_id": rule_id})
    assert counted(theatre) == before


def test_of_many_at_once_no_more_come_in_than_the_project_can_have(database, tmp_path):  # noqa: F811
    connection = "" if database.is_sqlite else f"[database]\nconnection = {database.url}\n"
    body = {"share": {"share_proto": "NFS", "size": 1, "metadata": {"k": "v" * (OF_PROJECT // 4 - 1)}}}
    with world(tmp_path, worker=False, more=LIMITS + connection) as here:
        found = at_once(9, lambda: here.ask("member", "POST", "/shares", body, **VERSION).status)
    assert sorted(found) == [200] * 4 + [413] * 5
