# SPDX-License-Identifier: Apache-2.0
"""What a process asks of the kernel for itself."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1


def die_with(supervisor_pid: int) -> None:
    """Called in a child process: the kernel kills it when the supervisor dies, or has died already."""
    import ctypes  # only children of `abaca run` need it

    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        log.warning("the kernel does not tell when the supervisor dies: %s", os.strerror(ctypes.get_errno()))
    if os.getppid() != supervisor_pid:
        sys.exit("the supervisor is gone")


def give_back_memory() -> None:
    """After loading: what the collector and malloc still hold, some MiB in each process, goes back to the system."""
    import ctypes

    gc.collect()
    # what is loaded by now stays: the collector need not look at it again and again
    gc.freeze()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
