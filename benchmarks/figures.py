# SPDX-License-Identifier: Apache-2.0
"""A figure, and how figures are shown."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Figure:
    """One measured value; `target` is the most (with `at_least`: the least) that it should be, where one was set."""

    name: str
    value: float
    unit: str
    target: float | None = None
    at_least: bool = False

    @property
    def missed(self) -> bool:
        """Whether there is a target and this is beyond it."""
        if self.target is None:
            return False
        return self.value < self.target if self.at_least else self.value > self.target

    def cells(self) -> tuple[str, str, str, str]:
        sign = ">=" if self.at_least else "<="
        wanted = "" if self.target is None else f"{sign} {self.target:g}{' MISSED' if self.missed else ''}"
        return self.name, shown(self.value), self.unit, wanted

    def __str__(self) -> str:
        name, value, unit, wanted = self.cells()
        return f"{name:<58} {value:>9} {unit:<10} {wanted}".rstrip()


def shown(value: float) -> str:
    """Three digits that count."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(figures: list[Figure]) -> str:
    """All of them, as Markdown."""
    lines = ["| figure | value | unit | target |", "|---|---:|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(figure.cells())} |" for figure in figures)])
