# SPDX-License-Identifier: Apache-2.0
"""Scenes in which toys are hurt: who asks for what, what happens meanwhile, on which ways and at which moments.

A moment is before a step, inside it (its effect is there, nothing is recorded yet), after it, where what it waits for
has been written down (`registered`) or it has been put aside (`aside`), forward and back, and at the end.
"""

import itertools
import os
import random
from typing import NamedTuple

import msgspec
import pytest

from abaca.db.journal import operations as rows
from abaca.db.journal import steering
from tests.journal.toys import KNOWN

MOMENTS = ("before", "inside", "after")


class Way(msgspec.Struct, frozen=True):
    """Points that are reached when these errors are raised on the way to them, and how it then ends."""

    name: str
    points: tuple[str, ...]
    ends: str = "done"
    armed: tuple[str, ...] = ()


class Scene(msgspec.Struct, frozen=True):
    """`request` gives the id of the main operation, of kind `main`; `meanwhile` runs in a thread beside."""

    main: str
    ways: tuple[Way, ...]
    request: object
    meanwhile: object = None
    # how the main one ends when another one fails: None when either may be
    if_other_fails: str | None = "failed"
    # of several of its kind any may be the one that is hurt
    is_alone: bool = True


# ---------------------------------------------------------------- points


def names(kind):
    return [step.name for step in KNOWN[kind].steps]


def points(kind, *steps, waits=()):
    """All moments of these steps; of those in `waits` also those of a wait."""
    found = []
    for step in steps:
        found.append(f"{kind}:{step}:before")
        found += [f"{kind}:{step}:{moment}" for moment in ("registered", "aside") if f"{step} {moment}" in waits]
        found += [f"{kind}:{step}:{moment}" for moment in MOMENTS[1:]]
    return tuple(found)


def forward(kind, waits=()):
    return points(kind, *names(kind), "end", waits=waits)


def undoing(kind, last=None):
    """The moments of the way back from that step, or from the last before the pivot."""
    reach = KNOWN[kind].pivot if last is None else names(kind).index(last) + 1
    return points(kind, *(f"{name}:undo" for name in reversed(names(kind)[:reach])), "end")


def failing(kind):
    """Where a final error leads to the way back: the last step before the pivot has had its effect."""
    return f"{kind}:{names(kind)[KNOWN[kind].pivot - 1]}:inside"


def there(*kinds, waits=()):
    return Way("", tuple(itertools.chain(*(forward(kind, waits) for kind in kinds))))


def back(kind):
    return Way("on-the-way-back", undoing(kind), "failed", (failing(kind),))


def both(kind, *others, waits=()):
    return (there(kind, *others, waits=waits), back(kind))


# ---------------------------------------------------------------- requests


def one(kind, **more):
    return lambda ground, subject: ground.enqueue(kind, subject, **more)


def rung_before(ground, subject):
    ground.enter()
    ring(ground, subject, subject)
    ground.until_ended(subject)
    ground.leave()
    return ground.enqueue("awaited", subject)


def crossing(ground, subject):
    """Of three keys each order, and each alone; the first is the main one."""
    a, b, c = (f"toy:{subject}{name}" for name in "abc")
    wanted = [(a, b), (b, a), (b, c), (c, a), (a,), (c, b), (b,), (a, c)]
    ids = [
        ground.enqueue("holding", f"{subject}{number}", keys=list(keys), word=subject)
        for number, keys in enumerate(wanted)
    ]
    return ids[0]


def two_shares(ground, subject):
    server = f"{subject}server"
    ids = [ground.enqueue("shared", f"{subject}{number}", names=(server,)) for number in range(2)]
    return ids[0]


# ---------------------------------------------------------------- meanwhile


def nothing(ground, subject, op_id):
    """It goes by itself."""


def ring(ground, subject, of):
    """Once, however often the answer to the request gets lost; again when that failed."""
    found = [row for row in ground.about(subject) if row.kind == "ring" and row.args["word"] == of]
    if all(row.state == "failed" for row in found):
        ground.enqueue("ring", f"{of}-bell{len(found)}", word=of)


def is_aside(row):
    return row.state == "waiting" and row.wait is not None


def have_ended(found):
    return all(row.state in rows.ENDED for row in found)


def rung(ground, subject, of):
    ring(ground, subject, of)
    return True


def ring_when_aside(ground, subject, op_id):
    """It is signalled when it has been put aside."""
    ground.seen(lambda: is_aside(row := ground.show(op_id)) or row.state in rows.ENDED)

    def look():
        if (row := ground.show(op_id)).state not in rows.ENDED:
            ring(ground, subject, subject)
        return row.state in rows.ENDED

    ground.seen(look)


def all_aside(ground, subject, op_id):
    """Whether the parent and its slow child wait: True, or False when all has ended instead."""

    def look():
        found = ground.about(subject)
        slow = [row for row in found if row.args["word"] == "slow"]
        if is_aside(found[0]) and slow and all(is_aside(row) for row in slow):
            return slow
        return have_ended(found) and "ended"

    return ground.seen(look)


def ring_for_the_slow(ground, subject, op_id):
    found = all_aside(ground, subject, op_id)
    if found != "ended":
        ground.seen(lambda: rung(ground, subject, found[0].resource_id))


def call_it_off(ground, subject, op_id):
    """Its user cancels the parent, which joins."""
    if all_aside(ground, subject, op_id) != "ended":
        ground.seen(lambda: cancelled(ground, op_id))


