# SPDX-License-Identifier: Apache-2.0
"""Thirty users at once do everything to the same shares; none is told of an error of ours, and every sum is right."""

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from abaca import app
from abaca.db.administration import pools
from abaca.db.catalog import quotas
from abaca.db.shares import access_rules
from abaca.db.shares import share_instances as db_instances
from abaca.db.tables.catalog import share_types
from abaca.db.tables.shares import share_instances, shares
from abaca.domain.catalog import quotas as rules
from tests.api.world import PROJECT, world
from tests.conftest import wait_until
from tests.databases import on_postgres, on_sqlite, place
from tests.operations import theatre

pytestmark = pytest.mark.system

USERS = 30
TURNS = 60
SETTLED_S = 120
LIMITS = {"shares": 25, "gigabytes": 60}
NEWEST = {"x-openstack-manila-api-version": "2.99"}


@pytest.fixture(params=[on_sqlite, on_postgres])
def site(request, tmp_path):
    more = ""
    if request.param == "postgresql":
        more = f"[database]\nconnection = {place('postgresql', tmp_path, request).url}"
    with world(tmp_path, worker=True, more=more) as made:
        kind = {"name": "default", "extra_specs": {"driver_handles_share_servers": "False"}}
        assert made.ask("admin", "POST", "/types", {"share_type": kind}, **NEWEST).status == 200
        limits = made.ask("admin", "PUT", f"/quota-sets/{PROJECT}", {"quota_set": LIMITS}, **NEWEST)
        assert limits.status == 200, limits.body
        yield made


WISH = {"share_proto": "NFS", "size": 1, "metadata": {"k": "v"}}


class User:
    """Does one thing after another, each to a share that others use, too; `answers` counts what came back."""

    def __init__(self, site, number, ids):
        self.site = site
        self.dice = random.Random(number)
        self.ids = ids
        self.answers = Counter()
        self.broken = []

    def play(self, start):
        start.wait()
        for _ in range(TURNS):
            act = self.dice.choice(
                [
                    self.create,
                    self.create,
                    self.delete,
                    self.grow,
                    self.shrink,
                    self.allow,
                    self.deny,
                    self.look,
                    self.tag,
                ]
            )
            act()

    def ask(self, method, path, body=None):
        answer = self.site.ask("member", method, path, body, **NEWEST)
        self.answers[answer.status] += 1
        if answer.status >= 500:
            self.broken.append((method, path, body, answer.status, answer.body))
        return answer

    def any(self):
        return self.dice.choice(self.ids)

    def act(self, name, **said):
        return self.ask("POST", f"/shares/{self.any()}/action", {name: said})

    def create(self):
        wish = {"share_proto": "NFS", "size": self.dice.randint(1, 3), "metadata": {"k": "v"}}
        answer = self.ask("POST", "/shares", {"share": wish})
        if answer.status == 200:
            self.ids.append(answer.body["share"]["id"])

    def delete(self):
        self.ask("DELETE", f"/shares/{self.any()}")

    def grow(self):
        self.act("extend", new_size=self.dice.randint(2, 6))

    def shrink(self):
        self.act("shrink", new_size=self.dice.randint(1, 3))

    def allow(self):
        self.act("allow_access", access_type="ip", access_to=f"10.0.0.{self.dice.randint(1, 9)}")

    def deny(self):
        share = self.any()
        rules = self.ask("GET", f"/share-access-rules?share_id={share}").body.get("access_list")
        if rules:
            self.ask("POST", f"/shares/{share}/action", {"deny_access": {"access_id": self.dice.choice(rules)["id"]}})

    def look(self):
        self.ask("GET", "/shares/detail?limit=5&with_count=true")
        self.ask("GET", f"/shares/{self.any()}")
        self.ask("GET", f"/quota-sets/{PROJECT}/detail")

    def tag(self):
        self.ask("POST", f"/shares/{self.any()}/metadata", {"metadata": {f"k{self.dice.randint(1, 5)}": "v"}})


def test_a_crowd_leaves_everything_in_order(site):
    first = [
        site.ask("member", "POST", "/shares", {"share": {"share_proto": "NFS", "size": 1}}, **NEWEST) for _ in range(5)
    ]
    ids = [answer.body["share"]["id"] for answer in first]
    users = [User(site, number, ids) for number in range(USERS)]
    start = threading.Barrier(USERS)
    with ThreadPoolExecutor(USERS) as pool:
        for done in [pool.submit(user.play, start) for user in users]:
            done.result(SETTLED_S)
    assert [found for user in users for found in user.broken] == []
    answers = sum((user.answers for user in users), Counter())
    assert answers[200] + answers[202] > USERS, answers
    wait_until(lambda: site.number("SELECT count(*) FROM operations WHERE finished_at IS NULL") == 0, SETTLED_S)
    assert problems(site) == []
    in_use = site.ask("admin", "GET", f"/quota-sets/{PROJECT}/detail", **NEWEST).body["quota_set"]
    assert all(in_use[name]["in_use"] <= limit for name, limit in LIMITS.items())


