# SPDX-License-Identifier: Apache-2.0
"""When a worker looks where, by a clock of the test's own."""

import pytest

from abaca.journal.agenda import Agenda

FEW = 4


class Clock:
    """Time passes when the test says so."""

    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def agenda(clock):
    found = Agenda(["a", "b"], poll_s=1000.0, clock=clock)
    clock.now_s += 1
    assert taken(found) == {"a", "b"}  # a worker that has started looks everywhere
    clock.now_s += 1
    return found


def taken(agenda):
    """What there is to look at now, without waiting for more."""
    return agenda.take(lambda: True).queues


def looks(agenda, clock, seconds, announced_every_s):
    """How often `a` is looked at while it is announced so often."""
    number, until_s = 0, clock.now_s + seconds
    while clock.now_s < until_s:
        agenda.announce("a")
        number += bool(taken(agenda))
        clock.now_s += announced_every_s
    return number


def test_what_comes_now_and_then_is_looked_at_at_once(agenda, clock):
    assert looks(agenda, clock, 1, 0.02) == pytest.approx(50, abs=1)


def test_of_very_much_a_few_are_looked_at_at_once_and_then_many_together(agenda, clock):
    for _ in range(FEW):
        agenda.announce("a")
        assert taken(agenda) == {"a"}
    agenda.announce("a")
    assert taken(agenda) == set()
    agenda.announce("a")
    clock.now_s += 0.011
    assert taken(agenda) == {"a"}
    assert taken(agenda) == set()
    assert looks(agenda, clock, 1, 0.0005) == pytest.approx(100, abs=5)


def test_what_waits_for_its_turn_is_looked_at_though_nothing_more_comes(agenda, clock):
    for _ in range(FEW):
        agenda.announce("a")
        taken(agenda)
    agenda.announce("a")
    clock.now_s += 0.011
    assert taken(agenda) == {"a"}


def test_a_queue_does_not_wait_for_another_ones_turn(agenda):
    for _ in range(FEW + 1):
        agenda.announce("a")
        taken(agenda)
    agenda.announce("b")
    assert taken(agenda) == {"b"}


def test_who_has_a_slot_free_again_waits_for_nothing(agenda, clock):
    for _ in range(1000):
        with agenda.changed:
            agenda.at_once("a")
        assert taken(agenda) == {"a"}
    agenda.announce("a")
    clock.now_s += 0.011
    assert taken(agenda) == {"a"}  # and others pay for none of it


def test_alarms_and_the_slow_look_wait_for_nothing(agenda, clock):
    for _ in range(FEW + 1):
        agenda.announce("a")
        taken(agenda)
    agenda.again("a", 0.0)
    clock.now_s += 0.006
    assert taken(agenda) == {"a"}
    agenda.look()
    assert taken(agenda) == {"a", "b"}
