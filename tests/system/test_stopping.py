# SPDX-License-Identifier: Apache-2.0
"""Programs are told to stop at any moment, and end in peace, soon, and with nobody left waiting."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from abaca.db.engine import schema
from lab import processes
from tests.conftest import wait_until
from tests.system.running import START_S

AS_THE_FIRST = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


def test_term_right_after_the_start_lets_everybody_end_in_peace(started):
    """When there are children, the supervisor is still being loaded."""
    running = started()
    wait_until(lambda: processes.children(running.pid), START_S)
    running.process.send_signal(signal.SIGTERM)
    assert running.ended() == 0


def test_term_right_after_the_start_is_heard_in_a_container_too(started):
    outer = started(before=AS_THE_FIRST)
    first = wait_until(lambda: processes.children(outer.pid), START_S)[0]
    wait_until(lambda: processes.children(first), START_S)
    os.kill(first, signal.SIGTERM)
    assert outer.ended() == 0


TOLD_WHILE_IT_COLLECTS = """
import os, signal, sys

class Collected:
    def __del__(self):
        os.kill(os.getpid(), signal.NUMBER)

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if callable(signal.getsignal(signal.SIGTERM)):
            sys.meta_path.remove(Finder)
            Collected()

sys.meta_path.insert(0, Finder)
"""


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("program", ["run", "api", "worker"])
def test_the_end_is_heard_while_python_collects(started, tmp_path, program, number):
    """At the first import after the program has said what it means; an exception that is raised there is dropped."""
    (tmp_path / "sitecustomize.py").write_text(TOLD_WHILE_IT_COLLECTS.replace("NUMBER", number))
    running = started(program, PYTHONPATH=str(tmp_path))
    assert running.ended() == 0
    assert running.said() == ""


def test_an_upgrade_of_sqlite_ends_with_who_began_it(started, tmp_path):
    (tmp_path / "state").mkdir()
    file = tmp_path / "state" / "abaca.sqlite"
    schema.upgrade(f"sqlite:///{file}")
    schema.downgrade(f"sqlite:///{file}", "0027")
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # so that it takes long
        running = started()
        upgrading = wait_until(lambda: "upgrading" in running.said() and processes.children(running.pid), START_S)
        running.process.send_signal(signal.SIGTERM)
        assert running.ended() == 0
    assert not any(map(processes.alive, upgrading))
    restarted = started().wait_until_it_answers()
    restarted.process.send_signal(signal.SIGTERM)
    assert restarted.ended() == 0


def test_hup_right_after_the_start_is_not_lost(started):
    running = started()
    wait_until(lambda: processes.children(running.pid), START_S)
    running.process.send_signal(signal.SIGHUP)
    running.wait_until_it_answers()
    assert "starts again" not in running.said()


@pytest.mark.parametrize("program", ["run", "api", "worker"])
def test_hup_waits_until_a_program_has_said_what_it_means(started, program):
    """Long before it has read its configuration."""
    running = started(program)
    wait_until(lambda: holds(running.pid, signal.SIGHUP), START_S, every_s=0.001)
    assert not list(running.state.parent.glob("state/*"))
    running.process.send_signal(signal.SIGHUP)
    ready = {"run": "the API answers", "api": "the API answers", "worker": "back end dummy is served"}[program]
    wait_until(lambda: ready in running.said() or running.process.poll() is not None, START_S)
    assert running.process.poll() is None


def holds(pid, number):
    """Whether a process keeps a signal waiting."""
    (mask,) = re.findall(r"SigBlk:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
    return int(mask, 16) >> (number - 1) & 1


@pytest.mark.parametrize("program", ["api", "worker"])
def test_as_the_first_process_of_a_container_a_program_that_waits_for_its_database_ends(started, program):
    """The kernel keeps signals from a first process that has not said what to do with them."""
    with socket.socket() as nobody:  # bound, and never listened on
        nobody.bind(("127.0.0.1", 0))
        url = f"postgresql://abaca@127.0.0.1:{nobody.getsockname()[1]}/abaca"
        outer = started(program, before=AS_THE_FIRST, OS_DATABASE__CONNECTION=url)
        wait_until(lambda: "does not answer" in outer.said() or outer.process.poll() is not None, START_S)
        (first,) = processes.children(outer.pid)
        os.kill(first, signal.SIGTERM)
        assert outer.ended() == 0


def test_a_worker_in_whose_driver_calls_hang_ends_all_the_same(started):
    """They run in threads of a pool, which Python would wait for."""
    environ = {"OS_DUMMY__DRIVER": "dummy_each", "OS_DUMMY__DELAYS": "create:600", "OS_WORKER__STOP_S": "0.2"}
    api = started("api", **environ)
    worker = started("worker", **environ)
    wait_until(lambda: api.answers() and "back end dummy is served" in worker.said(), START_S)
    asked(api, "/types", {"share_type": {"name": "any", "extra_specs": {"driver_handles_share_servers": "False"}}})
    asked(api, "/shares", {"share": {"share_proto": "NFS", "size": 1, "share_type": "any"}})
    wait_until(lambda: '"state":"running"' in api.get("/abaca/v1/operations")[1].replace(" ", ""))
    worker.process.send_signal(signal.SIGTERM)
    assert worker.ended() == 0


def test_shares_can_be_ensured_while_their_worker_restarts(started):
    api, worker = started("api"), started("worker")
    wait_until(lambda: api.answers() and "back end dummy is served" in worker.said(), START_S)
    worker.process.send_signal(signal.SIGTERM)
    assert worker.ended() == 0
    asked(api, "/services/ensure-shares", {"host": "here@dummy"})
    started("worker")
    wait_until(lambda: not asked(api, "/services")["services"][0]["ensuring"], START_S)


def test_after_a_long_stop_a_share_waits_for_its_back_end_to_start(started):
    """As after a reboot: the API answers before the back end's storage is there."""
    api, before = started("api"), started("worker")
    wait_until(lambda: api.answers() and "back end dummy is served" in before.said(), START_S)
    before.process.send_signal(signal.SIGTERM)
    assert before.ended() == 0
    with contextlib.closing(sqlite3.connect(api.state / "abaca.sqlite")) as database:
        database.execute("UPDATE services SET heartbeat_at = '2026-01-01 00:00:00.000000'")
        database.commit()
    asked(api, "/types", {"share_type": {"name": "any", "extra_specs": {"driver_handles_share_servers": "False"}}})
    started("worker", OS_DUMMY__DELAYS="start:3")
    wait_until(lambda: [*api.state.glob("*.wake")], START_S)
    asked(api, "/shares", {"share": {"share_proto": "NFS", "size": 1, "share_type": "any"}})
    assert api.said().count("back end dummy is served") == 1
    status = wait_until(lambda: settled(api), START_S)
    assert status == "available"


