# SPDX-License-Identifier: Apache-2.0
"""Logging in by name and password: guessing is slow, stops nobody else, and tells nothing by its time."""

import base64
import concurrent.futures
import contextlib
import time

import pytest

from abaca import errors
from abaca.http import brakes, users_file
from abaca.http.basic import HttpBasic
from tests.api.world import hashed, world

RIGHT, WRONG = "right-right", "wrong-wrong"


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "users"
    file.write_text(f"ann:{hashed(RIGHT)}:p1:member\nbob:{hashed(RIGHT)}:p2:member\n")
    return file


@pytest.fixture
def strategy(file, clock):
    return HttpBasic(file, clock=clock, threads=2)


def environ(name, password, address="192.0.2.1", **more):
    said = base64.b64encode(f"{name}:{password}".encode()).decode()
    return {"HTTP_AUTHORIZATION": f"Basic {said}", "REMOTE_ADDR": address, **more}


def outcome(strategy, *arguments, **more):
    """How a login ends."""
    try:
        return strategy.identify(environ(*arguments, **more)).user_id
    except (errors.Unauthorized, errors.TooMany) as error:
        return type(error).__name__


def wrong(strategy, times, *arguments):
    return [outcome(strategy, "ann", f"{WRONG}{number}", *arguments) for number in range(times)]


def test_who_guesses_waits_longer_each_time_and_others_do_not(strategy, clock):
    assert wrong(strategy, 7) == ["Unauthorized"] * brakes.OF_ADDRESS + ["TooMany"] * 2
    assert outcome(strategy, "bob", RIGHT) == "TooMany"
    assert outcome(strategy, "bob", RIGHT, "192.0.2.2") == "bob"
    clock.now += 1.1
    assert wrong(strategy, 2) == ["Unauthorized", "TooMany"]
    clock.now += 1.1
    assert wrong(strategy, 1) == ["TooMany"]
    clock.now += 1
    assert outcome(strategy, "bob", RIGHT) == "bob"
    assert wrong(strategy, 1) == ["Unauthorized"]


def test_how_long_to_wait_is_said(strategy):
    wrong(strategy, brakes.OF_ADDRESS)
    with pytest.raises(errors.TooMany) as refused:
        strategy.identify(environ("ann", RIGHT))
    assert refused.value.details["retry_after_s"] == 1


def test_a_user_who_is_guessed_at_from_everywhere_goes_on_where_they_work(strategy, clock):
    home = "198.51.100.7"
    assert outcome(strategy, "ann", RIGHT, home) == "ann"
    for number in range(brakes.OF_USER):
        assert outcome(strategy, "ann", f"{WRONG}{number}", f"203.0.113.{number}") == "Unauthorized"
    assert outcome(strategy, "ann", WRONG, "203.0.113.99") == "TooMany"
    clock.now += 40  # longer than a password is remembered, and the brake lasts
    for number in range(6):
        outcome(strategy, "ann", f"{WRONG}{number}", f"203.0.113.{number}")
    assert outcome(strategy, "ann", RIGHT, home) == "ann"


def test_a_customer_of_ipv6_is_one_address(strategy):
    for number in range(brakes.OF_ADDRESS):
        wrong(strategy, 1, f"2001:db8::{number:x}")
    assert outcome(strategy, "bob", RIGHT, "2001:db8::ffff") == "TooMany"
    assert outcome(strategy, "bob", RIGHT, "2001:db8:0:1::1") == "bob"


def test_behind_a_proxy_that_is_believed_its_callers_are_told_apart(file, clock):
    strategy = HttpBasic(file, clock=clock, is_behind_proxy=True)
    for number in range(brakes.OF_ADDRESS):
        seen = {"HTTP_X_FORWARDED_FOR": f"10.0.0.{number}, 198.51.100.1"}
        assert outcome(strategy, "ann", f"{WRONG}{number}", **seen) == "Unauthorized"
    assert outcome(strategy, "bob", RIGHT, HTTP_X_FORWARDED_FOR="198.51.100.1") == "TooMany"
    assert outcome(strategy, "bob", RIGHT, HTTP_X_FORWARDED_FOR="198.51.100.2") == "bob"


