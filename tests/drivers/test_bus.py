# SPDX-License-Identifier: Apache-2.0
"""The private bus of an NFS server, seen from who calls."""

import gc
import socketserver
import threading

import pytest

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
