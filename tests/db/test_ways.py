# SPDX-License-Identifier: Apache-2.0
"""Every page of every list costs what its rows cost, not what all rows cost; what cannot is listed with the reason."""

import importlib
import pkgutil

import pytest

from abaca import db
from abaca.db.attachments import attachment_counts
from abaca.db.engine import schema
from abaca.db.engine.database import Database
from abaca.db.engine.lists import Listing, Page
from abaca.db.journal import queue_figures
from tests.databases import fast_directory, on_postgres, on_sqlite
from tests.db import large, offers, ways

SHARES = 6_000


@pytest.fixture(scope="session", params=[on_sqlite, on_postgres])
def filled(request):
    """A database of each kind with very many rows, which nobody changes."""
    with fast_directory() as directory:
        url = f"sqlite:///{directory / 'large.sqlite'}"
        if request.param == "postgresql":
            url = request.getfixturevalue("postgres").new_database()
        opened = Database(url)
        if opened.is_sqlite:
            schema.create_if_empty(opened)
        large.fill(url, SHARES)
        yield opened
        opened.close()


def is_inherent(name, wanted, dialect):
    """Whether it is listed that this page has no way of its own."""
    kinds = offers.INHERENT[name] if dialect == "postgresql" else offers.INHERENT[name] | offers.ON_SQLITE[name]
    by, of_one = f"by {wanted.sort}", " of a project" if "project_id" in wanted.asked else ""
    reasons = kinds.get(wanted.filter), kinds.get(by) or kinds.get(f"{by}{of_one}")
    if dialect == "sqlite" and wanted.kind == "common" and wanted.sort != offers.OFFERS[name].sort:
        return True  # it always goes by the index of a filter, and sorts what it finds
    # few rows are sorted whatever the order
    return reasons[0] is not None or (reasons[1] is not None and wanted.kind in ("all", "common"))


def is_bounded(name, wanted):
    """Whether it is listed that there are never many to be read for it, whatever the number of shares."""
    return name in offers.BOUNDED and ({wanted.filter, f"by {wanted.sort}"} & offers.BOUNDED[name].keys())


@pytest.mark.parametrize("name", offers.OFFERS)
def test_every_page_has_its_way(filled, name):
    offer = offers.OFFERS[name]
    wrong, too_much, beside = {}, {}, {}
    with filled.read() as tx:
        watch = ways.OnSqlite(tx) if filled.is_sqlite else ways.OnPostgresql(tx)
        tx.turns = ways.Taken()
        for wanted, page in ways.pages(tx, offer):
            taken = tx.turns.number
            with watch.looking() as done:
                offer.listing.rows(tx, offer.columns, wanted.asked, page)
            found, in_turn = done(), tx.turns.number > taken
            if not is_inherent(name, wanted, tx.dialect):
                wrong |= {str(wanted): found.wrong} if found.wrong else {}
            elif found.number > watch.most(SHARES):
                too_much[str(wanted)] = found.number
            # one at a time reads much: it never takes the last thread or connection
            elif found.wrong and not in_turn and not is_bounded(name, wanted):
                beside[str(wanted)] = found.wrong
    assert (wrong, too_much, beside) == ({}, {}, {})


@pytest.mark.parametrize("name", offers.OFFERS)
def test_two_filters_together_and_each_in_every_order_have_a_way(filled, name):
    offer = offers.OFFERS[name]
    wrong, beside = {}, {}
    with filled.read() as tx:
        watch = ways.OnSqlite(tx) if filled.is_sqlite else ways.OnPostgresql(tx, ways.CROSSED)
        tx.turns = ways.Taken()
        for wanted in ways.crossed(offer):
            taken = tx.turns.number
            with watch.looking() as done:
                offer.listing.rows(tx, offer.columns, wanted.asked, Page(ways.LIMIT, sort_key=wanted.sort))
            found, in_turn = done(), tx.turns.number > taken
            parts = [wanted._replace(filter=one) for one in wanted.filter.split(" and ")]
            # SQLite has one plan for all values, and goes by the index of one filter
            together = offers.TOGETHER.get(name, {}).get(wanted.filter) is not None
            inherent = filled.is_sqlite or together or any(is_inherent(name, part, tx.dialect) for part in parts)
            bounded = together or any(is_bounded(name, part) for part in parts)
            if found.number > watch.most(SHARES) or (found.wrong and not inherent):
                wrong[str(wanted)] = found.wrong
            elif found.wrong and not in_turn and not bounded:
                beside[str(wanted)] = found.wrong
    assert (wrong, beside) == ({}, {})


@pytest.mark.parametrize("name", offers.OFFERS)
def test_a_count_that_stops_reads_no_more_than_it_counts(filled, name):
    offer, wrong = offers.OFFERS[name], {}
    with filled.read() as tx:
        watch = ways.OnSqlite(tx) if filled.is_sqlite else ways.OnPostgresql(tx)
        for wanted in ways.of(offer):
            if (wanted.part, wanted.sort, wanted.descending) == ("first", offer.sort, True):
                with watch.looking() as done:
                    number = offer.listing.count(tx, wanted.asked, ways.LIMIT)
                assert number <= ways.LIMIT + 1
                # to read a table from its beginning is no harm where that ends soon
                found = [why for why in done().wrong if not why.startswith("reads all")]
                if found and not is_inherent(name, wanted, tx.dialect):
                    wrong[str(wanted)] = found
    assert wrong == {}


def test_the_number_of_attachments_in_each_state_is_known_without_reading_those_that_rest(filled):
    with filled.read() as tx:
        watch = ways.OnSqlite(tx) if filled.is_sqlite else ways.OnPostgresql(tx)
        with watch.looking() as done:
            found = attachment_counts.by_state(tx)
        wrong = done().wrong
    assert found["error"] > 0
    assert wrong == []


def test_how_full_the_queues_are_is_known_without_reading_what_has_ended(filled):
    with filled.read() as tx:
        watch = ways.OnSqlite(tx) if filled.is_sqlite else ways.OnPostgresql(tx)
        queue_figures.live(tx, 0.0)
        with watch.looking() as done:
            found = queue_figures.live(tx, 0.0)
        wrong = done().wrong
    assert {one.state for one in found} == {"running"}
    assert wrong == []


def test_every_list_and_all_that_it_offers_is_known_here():
    """A list, a filter or an order that is new says in offers.py what to ask it for."""
    modules = [
        importlib.import_module(one.name)
        for one in pkgutil.walk_packages(db.__path__, "abaca.db.")
        if not one.name.startswith("abaca.db.migrations")
    ]
    there = {id(found): found for module in modules for found in vars(module).values() if isinstance(found, Listing)}
    known = {id(offer.listing) for offer in offers.OFFERS.values()} | {id(one) for one in offers.SHORT}
    assert there.keys() == known
    for name, offer in offers.OFFERS.items():
        assert offer.values.keys() == offer.listing.filters, name
        listed = {**offers.INHERENT[name], **offers.ON_SQLITE[name]}
        orders = {f"by {sort}{of}" for sort in offer.listing.sorts for of in ("", " of a project")}
        assert listed.keys() <= offer.listing.filters | orders, name
