# SPDX-License-Identifier: Apache-2.0
"""A great many hostile requests: none ends in an error of ours, and none in a status that is not described.

`make test` sends a hundred thousand, `make thorough` twice as many; HOSTILE_SEED=n sends others.
"""

import os

import pytest

from tests.api import hostile, seeds
from tests.api.planted import of_everybody
from tests.api.world import world
from tests.databases import fast_directory, on_postgres, on_sqlite, place

IS_THOROUGH = bool(os.environ.get("HOSTILE_THOROUGH"))
SEED = int(os.environ.get("HOSTILE_SEED", "0"))
AT_ONCE = 2_500
CHUNKS = 42 if IS_THOROUGH else 21
SHOWN = 12
# Lists stay short, however much is made.
SETTINGS = "osapi_max_limit = 20\n[quota]\nshares = 40\n"


@pytest.fixture(scope="module", params=[on_sqlite, on_postgres])
def garden(request):
    with fast_directory() as directory:
        yield from at_rest(request, directory)


def at_rest(request, directory):
    """A world in which much is there and no worker is."""
    more = SETTINGS
    if request.param == "postgresql":
        more += f"[database]\nconnection = {place('postgresql', directory, request).url}"
    with world(directory, worker=True, more=more) as busy:
        things = {**seeds.plant(busy), **of_everybody(busy)}
    with world(directory, worker=False, more=more) as made:
        made.things = things
        made.first = 10**9 if request.param == "postgresql" else 0
        yield made


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_hostile_requests_are_refused_or_carried_out(garden, chunk, record_property):
    make = hostile.Maker(garden.things)
    wrong = []
    first = garden.first + (SEED * CHUNKS + chunk) * AT_ONCE
    for number in range(first, first + AT_ONCE):
        case = make.case(number)
        answer = hostile.send(garden, case)
        said = hostile.judge(case, answer)
        if said:
            wrong.append((said, number, case.who, case.method, case.url[:200], case.raw[:200], str(answer.body)[:200]))
    fives = sum(said.startswith("5xx") for said, *_ in wrong)
    record_property("hostile", [AT_ONCE, fives, len(wrong) - fives])
    assert not wrong, "\n".join(map(str, wrong[:SHOWN]))
