# SPDX-License-Identifier: Apache-2.0
"""What Abaca takes before anybody asks for anything: time to its first answer, and memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from benchmarks import clients, usage
from benchmarks.figures import Figure
from benchmarks.stand import HOST, Stand
from lab import processes

SETTLE_S = 3.0
STARTS = 3


def run(stand: Stand) -> Iterator[Figure]:
    """On SQLite with nothing configured, as `abaca run` starts on a laptop; then as it stands here."""
    took_s = []
    for number in range(STARTS):
        port = processes.free_port(HOST)
        place = stand.run.path(f"embedded-{number}")
        configuration = place / "abaca.conf"
        configuration.write_text(f"[DEFAULT]\nosapi_share_listen_port = {port}\n")
        argv = [sys.executable, "-m", "abaca", "run", "--config-file", str(configuration), "--state-path", str(place)]
        begun_s = time.perf_counter()
        started = stand.run.spawn(argv, log=f"embedded-{number}.log")
        _until_answered(clients.Door(HOST, port, ""))
        took_s.append(time.perf_counter() - begun_s)
        if number == STARTS - 1:
            time.sleep(SETTLE_S)
            mib = usage.rss_mib(started.pid)
        started.stop()
    yield Figure("start to first answer, empty SQLite: best", min(took_s), "s")
    yield Figure("start to first answer, empty SQLite: worst", max(took_s), "s")
    yield Figure("memory idle, all processes, SQLite", mib, "MiB RSS", 160)
    yield Figure("memory idle, all processes, PostgreSQL and Keystone", usage.rss_mib(stand.abaca.pid), "MiB RSS", 160)
    yield Figure("the same, pages that they share counted once", usage.pss_mib(stand.abaca.pid), "MiB PSS")


def _until_answered(door: clients.Door) -> None:
    def answers() -> bool:
        try:
            return door.ask("GET", "/v2/shares").status == 200
        except OSError:
            return False

    while not answers():
        time.sleep(0.005)
