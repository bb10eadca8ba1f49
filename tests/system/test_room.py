# SPDX-License-Identifier: Apache-2.0
"""No room, in the pool's figures or in the pool itself: the user is told, and nothing leaks."""

import pytest

from abaca.domain.administration.messages import Detail
from tests.system.world import World, fill


@pytest.fixture(scope="module")
def small(run):
    """A pool of 1 GiB that may be promised three times, and is looked at only every half hour."""
    sections = {
        "local": {"pool_size_gib": 1, "max_over_subscription_ratio": 3.0},
        "DEFAULT": {"report_interval": 600, "service_down_time": 3600},
    }
    return World(run, sections, directory=run.path("small")).start()


def test_a_share_that_no_pool_can_promise_is_refused_with_a_message(small):
    share_id = small.post_share(4)
    found = small.settled(share_id)
    assert (found["status"], found["host"]) == ("error", None)
    (detail, text), *more = small.messages(share_id)
    assert detail == Detail.FILTER_CAPACITY
    assert "no pool has enough capacity left. 4 GiB were asked for" in text
    assert more == []
    assert small.used() == (1, 4)
    small.delete(share_id)
    assert small.used() == (0, 0)
    small.compare()


def test_promises_end_where_the_pool_may_be_promised_no_more(small):
    shares = [small.share(), small.share(), small.share()]
    refused = small.post_share()
    assert small.settled(refused)["status"] == "error"
    small.delete(shares.pop())
    fits = small.share()
    small.delete(*shares, fits, refused)
    assert small.used() == (0, 0)
    small.compare()


def test_a_share_that_could_never_be_filled_is_refused_by_the_driver(small):
    share_id = small.post_share(2)
    assert small.settled(share_id)["status"] == "error"
    (_, text), *_ = small.messages(share_id)
    assert "The back end has no room left: the pool has 1.0 GiB in all" in text
    small.delete(share_id)
    small.compare()


def test_a_pool_that_is_full_before_the_scheduler_knows_fails_the_share_and_leaves_nothing(small):
    filler = small.local.directory / "pool" / "filler"
    fill(filler)
    share_id = small.post_share()
    assert small.settled(share_id)["status"] == "error"
    (_, text), *_ = small.messages(share_id)
    assert "The back end has no room left" in text
    assert small.local.held() | small.local.mounted() | small.local.exported() | small.local.unfinished() == set()
    assert small.used() == (1, 1)
    small.delete(share_id)
    assert small.used() == (0, 0)
    filler.unlink()
    small.delete(small.share())
    small.compare()


def test_room_that_deleting_gives_back_is_there_for_the_next_share(small):
    share_id = small.share()
    (instance_id,) = small.instances()
    fill(small.local.data(instance_id) / "data")
    small.delete(share_id)
    small.delete(small.share())
    small.compare()
