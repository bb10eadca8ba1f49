# SPDX-License-Identifier: Apache-2.0
"""`abaca run` as an operator starts, kills and stops it."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from abaca.cli import exits, ports
from lab import processes
from tests.conftest import wait_until
from tests.databases import postgres  # noqa: F401 (a fixture)
from tests.system.running import START_S


def test_it_starts_with_nothing_but_a_state_directory_and_answers(started):
    running = started().wait_until_it_answers()
    assert json.loads(running.get("/healthcheck")[1]) == {"detailed": False, "reasons": ["OK"]}
    assert running.get("/")[0] == 300
    status, said = running.get("/v2/shares/detail")
    assert (status, json.loads(said)) == (200, {"shares": []})


def test_a_scrape_of_the_api_shows_the_worker_too(started):
    running = started().wait_until_it_answers()
    running.get("/v2/shares")
    said = running.get("/metrics")[1]
    assert 'abaca_api_requests_total{method="GET",route="/v2/shares",status="200"} 1.0' in said
    assert 'abaca_driver_call_seconds_count{backend="dummy",call="start"} 1.0' in said


def test_all_of_it_is_small_once_the_api_is_ready_for_many_callers(started):
    running = started().wait_until_it_answers()
    api, database = running.children()["api"], str(running.state / "abaca.sqlite")
    # as many connections to look with as there are threads, and as many to write with
    wait_until(
        lambda: [os.path.realpath(file) for file in Path(f"/proc/{api}/fd").iterdir()].count(database) >= 4, START_S
    )
    pids = [running.pid, *running.children().values()]
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    assert pages * os.sysconf("SC_PAGESIZE") / 2**20 < 176


def test_term_stops_everything_within_seconds_and_the_next_start_goes_on(started, tmp_path):
    first = started().wait_until_it_answers()
    first.process.send_signal(signal.SIGTERM)
    assert first.ended() == 0
    assert list(first.state.glob("*.wake")) == []
    again = started().wait_until_it_answers()
    assert again.get("/healthcheck")[0] == 200


def test_a_signal_to_everybody_lets_everybody_end_in_peace(started):
    """As a terminal or `timeout` sends it: to the supervisor twice, and to its children as well."""
    running = started().wait_until_it_answers()
    for pid in (running.pid, running.pid, *running.children().values()):
        os.kill(pid, signal.SIGTERM)
    assert running.ended() == 0
    assert "killed" not in running.said()


def test_interrupt_stops_it_too(started):
    running = started().wait_until_it_answers()
    running.process.send_signal(signal.SIGINT)
    assert running.ended() == 0


def test_a_second_start_on_the_same_state_is_refused_in_one_line(started):
    first = started().wait_until_it_answers()
    with_log = first.state.parent / "second"
    with_log.mkdir()
    (with_log / "state").symlink_to(first.state)
    second = started(directory=with_log)
    assert second.ended() == exits.EX_CONFIG
    assert f"is in use (process {first.pid}). Stop that `abaca run` first" in second.said()
    assert second.said().count("\n") == 1
    assert first.answers()


def test_a_killed_supervisor_leaves_no_child(started):
    running = started().wait_until_it_answers()
    children = running.children()
    assert set(children) == {"api", "worker"}
    running.process.kill()
    running.ended()
    wait_until(lambda: not any(processes.alive(pid) for pid in children.values()))
    started(port=running.port).wait_until_it_answers()


@pytest.mark.parametrize("program", ["api", "worker"])
def test_a_killed_child_is_started_again(started, program):
    running = started().wait_until_it_answers()
    before = running.children()
    os.kill(before[program], signal.SIGKILL)
    wait_until(lambda: running.children().get(program, before[program]) != before[program], START_S)
    wait_until(running.answers, START_S)
    assert "was killed by SIGKILL; it starts again in" in running.said()
    other = "worker" if program == "api" else "api"
    assert running.children()[other] == before[other]


def test_a_child_that_cannot_be_started_again_takes_nobody_with_it(started, tmp_path):
    environment = tmp_path / "environment"  # of Python, as it is while a package is replaced
    environment.symlink_to(sys.prefix)
    running = started(python=environment / "bin" / "python").wait_until_it_answers()
    environment.unlink()
    os.kill(running.children()["worker"], signal.SIGKILL)
    wait_until(lambda: "the worker cannot be started: No such file or directory" in running.said(), START_S)
    assert running.answers()
    environment.symlink_to(sys.prefix)
    wait_until(lambda: running.said().count("is served") == 2, START_S)


def test_as_the_first_process_of_a_container_it_buries_orphans(started):
    """Daemons of drivers become its children there, and must not stay as zombies when they end."""
    outer = started(before=("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")).wait_until_it_answers()
    (first,) = processes.children(outer.pid)
    orphan = "import os, time; os.fork() or time.sleep(0.5)"
    enter = ["nsenter", f"--target={first}", "--pid", "--mount", sys.executable, "-c", orphan]
    subprocess.run(enter, check=True, timeout=START_S)
    wait_until(lambda: len(processes.children(first)) == 3)
    wait_until(lambda: len(processes.children(first)) == 2)
    os.kill(first, signal.SIGTERM)
    assert outer.ended() == 0


def test_a_taken_port_is_refused_in_one_line(started):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        running = started(port=port)
        assert running.ended() == exits.EX_CONFIG
    assert (
        f"127.0.0.1 port {port} cannot be listened on: Address already in use. Stop what listens there"
        in running.said()
    )
    assert running.said().count("\n") == 1


def test_a_port_that_another_abaca_listens_on_is_refused(started, tmp_path):
    first = started().wait_until_it_answers()
    other = tmp_path / "other"
    other.mkdir()
    second = started(directory=other, port=first.port)
    assert second.ended() == exits.EX_CONFIG
    assert "Address already in use" in second.said()


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"OS_DEFAULT__OSAPI_MAX_LIMITS": "1"}, "Did you mean osapi_max_limit?"),
        ({"OS_DEFAULT__OSAPI_SHARE_LISTEN": "0.0.0.0"}, "Set auth_strategy to keystone or http_basic"),
        ({"OS_DATABASE__CONNECTION": "mysql://x/y"}, "[database] connection is neither SQLite nor PostgreSQL"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(started, environ, says):
    running = started(**environ)
    assert running.ended() == exits.EX_CONFIG
    assert says in running.said()
    assert running.said().count("\n") == 1


def test_an_address_that_is_not_there_yet_may_come(started):
    """Whoever restarts services tries again, as it does not for a configuration that only a person can mend."""
    users = {"OS_DEFAULT__AUTH_STRATEGY": "http_basic", "OS_DEFAULT__HTTP_BASIC_AUTH_USER_FILE": os.devnull}
    running = started(OS_DEFAULT__OSAPI_SHARE_LISTEN="192.0.2.1", **users)
    assert running.ended() == exits.EX_FAILED
    assert "192.0.2.1 port" in running.said()
    assert "Cannot assign requested address" in running.said()
    assert running.said().count("\n") == 1


def test_a_database_that_is_away_is_waited_for_without_telling_its_password(started, tmp_path, postgres):  # noqa: F811
    url = postgres.new_database().replace("postgresql+psycopg", "postgresql")
    name = url.rpartition("/")[2]
    postgres.stop(mode="fast")
    running = started("api", OS_DATABASE__CONNECTION=url.replace("abaca@", "abaca:hush@"))
    wait_until(lambda: "does not answer" in running.said() or running.process.poll() is not None, START_S)
    assert running.process.poll() is None
    postgres.start()
    wait_until(running.answers, START_S)
    assert name in running.said()
    assert "hush" not in running.said()


def test_a_child_that_cannot_work_ends_it_all_with_its_reason(started):
    running = started(OS_DUMMY__NO_SUCH_OPTION="1")
    assert running.ended() == exits.EX_CONFIG
    assert "[dummy] has no option 'no_such_option'" in running.said()


def test_an_unwritable_state_directory_is_refused(started, tmp_path):
    (tmp_path / "state").write_text("a file")
    running = started()
    assert running.ended() == exits.EX_CONFIG
    assert "cannot be written" in running.said()


def test_api_and_worker_run_apart_as_well(started):
    worker = started("worker")
    wait_until(lambda: "is served" in worker.said(), START_S)
    api = started("api")
    wait_until(api.answers, START_S)
    for program in (api, worker):
        program.process.send_signal(signal.SIGTERM)
        assert program.ended() == 0


def test_a_second_worker_of_the_same_name_is_refused(started):
    first = started("worker")
    wait_until(lambda: "is served" in first.said(), START_S)
    second = started("worker")
    assert second.ended() == exits.EX_CONFIG
    assert "Stop the worker of that name first" in second.said()


def test_several_api_processes_share_the_port(started):
    running = started("api", OS_DEFAULT__OSAPI_SHARE_WORKERS="2")
    wait_until(lambda: len(processes.children(running.pid)) == 2, START_S)
    wait_until(running.answers, START_S)
    assert len(processes.children(running.pid)) == 2
    running.process.send_signal(signal.SIGTERM)
    assert running.ended() == 0


def test_no_secret_is_in_the_command_lines_nor_in_the_logs(started):
    secret = "hush-hush-hush"
    running = started(OS_DEFAULT__DEBUG="yes", OS_KEYSTONE_AUTHTOKEN__PASSWORD=secret).wait_until_it_answers()
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", "/v2/shares", headers={"X-Auth-Token": secret, "Authorization": f"Basic {secret}"})
        connection.getresponse().read()
    pids = [running.pid, *running.children().values()]
    assert not any(secret in Path(f"/proc/{pid}/cmdline").read_text() for pid in pids)
    assert secret not in running.said()


class Asking(threading.Thread):
    """A client that asks again and again on a new connection, until told to stop; what it got."""

    def __init__(self, running):
        super().__init__()
        self.running = running
        self.is_over = threading.Event()
        self.answered = 0
        self.refused = []
        self.cut_off = []
        self.start()

    def run(self):
        while not self.is_over.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self.running.port, timeout=START_S)
            with contextlib.closing(connection):
                try:
                    connection.request("GET", "/healthcheck")
                    self.answered += connection.getresponse().status == 200
                except ConnectionRefusedError as error:
                    self.refused.append(error)
                except OSError as error:
                    self.cut_off.append(error)

    def until_answered_again(self):
        before = self.answered
        wait_until(lambda: self.answered > before + 5, START_S)


@pytest.fixture
def asking(request):
    def asking(running):
        made = Asking(running)
        request.addfinalizer(made.join)
        request.addfinalizer(made.is_over.set)
        made.until_answered_again()
        return made

    return asking


def test_no_connection_is_refused_while_a_killed_api_starts_again(started, asking):
    running = started().wait_until_it_answers()
    client = asking(running)
    before = running.children()["api"]
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: running.children().get("api", before) != before, START_S)
    client.until_answered_again()
    assert client.refused == []


def test_no_connection_is_refused_while_all_of_it_starts_again(started, asking):
    running = started().wait_until_it_answers()
    client = asking(running)
    before = running.children()
    running.process.send_signal(signal.SIGUSR2)
    wait_until(lambda: running.said().count("the API answers at") == 2, START_S)
    client.until_answered_again()
    assert set(running.children().values()).isdisjoint(before.values())
    assert (client.refused, client.cut_off) == ([], [])
    running.process.send_signal(signal.SIGTERM)
    wait_until(lambda: processes.is_free("127.0.0.1", running.port))
    assert running.ended() == 0


# Hands on a socket as systemd does.
HANDS_ON = """
import os, socket, sys
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}
os.execv(sys.argv[1], sys.argv[1:])
"""
# The same with one at another address, as a socket unit has whose address was not changed with the configuration.
ELSEWHERE = f"""
import os, socket
listening = socket.create_server(("127.0.0.2", int(os.environ["OS_DEFAULT__OSAPI_SHARE_LISTEN_PORT"])))
os.dup2(listening.detach(), 3)
os.set_inheritable(3, True)
{HANDS_ON}"""


def test_a_socket_handed_on_at_another_address_is_not_served(started):
    running = started("api", before=(sys.executable, "-c", ELSEWHERE))
    wait_until(running.answers, START_S)
    assert f"listens at 127.0.0.2 port {running.port}, not at 127.0.0.1 port" in running.said()
    assert not ports.is_listened_on("127.0.0.2", running.port)


def test_a_socket_that_was_not_handed_on_after_all_is_done_without(started):
    running = started("api", before=(sys.executable, "-c", HANDS_ON))
    wait_until(running.answers, START_S)
    assert "and there is none: Bad file descriptor" in running.said()
