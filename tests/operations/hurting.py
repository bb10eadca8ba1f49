# SPDX-License-Identifier: Apache-2.0
"""Operations are hurt: asked for, led to a moment where an error is raised or something dies, and looked at then."""

from abaca.operations.registry import OPERATIONS
from tests.closing import Concluded
from tests.conftest import wait_until
from tests.operations import theatre as stage
from tests.operations.moments import failing, kind_of


def arms(case, way, point, action):
    """What is to happen where, by name: the action at the point, and what leads to the way back."""
    first = {failing(OPERATIONS[kind_of(case)]): "final"} if way == "back" else {}
    return {**first, point: action}


def armed(chosen):
    return stage.Arms({point: stage.ACTIONS[name] for point, name in chosen.items()})


class Hurting:
    """The cases in a theatre. `tell` hears how each ended, and the run's closing line counts it among those `of`."""

    def __init__(self, theatre, cases, tell, of):
        self.theatre = theatre
        self.cases = cases
        self.tell = tell
        self.of = of

    def begin(self, case):
        """What the operation needs, made by a healthy worker, which then leaves; then the request. Who it is about."""
        self.theatre.ensure_actor()
        prepared = self.cases[case].prepare(self.theatre)
        self.theatre.leave()
        return self.cases[case].request(self.theatre, prepared)

    def raised(self, case, way, point, error):
        """How it ended, with the error at that point."""
        subject = self.begin(case)
        faults = armed(arms(case, way, point, error))
        self.theatre.enter(arms=faults)
        ended = self.conclude(case, subject, error, point)
        # the last moment comes after the end that others see
        wait_until(lambda: faults.actions == {}, every_s=0.003)
        return ended

    def kill(self, case, way, point, timing):
        """Its worker has died at that point. Who it is about."""
        subject = self.begin(case)
        child = self.theatre.kill_at(arms(case, way, point, "die"), timing)
        assert child.ends_within(), f"this moment never came: {child.explain()}"
        return subject

    def conclude(self, case, subject, fault, point):
        """How it ended, and all is as it must be then."""
        told = Concluded(point.rpartition(":")[0], fault, stuck=True, leaked=False, of=self.of)
        try:
            ended = self.theatre.until_ended(kind_of(case), subject)
            self.theatre.settle()
            found = self.theatre.check(ended)
            stuck, leaked = (any(("stuck" in line) is one for line in found) for one in (True, False))
            told = told._replace(stuck=stuck, leaked=leaked)
        finally:
            self.tell("concluded", [*told])
        assert found == []
        return ended
