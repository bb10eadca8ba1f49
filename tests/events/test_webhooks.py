# SPDX-License-Identifier: Apache-2.0
"""Webhooks reach a real receiver, in order, signed, and whatever dies or answers badly in between."""

import contextlib
import datetime
import hashlib
import hmac
import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from abaca.domain.administration.events import Event
from abaca.events.contract import Away
from abaca.events.webhooks import Webhook
from lab import processes
from tests.api.world import PROJECT
from tests.conftest import wait_until
from tests.events.house import SECRET
from tests.events.receiver import Receiver
from tests.operations.machines import KEY

LIFE = [
    "share.create.start",
    "share.create.end",
    "share.extend.start",
    "share.extend.end",
    "share.access.update.end",
    "share.shrink.start",
    "share.shrink.end",
    "share.delete.start",
    "share.delete.end",
]


def live(house):
    """A share's whole life, one thing after another."""
    share_id = house.until_available(house.share(size=2))
    house.act(share_id, extend={"new_size": 3})
    house.until_available(share_id)
    rule = house.act(share_id, allow_access={"access_type": "ip", "access_to": "10.0.0.1"})["access"]["id"]
    wait_until(lambda: house.ask("GET", f"/share-access-rules/{rule}")["access"]["state"] == "active")
    house.act(share_id, shrink={"new_size": 1})
    house.until_available(share_id)
    house.ask("DELETE", f"/shares/{share_id}")
    return share_id


def test_a_share_s_life_is_told_in_order_and_signed(house, receiver):
    house.work()
    share_id = live(house)
    posts = receiver.until(len(LIFE))
    assert receiver.types(share_id) == LIFE
    for post in posts:
        said = hmac.new(SECRET.encode(), post.headers["X-Abaca-Timestamp"].encode() + b"." + post.body, hashlib.sha256)
        assert post.headers["X-Abaca-Signature"] == f"sha256={said.hexdigest()}"
        assert post.headers["X-Abaca-Event"] == post.type
        assert post.id == post.event["id"]
        assert post.event["payload"]["share_id"] == post.event["resource_id"] == share_id
        assert post.event["request_id"].startswith("req-")
    sizes = {post.type: post.event["payload"]["size"] for post in posts}
    assert (sizes["share.create.start"], sizes["share.extend.end"], sizes["share.shrink.end"]) == (2, 3, 1)
    states = {post.type: post.event["payload"]["status"] for post in posts}
    assert states["share.create.start"] == "creating"
    assert states["share.create.end"] == "available"
    assert states["share.delete.end"] == "deleted"
    lines = wait_until(lambda: len(found := told_in(house.log)) >= len(LIFE) and found)
    assert [line.split("event=")[1].split()[0] for line in lines] == LIFE
    payload = json.loads(lines[0].partition("payload=")[2])
    assert (payload["share_id"], payload["proto"], payload["share_type"]) == (share_id, "NFS", "default")


def test_an_attachment_s_life_is_told_in_order(house, receiver):
    house.work()
    share_id = house.until_available(house.share())
    machine = {
        "name": "web-1",
        "project_id": PROJECT,
        "addresses": ["10.0.0.9"],
        "host_key": KEY,
        "key": "file:/etc/abaca/keys/k",
    }
    server_id = house.ask("POST", "//abaca/v1/servers", {"server": machine}, who="admin")["server"]["id"]
    wish = {"attachment": {"share_id": share_id, "server_id": server_id}}
    one = f"//abaca/v1/attachments/{house.ask('POST', '//abaca/v1/attachments', wish)['attachment']['id']}"
    wait_until(lambda: house.ask("GET", one)["attachment"]["state"] == "active")
    house.ask("DELETE", one)
    wanted = ["share.attach.start", "share.attach.end", "share.detach.start", "share.detach.end"]
    wait_until(lambda: receiver.types(one.rpartition("/")[2]) == wanted)
    told = [post.event for post in receiver.first() if post.event["resource_type"] == "attachment"]
    assert [event["payload"]["state"] for event in told] == ["attaching", "active", "detaching", "detached"]
    assert {(event["payload"]["share_id"], event["payload"]["server_id"]) for event in told} == {(share_id, server_id)}


def told_in(log):
    return [line for line in log.splitlines() if " abaca.events " in line]


def test_an_answer_of_500_is_tried_again_and_nothing_overtakes_it(house, receiver):
    failing = iter([500, 503, 302, 429])
    receiver.answer = lambda post: next(failing, 200)
    house.work()
    share_id = live(house)
    receiver.until(len(LIFE))
    assert receiver.types(share_id) == LIFE
    assert len(receiver.refused) == 4
    assert {post.id for post in receiver.refused} <= {post.id for post in receiver.taken}


