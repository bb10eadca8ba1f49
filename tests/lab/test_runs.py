# SPDX-License-Identifier: Apache-2.0
"""A run takes away what it has made, also what its own directory no longer leads to."""

import concurrent.futures
import json

import pytest

from lab import processes, runs

pytestmark = pytest.mark.system


def loops_on(device: str) -> list[str]:
    """The loop devices whose file lies on a disk, by the disk's number: a path is lost when it is unmounted."""
    said = processes.command(["losetup", "--list", "--noheadings", "--output", "NAME,BACK-MAJ:MIN"])
    return [line.split()[0] for line in said.splitlines() if line.split()[1] == device]


def test_a_loop_device_on_a_disk_of_the_run_is_freed_with_it() -> None:
    with runs.Run() as run:
        disk = run.path("disk")
        processes.command(["mount", "-t", "tmpfs", "-o", "size=8M", "tmpfs", str(disk)])
        device = processes.command(["findmnt", "--noheadings", "--output", "MAJ:MIN", str(disk)]).strip()
        processes.command(["truncate", "--size", "1M", str(disk / "image")])
        processes.command(["losetup", "--find", str(disk / "image")])
        assert len(loops_on(device)) == 1
    assert run.leftovers() == []
    assert loops_on(device) == []


def test_programs_are_started_from_many_threads_at_once() -> None:
    with runs.Run() as run, concurrent.futures.ThreadPoolExecutor(16) as pool:
        started = list(pool.map(lambda number: run.spawn(["true"], log=f"{number}.log"), range(64)))
        recorded = {pid for pid, _ in json.loads(run.record.read_text())["pids"]}
    assert recorded == {process.pid for process in started}


def test_no_run_has_the_prefix_of_one_that_goes_on() -> None:
    with runs.Run() as lasting:
        for _ in range(36):
            with runs.Run() as run:
                assert run.prefix != lasting.prefix
