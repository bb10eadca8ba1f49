# SPDX-License-Identifier: Apache-2.0
"""What a driver wants kept for a share is kept with it: from its making on, until it is gone."""

import contextlib

import pytest
import sqlalchemy as sa

from abaca.db.shares import driver_data
from abaca.db.tables.shares import driver_data as table
from abaca.db.tables.shares import share_instances
from tests.databases import database, postgres  # noqa: F401 (fixtures)
from tests.operations import cases
from tests.operations import theatre as stage
from tests.operations.administration.test_backend_ensure import counts, ensured


@pytest.fixture
def share_id(theatre):
    theatre.enter()
    made = cases.a_share(theatre)
    theatre.settle()
    return made


def kept(theatre):
    """All that is kept, by resource."""
    with theatre.db.read() as tx:
        return {row.resource_id: row.data for row in tx.rows(sa.select(table))}


def instance_of(theatre, share_id):
    with theatre.db.read() as tx:
        return tx.scalar(sa.select(share_instances.c.id).where(share_instances.c.share_id == share_id))


def test_what_the_driver_wants_kept_comes_and_goes_with_the_share(theatre, share_id):
    assert kept(theatre) == {instance_of(theatre, share_id): {"volume": "7"}}
    cases.delete(theatre, share_id)
    theatre.until_ended("share-delete", share_id)
    assert kept(theatre) == {}


def test_the_driver_is_handed_what_is_kept(theatre, share_id):
    assert counts(ensured(theatre)) == {"unchanged": 1}
    cases.extend(theatre, share_id)
    operation = theatre.until_ended("share-extend", share_id)
    assert operation.args["instance"]["driver_data"] == {"volume": "7"}


def test_what_ensuring_wants_kept_takes_the_place_of_what_was_kept(theatre, share_id):
    instance_id = instance_of(theatre, share_id)
    with theatre.db.write() as tx:
        driver_data.keep(tx, {instance_id: {"volume": "6", "old": "yes"}})
    ensured(theatre)
    assert kept(theatre) == {instance_id: {"volume": "7"}}


def test_a_share_whose_making_fails_keeps_nothing(database, tmp_path):  # noqa: F811
    with contextlib.ExitStack() as stack:
        theatre = stage.Theatre(database, tmp_path, None, stack, "dummy\nfailures = create:Refused:1:after")
        theatre.enter()
        failed = cases.a_share(theatre)
        assert (theatre.status(failed), kept(theatre)) == ("error", {})


def test_nothing_said_leaves_what_is_kept_and_an_empty_set_forgets_it(theatre):
    with theatre.db.write() as tx:
        driver_data.keep(tx, {"one": {"a": "1"}, "two": {"b": "2"}})
        driver_data.keep(tx, {"one": None, "two": {}})
    assert kept(theatre) == {"one": {"a": "1"}}
