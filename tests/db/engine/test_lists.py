# SPDX-License-Identifier: Apache-2.0
"""Lists: filters find what they say, pages follow one another without gaps, and strange text stays text."""

import datetime
import uuid

import pytest
import sqlalchemy as sa

from abaca import errors
from abaca.db.engine import lists
from abaca.db.engine.lists import Page
from abaca.db.tables.catalog import share_types

TYPES = lists.Listing(
    share_types,
    filters={
        "name": lists.equal(share_types.c.name),
        "description": lists.equal(share_types.c.description),
        "name_like": lists.contains(share_types.c.name),
        "names": lists.one_of(share_types.c.name),
        "specs": lists.has_pairs(share_types.c.extra_specs),
        "since": lists.since(share_types.c.created_at),
        "before": lists.before(share_types.c.created_at),
    },
    sorts=("name", "created_at", "description"),
)
START = datetime.datetime(2026, 1, 1)  # noqa: DTZ001
ODD = ['a"b', "a'b", "a.b", "a\\b", "a%b", "a_b", "$", "", " ", "ä", "[0]", "a]b"]


@pytest.fixture
def db(database):
    return database.open()


def add(db, name, *, minutes=0, description=None, specs=None):
    row = {"id": str(uuid.uuid4()), "name": name, "description": description, "extra_specs": specs or {}}
    with db.write() as tx:
        tx.execute(
            sa.insert(share_types),
            {**row, "is_public": True, "created_at": START + datetime.timedelta(minutes=minutes)},
        )


def names(db, page=None, **asked):
    with db.read() as tx:
        return [row.name for row in TYPES.rows(tx, ("name",), asked, page)]


def test_filters_find_what_they_say(db):
    add(db, "Gold", description="x", minutes=1)
    add(db, "silver", minutes=2)
    add(db, "50%_off", minutes=3)
    assert names(db, name="Gold") == ["Gold"]
    assert set(names(db, description=None)) == {"silver", "50%_off"}
    assert names(db, name_like="OL") == ["Gold"]
    assert names(db, name_like="%") == ["50%_off"]
    assert names(db, name_like="_") == ["50%_off"]
    assert set(names(db, names=["Gold", "silver", "tin"])) == {"Gold", "silver"}
    assert names(db, names=[]) == []
    assert set(names(db, since=START + datetime.timedelta(minutes=2))) == {"silver", "50%_off"}
    assert names(db, before=START + datetime.timedelta(minutes=1)) == ["Gold"]
    with db.read() as tx:
        assert TYPES.count(tx, {}) == 3
        assert TYPES.count(tx, {"name_like": "o"}) == 2


@pytest.mark.parametrize("odd", ODD)
def test_keys_and_values_may_hold_any_character(db, odd):
    add(db, "plain", specs={"k": "v"})
    add(db, "odd", specs={odd: odd, "k": "v"})
    assert names(db, specs={odd: odd}) == ["odd"]
    assert names(db, specs={odd: odd, "k": "v"}) == ["odd"]
    assert names(db, specs={odd: "other"}) == []
    assert set(names(db, specs={})) == {"plain", "odd"}


@pytest.mark.parametrize("sort_key", ["created_at", "name"])
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("by", ["marker", "offset"])
def test_pages_follow_one_another_without_gap_or_overlap(db, sort_key, descending, by):
    for number in range(10):
        # two of each minute, so that ties have to be broken
        add(db, f"t{number}", minutes=number // 2)
    whole = names(db, Page(100, sort_key=sort_key, descending=descending))
    seen, marker = [], None
    while True:
        page = Page(3, sort_key=sort_key, descending=descending)
        page = page._replace(marker=marker) if by == "marker" else page._replace(offset=len(seen))
        with db.read() as tx:
            rows = TYPES.rows(tx, ("id", "name"), {}, page)
        if not rows:
            break
        seen += [row.name for row in rows]
        marker = rows[-1].id
    assert seen == whole
    assert len(set(seen)) == 10


def test_a_row_that_comes_while_one_turns_pages_by_marker_moves_nothing(db):
    for number in range(4):
        add(db, f"t{number}", minutes=number)
    with db.read() as tx:
        first = TYPES.rows(tx, ("id", "name"), {}, Page(2))
    add(db, "newest", minutes=9)
    assert [row.name for row in first] == ["t3", "t2"]
    assert names(db, Page(2, marker=first[-1].id)) == ["t1", "t0"]


def test_a_marker_that_is_gone_is_no_marker(db):
    add(db, "a")
    assert names(db, Page(2, marker="nosuch")) == ["a"]


def test_where_the_order_has_gaps_the_offset_counts(db):
    for name, description in (("a", "x"), ("b", None), ("c", "y")):
        add(db, name, description=description)
    with db.read() as tx:
        (first,) = TYPES.rows(tx, ("id", "name"), {}, Page(1, sort_key="description", descending=False))
    rest = names(db, Page(5, offset=1, marker=first.id, sort_key="description", descending=False))
    assert {first.name, *rest} == {"a", "b", "c"}
    assert len(rest) == 2


def test_an_order_that_is_not_offered_is_refused(db):
    with pytest.raises(errors.Invalid, match="created_at, description, name"):
        names(db, Page(5, sort_key="id; DROP TABLE share_types"))
