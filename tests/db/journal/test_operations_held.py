# SPDX-License-Identifier: Apache-2.0
"""The journal's statements about what somebody holds: guarded writes, and taking over what is left behind."""

import msgspec
import pytest

from abaca.db.journal import claims, operations, runs, steering
from tests.db.journal.journal_rows import claim, place, queue_up, show


@pytest.fixture
def db(database):
    return database.open()


# ---------------------------------------------------------------- guarded writes


@pytest.fixture
def held(db):
    """An operation that runs with token 1."""
    queue_up(db, "a")
    (row,) = claim(db)
    return row.id


def test_a_checkpoint_is_kept(db, held):
    with db.write() as tx:
        assert runs.checkpoint(tx, held, 1, place(2, data={"x": [1]}, error=("E", "text"))) is False
    row = show(db, held)
    assert (row.step, row.data, row.error_code, row.error_text, row.attempt) == (2, {"x": [1]}, "E", "text", 0)


def test_every_write_tells_of_a_request_to_cancel(db, held):
    with db.write() as tx:
        assert steering.request_cancel(tx, held)
        assert runs.touch(tx, held, 1) is True
        assert runs.progress(tx, held, 1, 1, 2) is True
        assert runs.checkpoint(tx, held, 1, place(1)) is True


@pytest.mark.parametrize("loss", ["token", "queued", "done"])
def test_whoever_lost_the_lease_changes_nothing(db, held, loss):
    t = operations.t
    values = {"token": {"token": 2}, "queued": {"state": "queued"}, "done": {"state": "done"}}[loss]
    with db.write() as tx:
        tx.execute(t.update().where(t.c.id == held).values(**values))
    before = show(db, held)
    with db.write() as tx:
        assert runs.touch(tx, held, 1) is None
        assert runs.progress(tx, held, 1, 1, 2) is None
        assert runs.checkpoint(tx, held, 1, place(1)) is None
        assert runs.end(tx, held, 1, "done", place(1), runs.Held(keys=["a"], parent_id=None, has_waits=False)) is None
        assert runs.wait(tx, held, 1, place(1), 0.0) is False
    assert show(db, held) == before


@pytest.mark.parametrize(
    ("recorded", "told", "kept"),
    [
        (place(1), place(0, attempt=1), (1, {"recorded": 1})),
        (place(0), place(1, attempt=1), (1, {})),
        (place(1, "undo"), place(2, "undo", attempt=1), (1, {"recorded": 1})),
        (place(2, "undo"), place(1, "undo", attempt=1), (1, {})),
        (place(2), place(2, "undo", attempt=1), (2, {})),
    ],
    ids=["do-behind", "do-ahead", "undo-behind", "undo-ahead", "turning-back"],
)
def test_waiting_never_takes_back_what_was_recorded(db, held, recorded, told, kept):
    """The answer to a commit may get lost: then the row is further than its worker thinks."""
    with db.write() as tx:
        runs.checkpoint(tx, held, 1, msgspec.structs.replace(recorded, data={"recorded": 1}))
    with db.write() as tx:
        assert runs.wait(tx, held, 1, told, 2000.0)
    row = show(db, held)
    assert (row.step, row.data) == kept
    assert (row.state, row.direction, row.attempt, row.not_before) == ("waiting", told.direction, 1, 2000.0)
    assert (row.owner, row.lease_until) == (None, None)


def test_renewing_prolongs_only_what_is_held_and_ones_own(db):
    queue_up(db, "a", "b")
    queue_up(db, "c", queue="other")
    mine, mine_too = claim(db)
    (theirs,) = claim(db, owner="w#2", queue="other")
    with db.write() as tx:
        assert claims.renew(tx, "w#1", [mine.id, theirs.id], 5000.0) == {mine.id}
        assert claims.renew(tx, "w#1", [], 5000.0) == set()
    assert [show(db, row.id).lease_until for row in (mine, mine_too, theirs)] == [5000.0, 1030.0, 1030.0]


# ---------------------------------------------------------------- taking over


def take_over(db, held=(), now_s=1000.0):
    with db.write() as tx:
        return {row.id for row in claims.take_over(tx, ["q"], list(held), at=claims.Moment(now_s=now_s))}


def regain(db, held=(), owner="w#1"):
    with db.write() as tx:
        return {row.id for row in claims.regain(tx, ["q"], list(held), owner=owner)}


def inherit(db, worker, now_s=1000.0):
    with db.write() as tx:
        return {row.id for row in claims.inherit(tx, ["q"], [], worker=worker, at=claims.Moment(now_s=now_s))}


def test_a_lease_that_has_ended_is_taken_by_anybody_who_does_not_hold_it(db, held):
    assert take_over(db, now_s=1030.0) == set()
    assert take_over(db, [held], now_s=1031.0) == set()
    assert take_over(db, now_s=1031.0) == {held}
    row = show(db, held)
    assert (row.state, row.owner, row.not_before, row.token) == ("queued", None, 0.0, 1)
    assert (row.attempt, row.error_code) == (1, "WorkerLost")
    (again,) = claim(db, owner="w#2")
    assert (again.id, again.token) == (held, 2)


def test_ones_own_that_one_does_not_hold_is_taken_at_once_and_not_held_against_it(db, held):
    assert regain(db, [held]) == set()
    assert regain(db, owner="w#2") == set()
    assert regain(db) == {held}
    row = show(db, held)
    assert (row.state, row.attempt, row.error_code, row.not_before) == ("queued", 0, None, 0.0)


def lose(db, now_s):
    """A worker takes it, and ends without a word."""
    claim(db, owner="w#1", now_s=now_s)
    inherit(db, "w", now_s=now_s)


def test_work_that_ends_every_worker_is_paused_after_the_third(db, held):
    inherit(db, "w")
    for attempt in (2, 3):
        lose(db, 1000.0)
        assert (show(db, held).attempt, show(db, held).not_before) == (attempt, 0.0)
    lose(db, 1000.0)
    assert show(db, held).not_before == 1030.0
    assert claim(db, now_s=1029.0) == []
    lose(db, 1031.0)
    assert show(db, held).not_before == 1061.0


def test_tries_that_failed_before_do_not_pause_what_a_dead_worker_left(db, held):
    with db.write() as tx:
        runs.wait(tx, held, 1, place(attempt=7, error=("Unreachable", "cable out")), 1000.0)
    lose(db, 1000.0)
    row = show(db, held)
    assert (row.not_before, row.attempt, row.error_code) == (0.0, 1, "WorkerLost")


def test_what_is_undone_keeps_the_error_for_which_it_is(db, held):
    with db.write() as tx:
        runs.checkpoint(tx, held, 1, place(direction="undo", error=("Full", "no room")))
    inherit(db, "w")
    row = show(db, held)
    assert (row.error_code, row.error_text, row.direction) == ("Full", "no room", "undo")


def test_an_earlier_life_is_known_by_the_name_and_by_all_of_it(db, held):
    assert inherit(db, "W") == set()
    assert inherit(db, "w%") == set()
    assert inherit(db, "_") == set()
    assert inherit(db, "") == set()
    assert inherit(db, "w") == {held}


def test_other_queues_are_left_alone(db):
    queue_up(db, "a", queue="other")
    claim(db, queue="other")
    assert take_over(db, now_s=9999.0) == set()
    assert regain(db) == set()
    assert inherit(db, "w") == set()


def test_what_is_taken_over_comes_before_younger_work_of_its_key(db, held):
    (younger,) = queue_up(db, "a")
    regain(db)
    assert [row.id for row in claim(db)] == [held]
    assert show(db, younger).state == "queued"