def cancelled(ground, op_id):
    with ground.db.write() as tx:
        steering.request_cancel(tx, op_id)
    return True


def ring_when_the_quick_failed(ground, subject, op_id):
    """Otherwise nobody would come first."""

    def look():
        found = ground.about(subject)
        failed = [row for row in found if row.args["word"] == "quick" and row.state == "failed"]
        return (failed and [row for row in found if row.args["word"] == "slow"]) or (have_ended(found) and "ended")

    found = ground.seen(look)
    if found != "ended":
        for row in found:
            ground.seen(lambda row=row: rung(ground, subject, row.resource_id))


# ---------------------------------------------------------------- the list

BELL = ("await_bell registered", "await_bell aside")
SLOW = ("await_sibling registered",)
OFF = Way(
    "called-off",
    (
        *points("gathered", "one", "start_one_that_waits"),
        "gathered:join_all:before",
        "gathered:join_all:aside",
        *undoing("gathered", "join_all"),
        "brittle:await_sibling:registered",
        "brittle:await_sibling:aside",
        *undoing("brittle", "await_sibling"),
    ),
    "cancelled",
)
BURDEN = Way(
    "child-fails",
    (
        *points("burdened", "one", "start_one_that_breaks"),
        "burdened:join_all:before",
        *undoing("burdened", "join_all"),
        *points("brittle", "one"),
        "brittle:await_sibling:before",
        "brittle:await_sibling:registered",
        *undoing("brittle", "await_sibling"),
    ),
    "failed",
)
TOO_LATE = Way(
    "",
    (
        *points("late", "one"),
        *(f"late:await_in_vain:{moment}" for moment in ("before", "registered", "aside")),
        *undoing("late", "await_in_vain"),
    ),
    "failed",
)
SCENES = {
    "plain": Scene("plain", both("plain"), one("plain")),
    "pivoted": Scene("pivoted", both("pivoted"), one("pivoted")),
    "copied": Scene("copied", both("copied"), one("copied")),
    "moved": Scene("moved", both("moved"), one("moved")),
    "signalled": Scene("awaited", both("awaited", "ring", waits=BELL), one("awaited"), ring_when_aside, None),
    "signalled-before": Scene("awaited", (there("awaited"),), rung_before, None, None),
    "looked-at": Scene("awaited", (there("awaited", waits=BELL),), one("awaited", word="look"), ring_when_aside, None),
    "late": Scene("late", (TOO_LATE,), one("late")),
    "polled": Scene("polled", both("polled", waits=("look_at_long_work aside",)), one("polled")),
    "joined": Scene("joined", both("joined", "part"), one("joined")),
    "gathered": Scene(
        "gathered",
        (there("gathered", "brittle", waits=("join_all aside", *SLOW, "await_sibling aside")), back("gathered")),
        one("gathered"),
        ring_for_the_slow,
    ),
    "called-off": Scene("gathered", (OFF,), one("gathered"), call_it_off, None),
    "raced": Scene("raced", both("raced"), one("raced"), ring_when_the_quick_failed, "done"),
    "burdened": Scene("burdened", (BURDEN,), one("burdened")),
    "tolerant": Scene("tolerant", (*both("tolerant"), there("brittle")), one("tolerant"), None, "done"),
    "grand": Scene("grand", both("grand", "joined", "part"), one("grand")),
    "crossing": Scene("holding", both("holding"), crossing, None, None),
    "served": Scene("shared", (there("shared", "server"), back("shared")), two_shares, None, None, is_alone=False),
}


class Case(NamedTuple):
    """A scene, by its name, is hurt on a way at a point."""

    scene: str
    way: Way
    point: str


def ending(case, fault):
    """How the main operation ends; None when either may be."""
    scene, way, point = SCENES[case.scene], case.way, case.point
    if not scene.is_alone and (way.armed or fault == "final"):
        return None
    kind, step, *_, moment = point.split(":")
    if fault != "final" or ":undo:" in point or moment == "aside" or step == "end":
        return way.ends
    index = names(kind).index(step) + (moment == "after")
    if index >= KNOWN[kind].pivot:
        return way.ends
    return "failed" if kind == scene.main else scene.if_other_fails if way.ends == "done" else None


# ---------------------------------------------------------------- choosing

# `make thorough` runs all; a run of another seed takes other moments
SEED = os.environ.get("TOYS_SEED", "0")
IS_THOROUGH = bool(os.environ.get("TOYS_THOROUGH"))
# what the closing line says of the cases
CHOSEN = "all" if IS_THOROUGH else f"sampled by TOYS_SEED={SEED}"


def cases(one_in, of, *, without=()):
    """Those of all scenes; unless all are wanted, one in so many of each scene, chosen by the seed."""
    listed = []
    for name, scene in SCENES.items():
        ways = [(way, point) for way in scene.ways for point in way.points]
        found = [Case(name, way, point) for way, point in ways if point.rpartition(":")[2] not in without]
        if not IS_THOROUGH:
            chosen = random.Random(f"{SEED} {of} {name}").sample(range(len(found)), -(-len(found) // one_in))
            found = [found[index] for index in sorted(chosen)]
        for case in found:
            listed.append(pytest.param(case, id="-".join(filter(None, (name, case.point, case.way.name)))))
    return listed
