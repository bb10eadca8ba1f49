# SPDX-License-Identifier: Apache-2.0
"""Real worker processes by fork: the server has imported everything, so that one costs milliseconds and may be killed.

The server is this module run as a program. It reads one line of JSON for each child and answers with its pid; when its
input ends, so do all its children.
"""

import contextlib
import faulthandler
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# As long as tests wait at least (tests/conftest.py, which children shall not have to read).
PATIENCE_S = 300.0


class Child:
    """A process of the nursery, by its pid and a descriptor that knows when it has ended."""

    def __init__(self, pid, log):
        self.pid = pid
        self.log = log
        try:
            self._descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            self._descriptor = -1

    def send(self, number):
        with contextlib.suppress(ProcessLookupError):
            if self._descriptor >= 0:
                signal.pidfd_send_signal(self._descriptor, number)

    def explain(self):
        """What all children wrote, and where this one is now."""
        self.send(signal.SIGUSR1)
        self.ends_within(0.5)
        return self.log.read_text()

    def kill(self):
        self.send(signal.SIGKILL)
        assert self.ends_within()

    def ends_within(self, timeout_s=PATIENCE_S):
        if self._descriptor < 0:
            return True
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        if not poll.poll(timeout_s * 1000):
            return False
        os.close(self._descriptor)
        self._descriptor = -1
        return True


class Nursery:
    """Starts children and ends them all."""

    def __init__(self, directory, *preload):
        self.log = Path(directory) / "children.log"
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.operations.nursery", str(self.log), *preload],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self._server.stdout.readline() == "ready\n"
        self._children = []

    def start(self, job, **arguments):
        """A child that calls `job`, a "module:function", with these arguments."""
        child = Child(int(self._order("child", job, arguments)), self.log)
        self._children = [one for one in self._children if not one.ends_within(0)] + [child]
        return child

    def do(self, job, **arguments):
        """Have it done once in the server itself, so that children need not. It leaves them no connection.

        Two processes with one get the answers to what the other has asked.
        """
        assert self._order("here", job, arguments) == "0"

    def _order(self, where, job, arguments):
        self._server.stdin.write(json.dumps({"where": where, "job": job, "arguments": arguments}) + "\n")
        self._server.stdin.flush()
        return self._server.stdout.readline().strip()

    def close(self):
        for child in self._children:
            child.kill()
        self._server.stdin.close()
        assert self._server.wait(60) == 0
        self._server.stdout.close()


def serve(log, preload):
    for name in preload:
        importlib.import_module(name)
    print("ready", flush=True)  # noqa: T201 - the protocol
    children = set()
    for line in sys.stdin:
        # Whoever is waited for gives its pid away: only those that are still ours may be killed at the end.
        children -= {pid for pid in children if os.waitpid(pid, os.WNOHANG)[0] == pid}
        order = json.loads(line)
        if order["where"] == "here":
            call(order)
            print(open_connections(), flush=True)  # noqa: T201 - the protocol
            continue
        pid = os.fork()
        if pid == 0:
            live(log, order)
        children.add(pid)
        print(pid, flush=True)  # noqa: T201 - the protocol
    for pid in children:
        os.kill(pid, signal.SIGKILL)


def open_connections():
    """How many this process has. A socket that only sends datagrams is none."""
    found = 0
    for number in [int(one.name) for one in Path("/proc/self/fd").iterdir()]:
        if number <= 2:  # the protocol's
            continue
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as one:
            found += one.type == socket.SOCK_STREAM
    return found


def call(order):
    module, _, function = order["job"].partition(":")
    getattr(importlib.import_module(module), function)(**order["arguments"])


def live(log, order):
    """The child's life: it never returns."""
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    code = 1
    try:
        call(order)
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it was, it belongs in the log
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2:])