def settled(api):
    """The status of the only share, once it is no longer busy."""
    (share,) = asked(api, "/shares/detail")["shares"]
    return share["status"] if share["status"] in ("available", "error") else None


def test_of_two_workers_of_a_back_end_one_stops_and_nobody_sees_it(started):
    rarely = {"OS_DEFAULT__REPORT_INTERVAL": "100", "OS_DEFAULT__SERVICE_DOWN_TIME": "300"}
    api = started("api", **rarely)
    one, _two = (started("worker", OS_WORKER__NAME=name, **rarely) for name in ("one", "two"))
    wait_until(lambda: api.answers() and api.said().count("back end dummy is served") == 2, START_S)
    one.process.send_signal(signal.SIGTERM)
    assert one.ended() == 0
    wait_until(lambda: [service["state"] for service in asked(api, "/services")["services"]] == ["up"])


def test_requests_under_way_are_answered(started):
    """More than there are threads for them."""
    running = started().wait_until_it_answers()
    asked(running, "/types", {"share_type": {"name": "any", "extra_specs": {"driver_handles_share_servers": "False"}}})
    lock = sqlite3.connect(running.state / "abaca.sqlite", isolation_level=None)
    with contextlib.closing(lock), ThreadPoolExecutor(20) as pool:
        lock.execute("BEGIN IMMEDIATE")
        body = {"share": {"share_proto": "NFS", "size": 1, "share_type": "any"}}
        posts = [pool.submit(asked, running, "/shares", body) for _ in range(20)]
        wait_until(lambda: connections_to(running.port) >= 20)
        running.process.send_signal(signal.SIGTERM)
        wait_until(lambda: processes.is_free("127.0.0.1", running.port))
        lock.execute("ROLLBACK")
        assert len({post.result()["share"]["id"] for post in posts}) == 20
    assert running.ended() == 0


@pytest.mark.parametrize("processes_of_it", [1, 2])
def test_an_api_whose_terminal_is_gone_ends(started, processes_of_it):
    ours, theirs = os.openpty()
    try:
        running = started("api", stdin=theirs, OS_DEFAULT__OSAPI_SHARE_WORKERS=str(processes_of_it))
        wait_until(running.answers, START_S)
        running.process.send_signal(signal.SIGHUP)
        running.ended()
        wait_until(lambda: processes.is_free("127.0.0.1", running.port))
    finally:
        os.close(ours)
        os.close(theirs)


def connections_to(port):
    """How many clients on this host are connected to a port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


def asked(api, path, body=None):
    """What the newest version answers to a request."""
    headers = {"X-OpenStack-Manila-API-Version": "2.99", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=30)
    with contextlib.closing(connection):
        connection.request("POST" if body else "GET", f"/v2{path}", json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        said = answer.read()
    assert answer.status < 300, said
    return json.loads(said) if said else None
