# SPDX-License-Identifier: Apache-2.0
"""An `abaca` program as an operator starts it."""

import contextlib
import http.client
import os
import signal
import subprocess
import sys
from pathlib import Path

from lab import processes
from tests.conftest import wait_until

START_S = 30
STOP_S = 120


def kill_worker(supervisor):
    """The worker alone is killed; the supervisor of that pid starts it again."""

    def worker():
        words = {pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in processes.children(supervisor)}
        return next((pid for pid, said in words.items() if "\0worker\0" in said), None)

    os.kill(wait_until(worker), signal.SIGKILL)


class Running:
    """An `abaca` program with its own state directory, port and log."""

    def __init__(self, directory, *arguments, port=None, before=(), python=sys.executable, stdin=None, **environ):
        self.port = port or processes.free_port()
        self.log = directory / "abaca.log"
        self.state = directory / "state"
        settings = {"OS_DEFAULT__OSAPI_SHARE_LISTEN_PORT": str(self.port), "OS_DEFAULT__HOST": "here", **environ}
        command = [*before, str(python), "-m", "abaca", *(arguments or ("run",)), "--state-path", str(self.state)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, env={**os.environ, **settings}, stdin=stdin, stdout=log, stderr=log
            )

    @property
    def pid(self):
        return self.process.pid

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def answers(self):
        with contextlib.suppress(OSError):
            return self.get("/healthcheck")[0] == 200
        return False

    def wait_until_it_answers(self):
        wait_until(lambda: self.answers() or self.process.poll() is not None, START_S)
        assert self.process.poll() is None, self.said()
        wait_until(lambda: "is served" in self.said(), START_S)
        return self

    def children(self):
        """Pids of the children by what they run."""
        found = {}
        for pid in processes.children(self.pid):
            # one that is just being started has no words of its own yet
            with contextlib.suppress(OSError, IndexError):
                found[Path(f"/proc/{pid}/cmdline").read_text().split("\0")[3]] = pid
        return {name: pid for name, pid in found.items() if name}

    def said(self):
        return self.log.read_text()

    def ended(self):
        """The exit status, once there is one; pytest shows the log of a test that has failed."""
        status = self.process.wait(STOP_S)
        sys.stdout.write(self.said())
        return status
