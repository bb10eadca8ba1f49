# SPDX-License-Identifier: Apache-2.0
"""Signals, taken by a thread that waits for nothing else.

The kernel hands a signal to any thread of a process; Python's handlers run in the main thread, when that next does
something, which may be never: after a process was frozen and thawed, TERM was lost on a main thread that waited. The
descriptor of `signal.set_wakeup_fd` is written to at once, whichever thread gets the signal.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping


def follow(actions: Mapping[signal.Signals, Callable[[], None]]) -> None:
    """Do these when the signals come, in a thread of their own, until the process ends. Call it in the main thread."""
    told, telling = os.pipe()
    os.set_blocking(telling, False)
    signal.set_wakeup_fd(telling, warn_on_full_buffer=False)
    for number in actions:
        signal.signal(number, lambda *_: None)
    threading.Thread(target=_follow, args=(told, actions), name="signals", daemon=True).start()


def _follow(told: int, actions: Mapping[signal.Signals, Callable[[], None]]) -> None:
    while True:
        for number in os.read(told, 64):
            action = actions.get(signal.Signals(number))
            if action is not None:
                action()
