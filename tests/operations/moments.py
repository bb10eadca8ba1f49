# SPDX-License-Identifier: Apache-2.0
"""When and how operations are hurt, drawn by FAULTS_SEED unless everything is wanted at every moment.

A moment is before a step, inside it (its effect is there, nothing is recorded yet) or after it, on the way forward, on
the way back, and at the end of either.
"""

import itertools
import os
import random

import pytest

from abaca.journal.kinds import Operation
from abaca.operations.registry import OPERATIONS

MOMENTS = ("before", "inside", "after")
DATABASES = ("sqlite", "postgresql")
SEED = os.environ.get("FAULTS_SEED", "0")
IS_THOROUGH = bool(os.environ.get("FAULTS_THOROUGH"))
# what the closing line says of the cases
CHOSEN = "all" if IS_THOROUGH else f"moments, deaths and databases drawn by FAULTS_SEED={SEED}"


def forward(what: Operation):
    """The moments on the way that succeeds."""
    return [f"{what.kind}:{name}:{moment}" for name in (*names(what), "end") for moment in MOMENTS]


def backward(what: Operation):
    """The moments on the way back from a failure of the last step that has one."""
    way_back = [f"{name}:undo" for name in reversed(names(what)[: what.pivot])]
    return [f"{what.kind}:{name}:{moment}" for name in (*way_back, "end") for moment in MOMENTS]


def names(what):
    return [step.name for step in what.steps]


def failing(what):
    """Where a final error leads to the way back: the last step before the pivot has had its effect."""
    return f"{what.kind}:{names(what)[what.pivot - 1]}:inside"


def kind_of(case):
    return case.partition(" ")[0]


class Moments:
    """The moments of these cases, all `errors` that can be raised there, and all `deaths` that can be died."""

    def __init__(self, cases, errors, deaths):
        self.cases = cases
        self.errors = errors
        self.deaths = deaths

    def ways(self):
        """Each case of each kind, whether it goes forward or back, and a moment on that way."""
        for case in sorted(self.cases):
            what, more = OPERATIONS[kind_of(case)], case.partition(" ")[2]
            steps = self.cases[case].steps
            on_way = {"forward": forward(what), "back": backward(what) if what.pivot > 0 else []}
            for way, points in on_way.items():
                for point in points:
                    if not steps or point.split(":")[1] in steps:
                        words = [point, more, "on-the-way-back" if way == "back" else ""]
                        yield pytest.param(case, way, point, id="-".join(filter(None, words)))

    def of_steps(self):
        """The moments of each step of each case, forward and back."""
        same_step = itertools.groupby(self.ways(), key=lambda one: (one.values[:2], one.values[2].rpartition(":")[0]))
        return [list(moments) for _, moments in same_step]

    def raised_at(self, error):
        """Where this is raised: at one moment of each step one of the errors is, by turns, or all at all if wanted."""
        return self._by_turns(error, self.errors, "errors")

    def dies_at(self, death):
        """Where it is this that dies: at one moment of half the steps something does, by turns, or all if wanted."""
        return self._by_turns(death, self.deaths, "deaths", of_steps=2)

    def _by_turns(self, this, among, name, of_steps=1):
        """With which of them the turns of a case begin is drawn by the seed, as is which of so many steps it is."""
        if IS_THOROUGH:
            return list(self.ways())
        drawn, found = random.Random(f"{SEED} {name}"), []
        for _, steps in itertools.groupby(self.of_steps(), key=lambda moments: moments[0].values[0]):
            first = drawn.randrange(len(among) * of_steps)
            chosen = [drawn.choice(moments) for moments in steps]
            found += chosen[(among.index(this) * of_steps - first) % (len(among) * of_steps) :: len(among) * of_steps]
        return found
