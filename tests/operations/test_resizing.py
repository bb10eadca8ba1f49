# SPDX-License-Identifier: Apache-2.0
"""Resizing beside what others do to the same share, such as an operator's word."""

import contextlib

import pytest

from tests.databases import database, postgres  # noqa: F401 (fixtures)
from tests.operations import cases
from tests.operations import theatre as stage

VERSION = {"x-openstack-manila-api-version": stage.NEWEST}


@pytest.fixture
def theatre(database, tmp_path):  # noqa: F811
    with contextlib.ExitStack() as stack:
        yield stage.Theatre(database, tmp_path, None, stack)


def ask(theatre, who, share_id, **action):
    return theatre.world.ask(who, "POST", f"/shares/{share_id}/action", action, **VERSION)


def made(theatre):
    theatre.enter()
    share_id = cases.a_share(theatre)
    theatre.settle()
    theatre.leave()
    return share_id


def test_a_share_that_an_operator_frees_is_not_resized_twice_at_once(theatre):
    """Each would take the size before for that of now, and the counts would never be right again."""
    share_id = made(theatre)
    cases.extend(theatre, share_id)
    assert ask(theatre, "admin", share_id, reset_status={"status": "available"}).status == 202
    for action in ({"extend": {"new_size": 4}}, {"shrink": {"new_size": 2}}):
        answer = ask(theatre, "member", share_id, **action)
        assert answer.status == 400
        assert theatre.operation("share-extend", share_id).id in answer.body["badRequest"]["message"]
    theatre.enter()
    theatre.settle()
    assert theatre.check(theatre.operation("share-extend", share_id)) == []
    cases.shrink(theatre, share_id)
    theatre.settle()
    assert theatre.check(theatre.operation("share-shrink", share_id)) == []
    assert theatre.ask("GET", f"/shares/{share_id}")["share"]["size"] == 1


@pytest.mark.parametrize("action", [{"extend": {"new_size": 5}}, {"shrink": {"new_size": 1}}], ids=["extend", "shrink"])
def test_a_share_that_is_nowhere_is_not_resized_whatever_its_status_says(theatre, action):
    share_id = cases.new_share(theatre, None)
    assert ask(theatre, "admin", share_id, reset_status={"status": "available"}).status == 202
    answer = ask(theatre, "member", share_id, **action)
    assert answer.status == 400
    assert "no back end" in answer.body["badRequest"]["message"]
