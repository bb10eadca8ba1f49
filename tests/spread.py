# SPDX-License-Identifier: Apache-2.0
"""All tests in several processes: a file stays together, and so do directories that share an expensive start."""

from __future__ import annotations

import ctypes
import os

from xdist.scheduler import LoadScopeScheduling

_TOGETHER = ("tests/clients/", "tests/compute/")
"""Directories whose files use one Keystone or one Nova."""
_CLONE_NEWNS = 0x00020000


class Spread(LoadScopeScheduling):
    """Hands out files, and whole directories where starting is what takes the time."""

    def _split_scope(self, nodeid: str) -> str:
        together = [place for place in _TOGETHER if nodeid.startswith(place)]
        return together[0] if together else nodeid.partition("::")[0]


def processes() -> int:
    """How many share the tests: half more than there are cores, since real components are waited for."""
    cores = len(os.sched_getaffinity(0))
    return cores + cores // 2


def own_mounts() -> None:
    """Give this process and its children a mount table of their own, where root may make one.

    A machine of the lab keeps what was mounted when it was made: with one table for all, those of one process would
    keep disks busy that another has unmounted.
    """
    if os.geteuid() == 0:
        ctypes.CDLL(None).unshare(_CLONE_NEWNS)