@pytest.mark.parametrize(("action", "asked", "used"), [("extend", 7, 7), ("extend", 6, 6), ("shrink", 3, 2)])
def test_a_size_that_changes_meanwhile_is_the_one_that_counts(site, action, asked, used):
    """Somebody else's resize ends between a request's look at the size and its own move of the status."""
    wish = {"share_proto": "NFS", "size": 2 if action == "extend" else 6}
    share = site.ask("member", "POST", "/shares", {"share": wish}, **NEWEST).body["share"]["id"]
    site.settle()
    size = {"extend": 6, "shrink": 2}[action]
    with ThreadPoolExecutor(1) as pool:
        with site.db.write() as tx:
            tx.execute(sa.update(share_instances).where(share_instances.c.share_id == share).values(updated_at=tx.now))
            tx.execute(sa.update(shares).where(shares.c.id == share).values(size=size))
            more = {"gigabytes": size - wish["size"]}
            quotas.take(tx, PROJECT, "member", kind_of(tx, share), more, dict.fromkeys(rules.RESOURCES, -1))
            pools.claim_anyway(tx, "testhost@alpha#pool1", size - wish["size"])
            path = f"/shares/{share}/action"
            answer = pool.submit(site.ask, "member", "POST", path, {action: {"new_size": asked}}, **NEWEST)
            wait_until(lambda: is_waiting(site) or answer.done())
        status = answer.result(SETTLED_S).status
    site.settle()
    assert status == (202 if asked > size and action == "extend" else 400)
    assert site.ask("member", "GET", f"/shares/{share}", **NEWEST).body["share"]["size"] == used
    with site.db.read() as tx:
        assert theatre.counted_wrong(tx) == []


def made(site):
    """A new share's id."""
    return site.ask("member", "POST", "/shares", {"share": WISH}, **NEWEST).body["share"]["id"]


def meanwhile(site, change, method, path, body=None):
    """The answer to a request that began before, and went on after, `change(tx)` was committed."""
    with ThreadPoolExecutor(1) as pool:
        with site.db.write() as tx:
            change(tx)
            answer = pool.submit(site.ask, "member", method, path, body, **NEWEST)
            wait_until(lambda: is_waiting(site) or answer.done())
        return answer.result(SETTLED_S)


def gone(share_id):
    """As the end of a deletion leaves it, but for the counts."""

    def change(tx):
        for table, key in ((share_instances, "share_id"), (shares, "id")):
            tx.execute(sa.delete(table).where(table.c[key] == share_id))

    return change


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "", {"share": {"display_name": "late"}}),
        ("DELETE", "", None),
        ("POST", "/action", {"allow_access": {"access_type": "ip", "access_to": "10.0.0.1"}}),
        ("POST", "/action", {"extend": {"new_size": 9}}),
        ("POST", "/action", {"soft_delete": None}),
        ("POST", "/metadata", {"metadata": {"k": "w"}}),
        ("PUT", "/metadata", {"metadata": {"k": "w"}}),
        ("DELETE", "/metadata/k", None),
    ],
)
def test_what_is_gone_meanwhile_is_not_there(site, method, path, body):
    share = made(site)
    site.settle()
    answer = meanwhile(site, gone(share), method, f"/shares/{share}{path}", body)
    assert answer.status in (200, 202, 400, 403, 404, 409), answer.body
    assert site.ask("member", "GET", f"/shares/{share}", **NEWEST).status == 404


def test_a_share_of_a_type_that_goes_meanwhile_is_refused(site):
    kind = {"name": "brief", "extra_specs": {"driver_handles_share_servers": "False"}}
    made = site.ask("admin", "POST", "/types", {"share_type": kind}, **NEWEST).body["share_type"]["id"]
    wish = {"share": {**WISH, "share_type": made}}

    def change(tx):
        tx.execute(sa.delete(share_types).where(share_types.c.id == made))

    answer = meanwhile(site, change, "POST", "/shares", wish)
    assert answer.status in (400, 404, 409), answer.body
    assert site.number("SELECT count(*) FROM shares") == 0


def test_a_rule_that_is_added_while_its_share_goes_blocks_nobody(site):
    """Both lock the share, its rules and its instance, in this order."""
    share = made(site)
    site.settle()
    rule = {"access_type": "ip", "access_to": "10.0.0.1", "client": "10.0.0.1", "access_level": "rw"}
    with ThreadPoolExecutor(1) as pool:
        with site.db.write() as tx:
            tx.row(sa.select(share_instances).where(share_instances.c.share_id == share))
            if not site.db.is_sqlite:
                access_rules.add(tx, share, rule)
                # the deletion waits for the share's row
                deleting = pool.submit(site.ask, "member", "DELETE", f"/shares/{share}", **NEWEST)
                wait_until(lambda: is_waiting(site))
            db_instances.sync_rules(tx, share)
        assert site.db.is_sqlite or deleting.result(SETTLED_S).status == 202
    site.settle()
    if not site.db.is_sqlite:
        assert site.number("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == 0
        assert site.ask("member", "GET", f"/shares/{share}", **NEWEST).status == 404


def kind_of(tx, share_id):
    return tx.scalar(sa.select(share_instances.c.share_type_id).where(share_instances.c.share_id == share_id))


def is_waiting(site):
    """Whether a transaction waits for a lock; on SQLite nobody can tell, and nothing was read before the lock."""
    return site.db.is_sqlite or site.number("SELECT count(*) FROM pg_locks WHERE NOT granted") > 0


def problems(site):
    """What is not as it should be: in the database by itself, and beside what the back end holds."""
    (backend,) = site.settings.backends
    driver = app.driver(site.settings, backend)
    driver.start()
    held = driver.contents().get("instance", {})
    driver.stop()
    with site.db.read() as tx:
        query = sa.select(share_instances, shares.c.size).join(shares, shares.c.id == share_instances.c.share_id)
        known = {row.id: row for row in tx.rows(query)}
        found = [*theatre.stuck(tx), *theatre.counted_wrong(tx)]
        found += [f"only the back end knows {key}" for key in held.keys() - known.keys()]
        for key, row in known.items():
            found += theatre.differs(row, held.get(key), theatre.rules_of(tx, row.id))
    return found