def test_a_receiver_that_is_away_gets_everything_when_it_is_back(house, receiver):
    receiver.close()
    house.work()
    shares = [house.share() for _ in range(3)]
    for share_id in shares:
        house.until_available(share_id)
    stuck = wait_until(lambda: [one for one in targets(house) if one["problem"]])
    assert [one["name"] for one in stuck] == ["webhook_audit"]
    assert stuck[0]["undelivered"] == 6
    assert "Connection refused" in stuck[0]["problem"]
    assert "in-the-query" not in json.dumps(stuck) + house.log
    receiver.open()
    receiver.until(6)
    for share_id in shares:
        assert receiver.types(share_id) == LIFE[:2]
    wait_until(lambda: not any(one["undelivered"] or one["problem"] for one in targets(house)))
    assert house.command("event", "retry", "webhook_audit") == "Events for webhook_audit are tried now.\n"
    listed = json.loads(house.command("event", "list", "--resource", shares[0], "--json"))
    assert [(one["event_type"], one["undelivered"]) for one in listed] == [(LIFE[1], 0), (LIFE[0], 0)]


def targets(house):
    return json.loads(house.command("event", "targets", "--json"))


def test_a_refused_event_holds_up_its_own_share_alone(house, receiver):
    unwanted = []
    receiver.answer = lambda post: 400 if post.event["resource_id"] in unwanted or not unwanted else 200
    house.work()
    first = house.share()
    wait_until(lambda: receiver.refused)
    unwanted.append(first)
    second = house.share()
    for share_id in (first, second):
        house.until_available(share_id)
    wait_until(lambda: receiver.types(second) == LIFE[:2])
    assert receiver.types(first) == []
    assert {post.type for post in receiver.refused} == {LIFE[0]}
    receiver.answer = lambda post: 200
    wait_until(lambda: receiver.types(first) == LIFE[:2])


def test_killed_in_the_middle_of_sending_nothing_is_lost(house, receiver):
    arrived, go_on = threading.Event(), threading.Event()

    def hold(post):
        if len(receiver.taken) >= 10:
            arrived.set()
            assert go_on.wait(60)
        return 200

    receiver.answer = hold
    victim = house.work()
    shares = [house.share() for _ in range(12)]
    assert arrived.wait(60)
    house.kill(victim)
    go_on.set()
    house.work()
    for share_id in shares:
        house.until_available(share_id)
    receiver.until(24)
    for share_id in shares:
        assert receiver.types(share_id) == LIFE[:2]


def test_the_secret_is_nowhere_but_in_its_file(house, receiver):
    receiver.answer = lambda post: 500
    worker = house.work()
    house.until_available(house.share())
    wait_until(lambda: len(receiver.refused) > 2)
    shown = house.command("config", "check", "--all") + house.command("event", "targets")
    shown += (
        Path(f"/proc/{worker.pid}/cmdline").read_text()
        + house.log
        + str([(post.headers, post.body) for post in receiver.refused])
    )
    assert SECRET not in shown
    assert SECRET.encode() not in b"".join(file.read_bytes() for file in house.directory.glob("abaca.*"))


def test_ensuring_is_told_with_its_counts(house, receiver):
    house.work()
    for _ in range(3):
        house.until_available(house.share())
    receiver.until(6)
    house.ask("POST", "/services/ensure-shares", {"host": "testhost@alpha"}, who="admin")
    wait_until(lambda: "share.ensure.end" in receiver.types())
    told = [post.event for post in receiver.first() if post.type.startswith("share.ensure")]
    start, end = told[-2:]
    assert (start["event_type"], start["payload"]["total"]) == ("share.ensure.start", 3)
    assert (end["event_type"], end["payload"]["unchanged"], end["payload"]["failed"]) == ("share.ensure.end", 3, 0)
    assert start["payload"]["host"] == end["payload"]["host"] == "testhost@alpha"


def test_a_receiver_that_never_answers_holds_up_neither_the_log_nor_the_worker(house, receiver):
    over = threading.Event()
    receiver.answer = lambda post: over.wait(60) and 200
    worker = house.work()
    house.until_available(house.share())
    wait_until(lambda: f"event={LIFE[1]}" in house.log)
    worker.terminate()
    try:
        assert worker.wait(8) == 0
    finally:
        over.set()


