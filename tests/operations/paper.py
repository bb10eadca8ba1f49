# SPDX-License-Identifier: Apache-2.0
"""A worker in a process of its own, whose steps write what they do to a file, and may be held there by the test."""

import os
import signal
import threading
from pathlib import Path

import msgspec

from abaca.journal.worker import Timing, Worker
from tests.conftest import wait_until
from tests.databases import Place
from tests.operations import bench


class Paper:
    """Lines that several processes append to one file, and gates between them, which are named pipes."""

    def __init__(self, directory):
        self.directory = Path(directory)
        self.path = self.directory / "paper"
        self.path.touch()

    def note(self, line):
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        os.write(descriptor, f"{line}\n".encode())
        os.close(descriptor)

    @property
    def lines(self):
        return self.path.read_text().splitlines()

    def until(self, line, timeout_s=60.0):
        wait_until(lambda: line in self.lines, timeout_s, every_s=0.005)

    def gate(self, name):
        """Whoever passes it from now on waits until it is opened."""
        os.mkfifo(self.directory / f"{name}.gate")

    def open(self, name):
        """Let the one who waits go on."""
        (self.directory / f"{name}.gate").write_text("go")

    def pass_gate(self, name):
        path = self.directory / f"{name}.gate"
        if path.exists():
            path.read_text()
            path.unlink(missing_ok=True)


def known(paper, who):
    """Operations `walk`: three steps; at step two waits whoever finds a gate with the key's name."""

    def move(name):
        def do(op):
            paper.note(f"{who} begins {name} of {op.keys[0]}")
            if name == "two":
                paper.pass_gate(op.keys[0])
            paper.note(f"{who} ends {name} of {op.keys[0]}")

        return bench.step(name, do, undo=lambda op: paper.note(f"{who} undoes {name} of {op.keys[0]}"))

    def succeed(op, tx):
        paper.note(f"{who} succeeds with {op.keys[0]}")

    return {"walk": bench.operation("walk", move("one"), move("two"), move("three"), succeed=succeed)}


def work(place, directory, name, who, timing):
    """The life of a worker process; `place` is URL, directory and whether it is SQLite."""
    url, place_directory, is_sqlite = place
    here = Place(url, place_directory, None if is_sqlite else "elsewhere")
    db = here.open()
    paper = Paper(directory)
    worker = Worker(
        name,
        db,
        [bench.shelf()],
        known(paper, who),
        timing=msgspec.convert(timing, Timing),
        listener=here.listener(who),
    )
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())

    def tell():
        worker._stopping.wait()
        paper.note(f"{who} stops")

    threading.Thread(target=tell, daemon=True).start()
    worker.run()
