# SPDX-License-Identifier: Apache-2.0
"""Where a driver ensures shares one by one, several are under way at once, and one that fails fails no other."""

import contextlib
import threading

import pytest

from abaca import errors
from abaca.drivers import contract
from abaca.operations.administration import ensure_calls
from tests.databases import database, postgres  # noqa: F401 (fixtures)
from tests.drivers.harness import instance
from tests.operations import cases
from tests.operations import theatre as stage
from tests.operations.administration.test_backend_ensure import counts, move, start, until_ended
from tests.operations.bench import shelf


class OneByOne(contract.EnsuresEach):
    """What becomes of a share is looked up; at most so many were under way at once."""

    def __init__(self, fates, meet=1):
        self.fates = fates
        self.meeting = threading.Barrier(meet)
        self.lock = threading.Lock()
        self.now = self.most = 0

    def ensure_share(self, instance):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.meeting.wait(60)
        with self.lock:
            self.now -= 1
        fate = self.fates.get(instance.id)
        if isinstance(fate, Exception):
            raise fate
        return fate


@pytest.fixture
def several():
    return [instance(pool="pool1") for _ in range(12)]


def test_as_many_go_on_at_once_as_there_are_threads(several):
    driver = OneByOne({}, meet=4)
    assert ensure_calls.ensure(driver, several, 4) == {}
    assert driver.most == 4


def test_each_error_is_that_shares_alone(several):
    gone, refused, away, broken = several[:4]
    fates = {
        gone.id: contract.Gone(reason="no such volume"),
        refused.id: contract.Refused(reason="no"),
        away.id: contract.Unreachable(reason="one shelf"),
        broken.id: KeyError("a bug"),
    }
    outcomes = ensure_calls.ensure(OneByOne(fates), several, 3)
    assert outcomes.keys() == fates.keys()
    assert (outcomes[gone.id].status, outcomes[gone.id].is_failed) == ("error", False)
    assert all(outcomes[one.id].is_failed for one in (refused, away, broken))
    assert "one shelf" in outcomes[away.id].reason
    assert "KeyError" in outcomes[broken.id].reason


def test_a_back_end_that_is_away_for_all_is_tried_again_later(several):
    fates = {one.id: contract.Unreachable(reason="no route") for one in several}
    with pytest.raises(contract.Unreachable, match="no route"):
        ensure_calls.ensure(OneByOne(fates), several, 3)


def test_a_driver_without_a_way_says_so(several):
    plain = shelf().parts.driver
    assert not ensure_calls.can_ensure(plain)
    with pytest.raises(errors.BackendError, match="unsupported by its driver"):
        ensure_calls.ensure(plain, several, 3)
    with pytest.raises(errors.BackendError, match="without ensuring"):
        ensure_calls.inspect(plain, several)


def test_a_share_that_fails_stays_as_it_was_and_is_told_of(database, tmp_path):  # noqa: F811
    with contextlib.ExitStack() as stack:
        driver = "dummy_each\nfailures = ensure_share:Refused:1"
        theatre = stage.Theatre(database, tmp_path, None, stack, driver)
        theatre.enter()
        shares = [cases.a_share(theatre) for _ in range(4)]
        move(theatre)
        row = until_ended(theatre, start(theatre))
        assert (row.state, counts(row.data["findings"])) == ("done", {"updated": 3, "failed": 1})
        assert "ordered to fail" in row.data["findings"]["some_failed"][0]["why"]
        assert {theatre.status(share_id) for share_id in shares} == {"available"}
        row = until_ended(theatre, start(theatre))
        assert counts(row.data["findings"]) == {"unchanged": 3, "updated": 1}