def test_a_receiver_with_a_certificate_of_its_own_is_believed_through_ca_file(tmp_path):
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost"
    more = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    processes.command(["openssl", *words.split(), *more])
    receiver = Receiver().open(tls=(certificate, key))
    url = f"https://localhost:{receiver.port}/"
    stranger = Webhook("audit", url, b"x" * 16, timeout_s=60, concurrency=1)
    with pytest.raises(Away, match="cannot prove who it is"):
        stranger.send(EVENT)
    known = Webhook("audit", url, b"x" * 16, timeout_s=60, concurrency=1, ca_file=str(certificate))
    known.send(EVENT)
    assert [post.id for post in receiver.taken] == ["e1"]
    for one in (stranger, known):
        one.close()
    receiver.close()


def told(answer):
    """What becomes of an event at a receiver that answers so and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.ExitStack() as stack:

        def serve():
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        served = threading.Thread(target=serve)
        served.start()
        stack.callback(served.join)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/hook?token=hush"
        stack.enter_context(contextlib.closing(one := Webhook("audit", url, b"x" * 16, timeout_s=60, concurrency=1)))
        one.send(EVENT)


@pytest.mark.parametrize(
    "drip", [b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500, b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"]
)
def test_a_receiver_that_drips_is_let_go_in_time(drip):
    """A byte now and then: each comes in time, and the whole never does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ended = threading.Event()

        def serve():
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(65536)
                for byte in drip + b"x" * 9999:
                    connection.sendall(bytes([byte]))
                    if ended.wait(0.02):
                        return

        served = threading.Thread(target=serve)
        served.start()
        begun = time.monotonic()
        one = Webhook("audit", f"http://127.0.0.1:{server.getsockname()[1]}/", b"x" * 16, timeout_s=0.5, concurrency=1)
        with contextlib.closing(one), contextlib.suppress(Away):
            one.send(EVENT)
        assert time.monotonic() - begun < 60 * one.timeout_s
        ended.set()
        served.join()


@pytest.mark.parametrize(
    "length", [b"20", b"\xb2", b"9" * 5000, b"-1"], ids=["too long", "no digit", "huge", "negative"]
)
def test_what_was_taken_has_arrived_however_its_answer_ends(length):
    told(b"HTTP/1.1 200 OK\r\nContent-Length: " + length + b"\r\n\r\nshort")


@pytest.mark.parametrize("answer", [b"", b"220 mail.example ESMTP\r\n", b"HTTP/1.1 abc OK\r\n\r\n", b"\0" * 70000])
def test_a_receiver_that_talks_something_else_is_away(answer):
    with pytest.raises(Away, match="cannot be reached") as raised:
        told(answer)
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize("url", ["http://a..b/", f"http://{'a' * 64}.invalid/", "http://.invalid/"])
def test_a_receiver_whose_name_cannot_be_one_is_away(url):
    one = Webhook("audit", url, b"x" * 16, timeout_s=60, concurrency=1)
    with contextlib.closing(one), pytest.raises(Away, match="cannot be reached"):
        one.send(EVENT)


EVENT = Event(
    id="e1",
    event_type="share.create.end",
    resource_type="share",
    resource_id="s1",
    project_id=None,
    user_id=None,
    request_id=None,
    created_at=datetime.datetime(2026, 1, 1),  # noqa: DTZ001 - as the database has it
    payload={},
)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("", "webhook audit is named in [events] but has no section"),
        ("[webhook_audit]\nsecret_file = {secret}", "does not set url"),
        ("[webhook_audit]\nurl = ftp://x/\nsecret_file = {secret}", "url in [webhook_audit] cannot be its value"),
        ("[webhook_audit]\nurl = http://u:hush@x/\nsecret_file = {secret}", "url in [webhook_audit] cannot be"),
        ("[webhook_audit]\nurl = http://x/\nsecret_file = {secret}.not", "cannot be read: No such file"),
        ("[webhook_audit]\nurl = http://x/\nsecret_file = {short}", "holds fewer than 16 characters"),
        (
            "[webhook_audit]\nurl = http://x/\nsecret_file = {secret}\n[webhook_other]\nurl = http://x/",
            "unknown section [webhook_other]",
        ),
    ],
    ids=["no section", "no url", "scheme", "password", "no secret", "short secret", "not named"],
)
def test_what_cannot_work_is_refused_at_the_start_in_one_line(tmp_path, section, said):
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "short").write_text("hush")
    told = section.format(secret=tmp_path / "secret", short=tmp_path / "short")
    config = tmp_path / "abaca.conf"
    config.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n[events]\nwebhooks = audit\n{told}\n")
    argv = [sys.executable, "-m", "abaca", "worker", "--config-file", str(config)]
    ended = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 78
    (line,) = ended.stderr.strip().splitlines()
    assert said in line
    assert "hush" not in line