def test_a_storm_leaves_threads_for_those_who_are_known(strategy):
    """From many addresses at once: those who cannot be checked at once are sent away, and wait for nobody."""
    assert outcome(strategy, "bob", RIGHT) == "bob"
    for number in range(brakes.STORM):
        outcome(strategy, f"nobody{number}", WRONG, f"203.0.113.{number}")
    with concurrent.futures.ThreadPoolExecutor(60) as pool:
        guesses = [pool.submit(outcome, strategy, f"no{number}", WRONG, f"198.51.100.{number}") for number in range(60)]
        begun = time.monotonic()
        assert outcome(strategy, "bob", RIGHT) == "bob"
        took_s = time.monotonic() - begun
        said = [guess.result() for guess in guesses]
        all_s = time.monotonic() - begun
    assert "TooMany" in said
    assert took_s < max(1.0, all_s / 2)


def test_the_time_tells_neither_a_user_nor_their_cost(tmp_path):
    file = tmp_path / "users"
    file.write_text(f"ann:{hashed(RIGHT)}:p:member\nbob:{hashed(RIGHT, 12)}:p:member\n")
    users = users_file.read(file)

    def takes(name):
        begun = time.thread_time()
        assert users.verify(name, WRONG.encode()) is None
        return time.thread_time() - begun

    taken = [takes(name) for name in ("ann", "bob", "nobody")]
    assert max(taken) < 1.6 * min(taken)


GOOD = "$2b$10$" + "." * 53


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("ann:$2b$10$short:p:member", "no bcrypt hash"),
        ("ann:$2b$xx$" + "." * 53 + ":p:member", "no bcrypt hash"),
        ("ann:$1$abc:p:member", "no bcrypt hash"),
        ("ann:$2b$09$" + "." * 53 + ":p:member", "is guessed too fast"),
        ("ann:$2b$31$" + "." * 53 + ":p:member", "makes every login wait"),
        (f"ann:{GOOD}:p:member\nann:{GOOD}:p:admin", "stands there twice"),
    ],
)
def test_what_would_let_the_wrong_in_is_refused_at_the_start(tmp_path, line, says):
    file = tmp_path / "users"
    file.write_text(line)
    with pytest.raises(errors.ConfigError, match=says):
        HttpBasic(file)


def test_a_file_that_anybody_may_write_is_refused(file, clock, caplog):
    strategy = HttpBasic(file, clock=clock)
    file.chmod(0o666)
    with pytest.raises(errors.ConfigError, match="Anybody on this host may write"):
        HttpBasic(file)
    clock.now += 2
    assert outcome(strategy, "ann", RIGHT) == "ann"
    assert "Anybody on this host may write" in caplog.text


def test_at_the_door_it_is_429_with_when_to_come_again(tmp_path):
    with world(tmp_path, worker=False) as here:
        for number in range(brakes.OF_ADDRESS):
            said = environ("member", f"{WRONG}{number}")["HTTP_AUTHORIZATION"]
            assert here.ask("none", "GET", "/types", authorization=said).status == 401
        answer = here.ask("none", "GET", "/types", authorization=said)
        assert answer.status == 429
        assert answer.headers["retry-after"] == "1"
        assert set(answer.body) == {"tooManyRequests"}


def test_two_who_change_the_file_wait_for_each_other(tmp_path):
    file = tmp_path / "users"

    def add(number):
        with users_file.changing(file) as users:
            users[f"u{number}"] = users_file.User(f"u{number}", GOOD.encode(), "p", ("member",))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(16)))
    assert len(users_file.read(file).by_name) == 16
    assert file.stat().st_mode & 0o777 == 0o640
    with contextlib.suppress(ZeroDivisionError), users_file.changing(file) as users:
        users.clear()
        raise ZeroDivisionError
    assert len(users_file.read(file).by_name) == 16
    assert [path.name for path in tmp_path.iterdir()] == ["users"]
