# SPDX-License-Identifier: Apache-2.0
"""When the lab takes a process for dead, and when for frozen."""

import subprocess
import sys
from pathlib import Path

from lab import processes
from tests.conftest import wait_until

FIRST_THREAD_ENDS = """
import ctypes, sys, threading
threading.Thread(target=sys.stdin.read).start()
ctypes.CDLL(None).pthread_exit(None)
"""
BUSY = """
import hashlib, threading
for _ in range(6):
    threading.Thread(target=hashlib.pbkdf2_hmac, args=("sha256", b"", b"", 10**9), daemon=True).start()
print("begun", flush=True)
input()
"""


def test_a_process_is_frozen_once_all_its_threads_stand_still() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"begun\n"
        for _ in range(50):
            with processes.frozen(process.pid):
                assert states(process.pid) == {"T"}
            wait_until(lambda: "R" in states(process.pid), every_s=0.001)
        process.kill()


def states(pid: int) -> set[str]:
    threads = Path(f"/proc/{pid}/task").iterdir()
    return {(thread / "stat").read_text().rpartition(")")[2].split()[0] for thread in threads}


def test_a_process_whose_first_thread_has_ended_is_alive_until_its_last_has() -> None:
    with subprocess.Popen([sys.executable, "-c", FIRST_THREAD_ENDS], stdin=subprocess.PIPE) as process:
        assert process.stdin
        wait_until(lambda: processes.state(process.pid) == "Z")
        assert processes.alive(process.pid)
        process.kill()
        wait_until(lambda: not processes.alive(process.pid))
