# SPDX-License-Identifier: Apache-2.0
"""`python -m lab.warden RECORD`: outlive the owner of a run and clear after it, however it died."""

import pathlib
import signal
import sys

from lab import runs

if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    runs.watch(pathlib.Path(sys.argv[1]))
