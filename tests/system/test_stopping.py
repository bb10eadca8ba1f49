# SPDX-License-Identifier: Apache-2.0
"""Programs are told to stop at any moment, and end in peace, soon, and with nobody left waiting."""

import os
import signal
import socket

import pytest

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


def test_hup_right_after_the_start_is_not_lost(started):
    running = started()
    wait_until(lambda: processes.children(running.pid), START_S)
    running.process.send_signal(signal.SIGHUP)
    running.wait_until_it_answers()
    assert "starts again" not in running.said()


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
