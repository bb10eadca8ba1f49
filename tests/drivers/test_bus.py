# SPDX-License-Identifier: Apache-2.0
"""The private bus of an NFS server, seen from who calls."""

import gc
import socketserver
import threading

import pytest

from abaca.drivers import contract
from abaca.drivers.exports.bus import Bus, Dead


class Ending(socketserver.StreamRequestHandler):
    """A bus that is killed as soon as somebody has logged in."""

    def handle(self):
        self.rfile.readline()
        self.wfile.write(b"OK 0123456789abcdef0123456789abcdef\r\n")
        self.rfile.readline()


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_bus_that_ends_in_the_middle_of_the_greeting_is_dead_and_leaves_no_socket(tmp_path):
    path = tmp_path / "bus.sock"
    with socketserver.UnixStreamServer(str(path), Ending) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(Dead):
            Bus(path).paths()
        thread.join()
    gc.collect()


class Silent(Ending):
    """A bus that hangs as soon as somebody has logged in."""

    left = threading.Event()

    def handle(self):
        super().handle()
        assert self.left.wait(60)


def test_a_bus_that_hangs_in_the_middle_of_the_greeting_is_waited_for_no_longer_than_for_an_answer(tmp_path):
    path = tmp_path / "bus.sock"
    with socketserver.UnixStreamServer(str(path), Silent) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        try:
            with pytest.raises(contract.Unreachable):
                Bus(path, timeout_s=0.1).paths()
        finally:
            Silent.left.set()
            thread.join()
