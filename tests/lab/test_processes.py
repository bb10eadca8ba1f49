# SPDX-License-Identifier: Apache-2.0
"""When the lab takes a process for dead."""

import subprocess
import sys

from lab import processes
from tests.conftest import wait_until

FIRST_THREAD_ENDS = """
import ctypes, sys, threading
threading.Thread(target=sys.stdin.read).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_whose_first_thread_has_ended_is_alive_until_its_last_has() -> None:
    with subprocess.Popen([sys.executable, "-c", FIRST_THREAD_ENDS], stdin=subprocess.PIPE) as process:
        assert process.stdin
        wait_until(lambda: processes.state(process.pid) == "Z")
        assert processes.alive(process.pid)
        process.kill()
        wait_until(lambda: not processes.alive(process.pid))
