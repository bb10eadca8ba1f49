# SPDX-License-Identifier: Apache-2.0
"""The worker's own page of figures, as Prometheus asks for it."""

import contextlib
import http.client
import os
import socket
import subprocess
import sys

import pytest

from abaca.cli import exits
from abaca.metrics import CONTENT_TYPE
from lab import processes
from tests.conftest import wait_until


@pytest.fixture
def worker(config, tmp_path):
    """Starts a worker that serves figures at an address and a port."""
    with contextlib.ExitStack() as stack:

        def start(address, port):
            environ = {**os.environ, "OS_WORKER__METRICS_LISTEN": address, "OS_WORKER__METRICS_PORT": str(port)}
            command = [sys.executable, "-m", "abaca", "worker", "--config-file", str(config())]
            with (tmp_path / "log").open("wb") as log:
                process = stack.enter_context(subprocess.Popen(command, env=environ, stdout=log, stderr=log))
            stack.callback(process.kill)
            return process

        yield start


def connected(address, port):
    with contextlib.suppress(OSError):
        return socket.create_connection((address, port), timeout=60)
    return None


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_scrape_waits_for_nobody_who_connects_and_says_nothing(worker, address):
    port = processes.free_port()
    process = worker(address, port)
    silent = wait_until(lambda: process.poll() is not None or connected(address, port))
    assert process.poll() is None
    with silent, contextlib.closing(http.client.HTTPConnection(address, port, timeout=60)) as scrape:
        scrape.request("GET", "/metrics")
        answer = scrape.getresponse()
        assert (answer.status, answer.headers["content-type"]) == (200, CONTENT_TYPE)


def test_a_taken_port_for_figures_is_refused_in_one_line(worker, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert worker("127.0.0.1", port).wait(60) == exits.EX_CONFIG
    said = (tmp_path / "log").read_text()
    assert f"127.0.0.1 port {port} cannot be listened on for metrics: Address already in use. Stop what" in said
    assert said.count("\n") == 1
