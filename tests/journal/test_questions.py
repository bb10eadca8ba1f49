# SPDX-License-Identifier: Apache-2.0
"""Several questions that are asked at once have one end."""

import threading

import pytest

from abaca.journal.questions import Future, NoAnswer, all_of
from tests.conftest import PATIENCE_S


def test_all_answers_come_in_the_order_of_their_questions():
    asked = [Future() for _ in range(3)]
    whole = all_of(asked)
    for number in (2, 0, 1):
        assert not whole.done()
        asked[number].set_result(number)
    assert whole.result(0) == [0, 1, 2]
    assert all_of([]).result(0) == []


def test_the_first_failure_is_the_end_of_all_and_holds_up_nobody():
    asked = [Future() for _ in range(2)]
    whole = all_of(asked)
    reads = threading.Thread(target=asked[0].set_exception, args=[NoAnswer(reason="its back end is away")], daemon=True)
    reads.start()
    reads.join(PATIENCE_S)
    assert not reads.is_alive()
    with pytest.raises(NoAnswer, match="its back end is away"):
        whole.result(0)
    assert asked[1].cancelled()


def test_who_waits_no_longer_for_all_waits_for_none():
    asked = [Future() for _ in range(2)]
    all_of(asked).cancel()
    assert [one.cancelled() for one in asked] == [True, True]
