# SPDX-License-Identifier: Apache-2.0
"""The tour holds on this machine, with and without root, serves real clients, and leaves nothing behind."""

import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab import client, processes, runs
from tests.conftest import ROOT, wait_until

pytestmark = pytest.mark.system

TOUR = [sys.executable, "-m", "lab.tour"]
AS_USER = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]


def take(*argv: str) -> list[str]:
    done = subprocess.run([*argv], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def held(lines: list[str]) -> list[str]:
    found = [re.fullmatch(r"held +\d+\.\d\d s  (.*)", line) for line in lines]
    return [match.group(1) for match in found if match]


def test_without_root_the_tour_says_what_it_leaves_out() -> None:
    lines = take(*AS_USER, *TOUR, "--once", "--port", str(processes.free_port()))
    assert "Without mounting" in lines[0]
    assert any("attached to that server" in step and "on paper" in step for step in held(lines))
    on_paper = ("lets one address into the snapshot", "made from the snapshot", "taken back to its snapshot")
    elsewhere = ("a third subnet is added while it serves", "taken over where it lies", "handed to the user's project")
    for word in (*on_paper, *elsewhere):
        assert any(word in step for step in held(lines)), word
    assert lines[-1] == f"tour: {len(held(lines))} steps, 0 failed"


class Stranger(http.server.BaseHTTPRequestHandler):
    """Says that it is well, as another Abaca would."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()


def test_a_tour_whose_port_is_taken_says_so() -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stranger) as stranger:
        threading.Thread(target=stranger.serve_forever, daemon=True).start()
        argv = [*AS_USER, *TOUR, "--once", "--port", str(stranger.server_port)]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        stranger.shutdown()
    assert done.returncode == 1
    assert f"127.0.0.1 port {stranger.server_port} is taken" in done.stdout
    assert "held" not in done.stdout  # nothing was booted or started for it
    hint = re.search(r"`(make run PORT=\d+)`", done.stdout)
    assert hint is not None
    shown = subprocess.run([*hint.group(1).split(), "-n"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert '-m lab.tour  --port "$PORT"' in shown.stdout


@dataclass
class Serving:
    """A tour that goes on serving."""

    process: subprocess.Popen[str]
    state: Path
    lines: list[str]
    facts: dict[str, Any]
    elsewhere: subprocess.Popen[str]
    said_elsewhere: Path


def clone(place: Path) -> dict[str, str]:
    """Another clone, and the environment in which its own code is run."""
    for name in ("src", "lab"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    return {**os.environ, "PYTHONPATH": str(place / "src")}


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    client.need()
    place = tmp_path_factory.mktemp("tour")
    state, output = place / "state", place / "output"
    other, said = place / "clone", place / "elsewhere"
    environment = clone(other)
    argv = [*TOUR, "--state", str(state), "--port", str(processes.free_port())]
    once = [*TOUR, "--once", "--port", str(processes.free_port())]
    with (
        output.open("w") as file,
        said.open("w") as said_file,
        subprocess.Popen(argv, cwd=ROOT, stdout=file, text=True) as process,
        subprocess.Popen(once, cwd=other, env=environment, stdout=said_file, text=True) as elsewhere,
    ):
        wait_until(lambda: "Ctrl-C" in output.read_text() or process.poll() is not None, timeout_s=480)
        assert process.poll() is None, output.read_text()
        records = (runs.read(record) for record in runs.records_directory().glob("*.json"))
        facts = next(facts for facts in records if facts and facts["owner"] == process.pid)
        yield Serving(process, state, output.read_text().splitlines(), facts, elsewhere, said)
        process.kill()
        elsewhere.kill()


def test_every_step_of_the_tour_holds(serving: Serving) -> None:
    said = held(serving.lines)
    assert f"tour: {len(said)} steps, 0 failed" in serving.lines
    by_hand = ("mounts the share", "unchanged", "stopped at its size", "no longer write")
    by_call = ("attached to that server", "holds what was written", "neither the mount nor access", "server is removed")
    by_action = ("an action of the server attaches", "the opposite action")
    restored = (
        "a snapshot of the share is taken",
        "deletes what it wrote",
        "mounts the snapshot, read-only, and reads there what it has deleted",
        "another share is made from the snapshot",
        "taken back to its snapshot",
    )
    on_networks = ("two subnets", "answers on both", "a third subnet is added while it serves")
    taken_over = (
        "a user has a directory",
        "taken over where it lies",
        "handed to the user's project",
        "finds the files",
    )
    for word in (*by_hand, *by_call, *by_action, *restored, *on_networks, *taken_over, "deleted and gone"):
        assert any(word in step for step in said), word


def test_another_clone_takes_its_tour_at_the_same_time(serving: Serving) -> None:
    assert serving.elsewhere.wait(480) == 0, serving.said_elsewhere.read_text()
    lines = serving.said_elsewhere.read_text().splitlines()
    assert lines[-1] == f"tour: {len(held(lines))} steps, 0 failed"
    assert not any(line.startswith("Without mounting") for line in lines)
    assert serving.process.poll() is None


@pytest.fixture(scope="module")
def openstack(serving: Serving) -> Callable[..., str]:
    def run(*words: str) -> str:
        argv = [str(Path(sys.executable).with_name("openstack")), "--os-cloud", "abaca", *words]
        clouds = {**os.environ, "OS_CLIENT_CONFIG_FILE": str(serving.state / "clouds.yaml")}
        done = subprocess.run(argv, env=clouds, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_openstack_client_works_with_the_clouds_file(openstack: Callable[..., str]) -> None:
    def share(*words: str) -> Any:
        return json.loads(openstack("share", *words, "-f", "json"))

    assert share("create", "NFS", "1", "--name", "first", "--wait")["status"] == "available"
    assert share("access", "create", "first", "ip", "192.0.2.7", "--wait")["state"] == "active"
    assert share("export", "location", "list", "first")
    assert [found["Name"] for found in share("list")] == ["first"]


def test_what_the_tour_advises_attaches_a_share(serving: Serving, openstack: Callable[..., str]) -> None:
    openstack("share", "create", "NFS", "1", "--name", "second", "--wait")
    openstack("server", "add", "share", "client", "second")
    advised = next(line.split() for line in serving.lines if "attachment list" in line)

    def attachments() -> list[Any]:
        return list(json.loads("".join(take(*advised, "--json"))))

    wait_until(lambda: [one["state"] for one in attachments()] == ["active"], every_s=0.5)
    openstack("server", "remove", "share", "client", "second")
    wait_until(lambda: attachments() == [], every_s=0.5)


def test_nothing_outlives_a_tour_that_is_killed(serving: Serving) -> None:
    kinds = {line.split()[0] for line in runs.leftovers(serving.facts)}
    assert kinds >= {"process", "mount", "interface", "loop", "directory"}
    serving.process.send_signal(signal.SIGKILL)
    serving.process.wait(60)
    wait_until(lambda: not runs.leftovers(serving.facts))
    assert (serving.state / "clouds.yaml").exists()


def test_a_tour_goes_on_with_the_state_of_a_killed_one(serving: Serving) -> None:
    wait_until(lambda: serving.process.poll() is not None and not runs.leftovers(serving.facts))
    lines = take(*TOUR, "--once", "--state", str(serving.state), "--port", str(processes.free_port()))
    assert any("was there already" in line for line in lines)
    assert lines[-1] == f"tour: {len(held(lines))} steps, 0 failed"


def test_a_state_directory_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    argv = [*TOUR, "--once", "--state", str(tmp_path)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "not a state directory of the lab" in done.stdout
    assert list(tmp_path.iterdir()) == [tmp_path / "precious"]
