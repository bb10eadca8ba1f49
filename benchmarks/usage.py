# SPDX-License-Identifier: Apache-2.0
"""CPU time and memory of trees of processes, as the kernel counts them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def tree(root: int) -> list[int]:
    """The process and all that descend from it."""
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        with contextlib.suppress(OSError):
            # a child belongs to the thread that started it
            for thread in Path(f"/proc/{pid}/task").iterdir():
                todo += map(int, (thread / "children").read_text().split())
            found.append(pid)
    return found


def cpu_s(root: int) -> float:
    """User and system seconds of a tree, with those of its members that have ended."""
    return sum(_cpu_s(pid) for pid in tree(root))


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS


def rss_mib(root: int) -> float:
    """Resident memory of a tree; what two processes share counts twice."""
    return sum(_kib(pid, "Rss:") for pid in tree(root)) / 1024


def pss_mib(root: int) -> float:
    """What a tree takes of the machine: a page that several processes share counts once."""
    return sum(_kib(pid, "Pss:") for pid in tree(root)) / 1024


def _kib(pid: int, kind: str) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith(kind):
                return int(line.split()[1])
    return 0


class Spent:
    """CPU seconds of several trees since a moment, by name; of what still runs to less than a microsecond."""

    def __init__(self, roots: Mapping[str, int]) -> None:
        self._roots = roots
        self._before = {name: (_threads(root), _of_ended_s(root)) for name, root in roots.items()}

    def so_far(self) -> dict[str, float]:
        return {name: self._since(*self._before[name], root) for name, root in self._roots.items()}

    @staticmethod
    def _since(before: Mapping[str, int], ended_s: float, root: int) -> float:
        now = _threads(root)
        live_ns = sum(ns - before.get(thread, 0) for thread, ns in now.items())
        # what a process that has ended since then had taken before
        gone_ns = sum(ns for thread, ns in before.items() if thread not in now)
        return live_ns / 1e9 + max(0.0, _of_ended_s(root) - ended_s - gone_ns / 1e9)


def _threads(root: int) -> dict[str, int]:
    """Nanoseconds of CPU of each thread of a tree."""
    found = {}
    for pid in tree(root):
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(OSError):
                    found[str(thread)] = int((thread / "schedstat").read_text().split()[0])
    return found


def _of_ended_s(root: int) -> float:
    """Seconds of CPU of processes of a tree that have ended."""
    found = 0
    for pid in tree(root):
        with contextlib.suppress(OSError):
            found += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[13:15]))
    return found / _TICKS


def processes(root: int) -> Iterator[tuple[str, float]]:
    """The command line and resident MiB of each process of a tree."""
    for pid in tree(root):
        with contextlib.suppress(OSError):
            argv = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
            yield " ".join(argv[:6]), _kib(pid, "Rss:") / 1024
