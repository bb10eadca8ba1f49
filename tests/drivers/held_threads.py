# SPDX-License-Identifier: Apache-2.0
"""Holds the threads of NFS-Ganesha as a debugger does, but for the one that answers on its message bus.

Run as a program with a process's number: it says so once they stand still, and holds them until the process ends or it
is ended itself; then they go on.
"""

import contextlib
import ctypes
import os
import subprocess
import sys
from pathlib import Path

SEIZE, INTERRUPT = 0x4206, 0x4207
ANY_THREAD = 0x40000000


@contextlib.contextmanager
def held(pid):
    """It hangs, and its bus does not show it."""
    with subprocess.Popen([sys.executable, __file__, str(pid)], stdout=subprocess.PIPE, text=True) as holding:
        try:
            assert holding.stdout.readline() == "held\n"
            yield
        finally:
            holding.kill()


def waits_for_storage(thread):
    """Whether it is inside the kernel, and stands still."""
    return (thread / "stat").read_text().rpartition(")")[2].split()[0] == "D"


def main(pid):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    on_bus = []
    while not on_bus:  # it alone waits by poll, again and again
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        on_bus = [one for one in threads if (one / "wchan").read_text().startswith("poll_")]
    assert len(on_bus) == 1
    for thread in (int(one.name) for one in threads if one not in on_bus and not waits_for_storage(one)):
        for request in (SEIZE, INTERRUPT):
            assert libc.ptrace(request, thread, None, None) == 0, os.strerror(ctypes.get_errno())
        os.waitpid(thread, ANY_THREAD)
    sys.stdout.write("held\n")
    sys.stdout.flush()
    with contextlib.suppress(ChildProcessError):
        while True:  # whoever holds a thread is the first to be told of its end
            os.waitpid(-1, ANY_THREAD)


if __name__ == "__main__":
    main(int(sys.argv[1]))
