# SPDX-License-Identifier: Apache-2.0
"""Ids lie in the order in which they were made, and are never the same."""

from __future__ import annotations

import itertools
import time
import uuid

from abaca.domain.ids import new_id, random_id


def test_an_id_is_a_uuid_of_version_7_that_knows_when_it_was_made() -> None:
    before_ms = time.time_ns() // 1_000_000
    made = new_id()
    after_ms = time.time_ns() // 1_000_000
    parsed = uuid.UUID(made)
    assert str(parsed) == made
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    assert before_ms <= parsed.int >> 80 <= after_ms


def test_ids_made_one_after_another_are_in_order_and_all_different() -> None:
    made = [new_id() for _ in range(20_000)]
    assert len(set(made)) == len(made)
    # within a quarter of a microsecond the random bits decide
    assert sum(one > another for one, another in itertools.pairwise(made)) < len(made) // 100


def test_a_random_id_is_a_uuid_of_version_4_that_says_nothing_of_its_time() -> None:
    made = [uuid.UUID(random_id()) for _ in range(200)]
    assert {(one.version, one.variant) for one in made} == {(4, uuid.RFC_4122)}
    assert len({one.hex[:4] for one in made}) > 150
    assert {str(one)[19] for one in made} == set("89ab")
