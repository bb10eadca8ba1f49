# SPDX-License-Identifier: Apache-2.0
"""The dummy driver takes its time and fails as ordered, and all workers of a back end see one set of things."""

import subprocess
import sys
import time

import pytest

from abaca.drivers import contract
from abaca.drivers.contract import promises
from abaca.drivers.dummy import Dummy
from abaca.drivers.dummy.state_file import StateFile
from tests.drivers.harness import DummyHarness, rules, snapshot


@pytest.fixture
def dummy():
    """A back end of its own, started with whatever options the test wants."""
    made = DummyHarness()
    yield made
    made.close()


def test_a_failure_happens_as_often_as_ordered_by_whatever_worker(dummy):
    driver = dummy.start(failures="create:Unreachable:3")
    instance = dummy.instance()
    for _ in range(2):
        with pytest.raises(contract.Unreachable):
            driver.create(instance)
    driver = dummy.start(failures="create:Unreachable:3")
    with pytest.raises(contract.Unreachable):
        driver.create(instance)
    assert dummy.held() == set()
    driver.create(instance)
    assert dummy.held() == {instance.id}


def test_a_failure_without_a_number_happens_always(dummy):
    driver = dummy.start(failures="delete:Refused")
    instance = dummy.instance()
    driver.create(instance)
    for _ in range(5):
        with pytest.raises(contract.Refused):
            driver.delete(instance)
    assert dummy.held() == {instance.id}


def test_a_failure_after_the_effect_is_an_answer_that_got_lost(dummy):
    driver = dummy.start(failures="create:Busy:1:after")
    instance = dummy.instance()
    with pytest.raises(contract.Busy):
        driver.create(instance)
    assert dummy.held() == {instance.id}
    assert driver.create(instance)


def test_a_start_can_fail_too(dummy):
    with pytest.raises(contract.Unreachable):
        dummy.start(failures="start:Unreachable:1")
    dummy.driver.start()


def test_a_method_takes_the_time_that_was_ordered_for_it(dummy):
    driver = dummy.start(delays="create:0.06,all:0.02")
    instance = dummy.instance()
    times = []
    for call in (driver.create, driver.delete):
        started = time.monotonic()
        call(instance)
        times.append(time.monotonic() - started)
    assert times[0] >= 0.06 > times[1] >= 0.02


def test_a_worker_killed_in_the_middle_leaves_all_or_nothing(dummy):
    dummy.start()
    code = (
        "import os, sys, uuid; from pathlib import Path; from abaca.drivers import contract, load\n"
        "b = contract.Backend(name='b1', host='h@b1', share_backend_name='B1', state_dir=Path(sys.argv[1]))\n"
        "d = load.driver(b, 'dummy', {'pool_count': '2'}); d.start()\n"
        "while True:\n"
        "    i = str(uuid.uuid4())\n"
        "    more = {'share_id': i, 'project_id': 'p', 'size_gib': 2, 'protocol': 'NFS', 'pool': 'pool1'}\n"
        "    d.create(contract.ShareInstance(id=i, **more))\n"
        "    os.write(1, b'.')\n"
    )
    argv = [sys.executable, "-c", code, str(dummy.directory)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as worker:
        worker.stdout.read(20)
        worker.kill()
    assert len(dummy.held()) >= 20
    assert dummy.driver.pools()[0].allocated_gib == 2 * len(dummy.held())


def test_it_remembers_exactly_what_it_was_told_to_hold(dummy):
    driver = dummy.start()
    instance = dummy.instance(size_gib=3, pool="pool2")
    driver.create(instance)
    driver.set_access(instance, rules("10.0.0.2 ro", "10.0.0.1 rw"))
    taken = snapshot(instance)
    driver.create_snapshot(taken)
    contents = driver.contents()
    entry = contents["instance"][instance.id]
    assert (entry["size_gib"], entry["pool"]) == (3, "pool2")
    assert entry["rules"] == [["ip", "10.0.0.1", "rw"], ["ip", "10.0.0.2", "ro"]]
    assert contents["snapshot"][taken.id]["instance_id"] == instance.id
    driver.delete_snapshot(taken)
    driver.delete(instance)
    assert driver.contents() == {}


def test_an_unknown_pool_is_refused(dummy):
    driver = dummy.start()
    with pytest.raises(contract.Refused, match="pool3"):
        driver.create(dummy.instance(pool="pool3"))


def test_thin_pools_are_promised_beyond_their_size_and_thick_ones_are_not(dummy):
    for thin, most in (("false", 1000), ("true", 2000)):
        driver = dummy.start(thin_provisioning=thin)
        driver.create(first := dummy.instance(size_gib=most))
        with pytest.raises(contract.Full):
            driver.create(dummy.instance(size_gib=1))
        driver.delete(first)


def test_it_promises_everything_that_can_be_promised():
    others = {contract.EnsuresEach, contract.ClonesSnapshotsAtOnce, contract.RevertsAtOnce}
    assert set(promises.every()) - others == set(promises.of(Dummy))


def test_a_driver_that_is_not_started_says_so(dummy):
    with pytest.raises(contract.Unreachable, match="not started"):
        dummy.build().pools()


def test_a_ledger_whose_disk_is_full_can_be_reached_again_later(tmp_path):
    """SQLite's own limit on the pages of a file is told by it as a full disk is."""
    held = StateFile(tmp_path / "ledger.sqlite")
    held.open()
    with held.change() as records:
        records._db.execute("PRAGMA max_page_count = 8")

    def fill():
        with held.change() as records:
            for number in range(100):
                records.put("instance", str(number), {"content": "x" * 4000})

    with pytest.raises(contract.Unreachable, match="disk is full"):
        fill()
    with held.change() as records:
        assert records.all("instance") == {}
        records.put("instance", "one", {})
    held.close()
