# SPDX-License-Identifier: Apache-2.0
"""What each question costs at each size; asked of all in turn, so that what the machine does besides counts alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from benchmarks import clients
from benchmarks.scale.place import Place
from benchmarks.scale.questions import Question
from benchmarks.scale.rows import Cost, Row, bound_of
from lab import processes

WARM, WARM_AT_FIRST = 2, 300
MOST = 100
ROUNDS, AGAIN, CLEARLY = 3, 4, 2.5
"""In so many rounds is measured, and in so many more what seems to have grown and not clearly so; the least counts."""


class Asker:
    """Asks one API of one size, which does nothing else."""

    def __init__(self, place: Place) -> None:
        self.shares = place.shares
        self._place = place
        self._program: processes.Process = place.serve()
        self._warm = WARM_AT_FIRST

    def cost(self, question: Question, seconds: float) -> Cost:
        """What it costs once it is warm, one client asking."""
        door = self._place.door(question.who)
        raw = door.request("GET", question.path)
        clients.drive(door, [self._asks(raw, self._warm, 60.0, [])])
        self._warm = WARM
        pages, spent, took_s = self._place.pages(), self._place.spent(self._program), []
        clients.drive(door, [self._asks(raw, MOST, seconds, took_s)])
        cpu_s, number = spent.so_far(), len(took_s)
        api_ms, database_ms = (cpu_s[name] / number * 1000 for name in ("API", "database"))
        return Cost(api_ms, database_ms, clients.middle(took_s) * 1000, (self._place.pages() - pages) / number)

    def stop(self) -> None:
        self._program.stop()

    @staticmethod
    def _asks(raw: bytes, most: int, seconds: float, took_s: list[float]) -> clients.Client:
        until_s = time.perf_counter() + seconds
        for _ in range(most):
            answer = yield raw
            if answer.status != 200:
                raise RuntimeError(f"{raw[:200]!r} was answered with {answer.status}: {answer.body[:300]!r}")
            took_s.append(answer.took_s)
            if time.perf_counter() >= until_s:
                return


def measured(askers: Mapping[int, Asker], ask: Callable[[int], Iterator[Question]], seconds: float) -> Iterator[Row]:
    """A row for each question; `ask(shares)` gives them for a size, the same in number and order for each."""
    for together in zip(*(ask(size) for size in askers), strict=True):
        questions = dict(zip(askers, together, strict=True))
        row = Row(together[0].name, {}, bound_of(together[0].name))
        for number in range(ROUNDS + AGAIN):
            if (number and row.has_grown and row.times > CLEARLY) or (number >= ROUNDS and not row.missed):
                break
            costs = {size: asker.cost(questions[size], seconds / ROUNDS) for size, asker in askers.items()}
            row = row.at_least(costs)
        yield row
