# SPDX-License-Identifier: Apache-2.0
"""Scrapes take little of the database, however much there is to count and however many ask."""

import pytest

from abaca.app.figures import Certificates, Devices, Kept
from abaca.db.administration import pools
from abaca.db.engine import schema
from abaca.db.engine.database import Database
from abaca.drivers import contract


@pytest.fixture
def db(tmp_path):
    db = Database(f"sqlite:///{tmp_path / 'abaca.sqlite'}")
    schema.create_if_empty(db)
    yield db
    db.close()


class Counting:
    """Counts its runs, each of which takes so long by its own clock."""

    def __init__(self, takes_s):
        self.takes_s = takes_s
        self.now_s = 1000.0
        self.runs = 0
        self.kept = Kept(self.count, lambda: self.now_s)

    def count(self):
        self.now_s += self.takes_s
        self.runs += 1
        return self.runs


def test_what_is_counted_at_once_is_counted_each_time():
    one = Counting(0.01)
    assert [one.kept.get() for _ in range(3)] == [1, 2, 3]


def test_what_takes_long_is_known_for_two_hundred_times_as_long():
    one = Counting(0.5)
    assert one.kept.get() == 1
    one.now_s += 99
    assert one.kept.get() == 1
    one.now_s += 2
    assert one.kept.get() == 2


def test_what_could_not_be_counted_is_tried_again():
    one = Counting(0.5)
    one.kept = Kept(lambda: 1 // (one.count() - 1), lambda: one.now_s)
    with pytest.raises(ZeroDivisionError):
        one.kept.get()
    assert one.kept.get() == 1


def test_a_scrape_tells_when_the_first_certificate_of_a_pool_ends(db):
    told = {contract.CERTIFICATES_END_AT: "2031-01-02T03:04:05+00:00"}
    stats = [
        contract.PoolStats(name="gold", total_gib=1.0, free_gib=1.0, capabilities=told),
        contract.PoolStats(name="red", total_gib=1.0, free_gib=1.0),
    ]
    with db.write() as tx:
        pools.report(tx, "here@gluster", stats, tx.now)
    (end,) = Certificates(db).collect()
    assert [(one.labels, one.value) for one in end.samples] == [({"pool": "here@gluster#gold"}, 1925089445.0)]


def test_a_scrape_tells_how_full_devices_are_and_whether_they_serve(db):
    one = {"node": "n1", "device": "/dev/sdb", "total_gib": 2.0, "free_gib": 0.5, "is_online": True}
    told = {contract.DEVICES: [one, {**one, "node": "n2", "is_online": False}]}
    stats = [contract.PoolStats(name="gold", total_gib=2.0, free_gib=0.5, capabilities=told)]
    with db.write() as tx:
        pools.report(tx, "here@gluster", stats, tx.now)
    seen = {(of.name, one.labels["node"]): one.value for of in Devices(db).collect() for one in of.samples}
    assert seen == {
        ("abaca_device_bytes", "n1"): 2.0 * 2**30,
        ("abaca_device_bytes", "n2"): 2.0 * 2**30,
        ("abaca_device_free_bytes", "n1"): 0.5 * 2**30,
        ("abaca_device_free_bytes", "n2"): 0.5 * 2**30,
        ("abaca_device_online", "n1"): 1.0,
        ("abaca_device_online", "n2"): 0.0,
    }
