# SPDX-License-Identifier: Apache-2.0
"""Lines that operators can search, without anybody's secrets."""

import json
import logging
import time

import pytest

from abaca import logs


@pytest.fixture
def line(tmp_path):
    """What a call of the logger writes."""

    def line(call, **options):
        file = tmp_path / "abaca.log"
        file.unlink(missing_ok=True)
        logs.set_up(file=str(file), **options)
        logs.begin()
        call(logging.getLogger("abaca.test"))
        return file.read_text() if file.exists() else ""

    yield line
    logs.set_up()


def test_a_line_says_when_who_and_for_which_request(line):
    def call(log):
        with logs.bind(request_id="req-1"), logs.bind(share="s1"):
            log.info("share=%s is made", "s1")

    said = line(call)
    assert " INFO abaca.test [req-1] share=s1 share=s1 is made\n" in said
    assert said[:4].isdigit()


def test_ids_end_with_their_block(line):
    def call(log):
        with logs.bind(request_id="req-1"):
            pass
        log.info("after")

    assert "[-] after" in line(call)


def test_json_lines_hold_the_same(line):
    def call(log):
        with logs.bind(request_id="req-1"):
            log.warning("text")

    said = json.loads(line(call, as_json=True))
    assert (said["level"], said["request_id"], said["message"]) == ("WARNING", "req-1", "text")


def test_debugging_lines_are_for_who_asks(line):
    assert line(lambda log: log.debug("detail")) == ""
    assert "detail" in line(lambda log: log.debug("detail"), debug=True)


def test_a_traceback_stands_below_its_line(line):
    def call(log):
        try:
            raise ValueError("odd")
        except ValueError:
            log.exception("failed")

    assert "ValueError: odd" in line(call)
    assert "ValueError: odd" in json.loads(line(call, as_json=True))["exception"]


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://abaca:hush@db/abaca",
        "{'X-Auth-Token': 'hush', 'Accept': 'x'}",
        '{"password": "hush"}',
        "admin_password = hush",
        "Authorization: Basic hush",
        "authorization: Bearer hush",
        "client_secret=hush&x=1",
        "X-Subject-Token: hush",
        '{"password": "hush, hush & (hush)"}',
        "SecurityService(user='ann', password='correct hush battery', ou=None)",
        'SecurityService(password="it\'s hush", ou=None)',
        "{'password': b'a) hush'}",
        '{"secret": "a \\" hush"}',
        "client_secret='cut off, hush",
    ],
)
def test_what_looks_like_a_secret_is_masked(line, text):
    def call(log):
        log.warning("sent %s", text)
        try:
            raise ValueError(text)
        except ValueError:
            log.exception("failed with %s", text)

    for options in ({}, {"as_json": True}):
        said = line(call, **options)
        assert "hush" not in said
        assert "***" in said


def test_what_stands_beside_a_secret_is_left():
    said = "SecurityService(user='ann', password='a, b', ou='staff', secret=None, access_key=''), \"server\": \"s\""
    assert logs.masked(said).split("password=")[0] == "SecurityService(user='ann', "
    assert "ou='staff'" in logs.masked(said)
    assert "'ann'" in logs.masked(said)
    assert '"server": "s"' in logs.masked(said)


@pytest.mark.parametrize("part", ["a", "password", "password=", "password='", "secret: ", "://:", "access_key\t"])
def test_a_long_text_takes_no_longer_than_its_length(part):
    def takes_s(length):
        text = (part * length)[:length]
        taken = []
        for _ in range(3):
            begun = time.thread_time()
            logs.masked(text)
            taken.append(time.thread_time() - begun)
        return min(taken)

    few, many = takes_s(3_000), takes_s(30_000)
    assert many < 30 * few + 0.02, (few, many)


def test_tokens_are_masked_wherever_they_stand(line):
    token = "gAAAAABm" + "x" * 40
    assert token not in line(lambda log: log.warning("got %s from keystone", token))


def test_ordinary_text_is_left_alone():
    text = "share=1 op=2 kind=share-create lost its lease; passed 3 tokens of text, key=s1"
    assert logs.masked(text) == text
