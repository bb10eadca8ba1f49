# SPDX-License-Identifier: Apache-2.0
"""Scrapes take little of the database, however much there is to count and however many ask."""

import pytest

from abaca.app.figures import Kept


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
