# SPDX-License-Identifier: Apache-2.0
"""What the files of requests say of bad input: of each route that takes a body, at least one that is refused."""

import re
from pathlib import Path

import pytest
import yaml

from tests.api.requests import METHODS
from tests.api.test_surface import ALL, DATA, start

FILES = sorted(Path(__file__).parent.rglob("*.yaml"))
# data processing is asked by its clients' own library alone
TAKING = [route for route in ALL if route.body is not None and route not in DATA]
REFUSED = (400, 422)


def said():
    """The method, path and body of each request that is refused for what it holds."""
    for file in FILES:
        for request in yaml.safe_load(file.read_text())["requests"]:
            if request.get("status") in REFUSED:
                method = next(name for name in METHODS if name in request)
                yield method, request[method].partition("?")[0], request.get("body")


def matches(route, method, path, body):
    whole = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(start(route) + route.path))
    is_right = method == route.method and re.fullmatch(whole, path)
    return is_right and (route.action is None or (isinstance(body, dict) and route.action in body))


@pytest.fixture(scope="module")
def refused():
    return list(said())


@pytest.mark.parametrize("route", TAKING, ids=lambda route: f"{route.name} {route.since}")
def test_a_route_that_takes_a_body_is_sent_a_wrong_one(refused, route):
    assert any(matches(route, *one) for one in refused), "say in tests/api/*/*.yaml what of its body is refused"
