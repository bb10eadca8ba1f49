# SPDX-License-Identifier: Apache-2.0
"""Toy kinds of operations: between them they use every ability of the journal.

Their steps put things into a toy world (world.py) under the resource's id, and undo takes these away. `LEAVES` says
what one of a kind that is done leaves there; one that failed or was cancelled leaves nothing.
"""

from __future__ import annotations

import msgspec

from abaca import errors
from abaca.db.journal import operations as rows
from abaca.db.journal import waits
from abaca.journal import kinds
from abaca.journal.interruptions import Wait
from abaca.journal.op import Op
from abaca.journal.queueing import Target
from tests.journal import world

HOME, SOURCE, DESTINATION, NODES = "toy@home", "toy@source", "toy@destination", "toy@nodes"


class Args(msgspec.Struct, frozen=True):
    """`word` chooses what one of a kind does; `names` is what it is given to work with."""

    word: str = ""
    names: tuple[str, ...] = ()


class Broken(errors.BackendError):
    """It will never work: {reason}"""

    code = "Broken"


class Spot:
    """A place of the toy world: what steps on its queue work with."""

    place = ""

    def __init__(self, toy_world):
        self.world = toy_world

    def put(self, op, name):
        with self.world.alone((*op.keys, f"op:{op.id}")):
            self.world.put(self.place, f"{op.resource_id}.{name}", op.id)

    def take(self, op, name):
        with self.world.alone((*op.keys, f"op:{op.id}")):
            self.world.take(self.place, f"{op.resource_id}.{name}", op.id)


class Home(Spot):
    place = "home"


class Source(Spot):
    place = "source"


class Destination(Spot):
    place = "destination"


# ---------------------------------------------------------------- steps


def puts(name, *, is_pivot=False, **more):
    """A step that puts a thing of that name where it runs."""

    def do(op: Op[Spot]):
        op.parts.put(op, name)

    def undo(op: Op[Spot]):
        op.parts.take(op, name)

    do.__name__ = name
    return kinds.Step(do, None if is_pivot else undo, is_pivot=is_pivot, **more)


def states(name):
    """A step that states a fact of that name."""

    def do(op, tx):
        world.state_fact(tx, f"{op.resource_id}.{name}")

    def undo(op, tx):
        world.withdraw_fact(tx, f"{op.resource_id}.{name}")

    do.__name__ = name
    return kinds.DatabaseStep(do, undo)


def nothing_ends(op, tx, *error):
    """Its steps have done all."""


def toy(kind, *steps, **more):
    given = {"parts": Home, "succeed": nothing_ends, "fail": nothing_ends, **more}
    return kinds.operation(kind=kind, resource="toy", args=Args, steps=steps, **given)


def resource(op, name):
    return f"{op.resource_id}-{name}"


def child(op, name, word="", queue=HOME):
    """What a parent starts: of a resource, and under a key, of its own."""
    return Args(word=word), Target(queue=queue, keys=[f"toy:{resource(op, name)}"], resource_id=resource(op, name))


def begin(op, tx, what, wanted):
    """Start these; what the parent does not hold belongs to things that its children make."""
    new = {key for _, target in wanted for key in target.keys} - set(op.keys)
    op.start(tx, what, wanted, new_keys=new)


# ---------------------------------------------------------------- steps of one's own, a pivot, two places

PLAIN = toy("plain", puts("one"), states("two"), puts("three"))
PIVOTED = toy("pivoted", puts("one"), puts("two"), puts("three", is_pivot=True), puts("four"), states("five"))
COPIED = toy(
    "copied",
    puts("reserve"),
    puts("send", queue=lambda op: SOURCE, parts=Source),
    puts("receive", queue=lambda op: DESTINATION, parts=Destination),
    states("record"),
    puts("settle", queue=lambda op: SOURCE, parts=Source),
)
MOVED = toy(
    "moved",
    puts("send", queue=lambda op: SOURCE, parts=Source),
    puts("receive", queue=lambda op: DESTINATION, parts=Destination),
    puts("switch", is_pivot=True),
    puts("settle", queue=lambda op: DESTINATION, parts=Destination),
)


# ---------------------------------------------------------------- waits


def bell(op):
    return f"bell:{op.resource_id}"


def wait_for_the_bell(op, **more):
    """`word` says how it hears of it: only by looking when it is `look`; else by the signal."""
    with op.db.read() as tx:
        if world.is_fact(tx, f"{op.resource_id}.rung"):
            return
    look_again_s = 0.02 if op.args.word == "look" else 300.0
    raise Wait("the bell", **{"conditions": [bell(op)], "look_again_s": look_again_s, **more})


def await_bell(op):
    wait_for_the_bell(op)


def await_bell_again(op):
    """What has been waited for already is so: this one goes on at once."""
    wait_for_the_bell(op, within_s=60.0)


def await_in_vain(op):
    raise Wait("what never comes", conditions=[bell(op)], look_again_s=300.0, within_s=0.3)


def ring(op, tx):
    """States that it has rung, and signals that in the same transaction. `word`: of which operation's resource."""
    world.state_fact(tx, f"{op.args.word}.rung")
    waits.signal(tx, f"bell:{op.args.word}")


def unring(op, tx):
    world.withdraw_fact(tx, f"{op.args.word}.rung")


AWAITED = toy(
    "awaited",
    puts("one"),
    kinds.Step(await_bell, kinds.nothing),
    kinds.Step(await_bell_again, kinds.nothing),
    puts("two"),
)
LATE = toy("late", puts("one"), kinds.Step(await_in_vain, kinds.nothing), puts("two"))
RING = toy("ring", puts("rope"), kinds.DatabaseStep(ring, unring))


def begin_long_work(op: Op[Home]):
    op.parts.put(op, "work")


def stop_long_work(op: Op[Home]):
    op.parts.take(op, "work")
    op.parts.take(op, "result")


def look_at_long_work(op: Op[Home]):
    """Ready at the third look."""
    if not op.parts.world.there("home", f"{op.resource_id}.work"):
        op.parts.world.complain(f"{op.id} looks at work that nobody has begun")
    looks = op.data.get("looks", 0)
    if looks < 3:
        op.record(looks=looks + 1)
        raise Wait(f"long work, {looks} of 3 done", look_again_s=0.005)


def end_long_work(op: Op[Home]):
    op.parts.put(op, "result")


POLLED = toy(
    "polled",
    kinds.Step(begin_long_work, stop_long_work),
    kinds.Step(look_at_long_work, kinds.nothing),
    kinds.Step(end_long_work, kinds.nothing),
)


# ---------------------------------------------------------------- parents and children

PART = toy("part", puts("one"), puts("two"))


def children_of(op):
    with op.db.read() as tx:
        return rows.find(tx, parent_id=op.id)


def take_parts(op: Op[Spot]):
    """A parent that goes back takes away what its children have left: they have ended before."""
    for row in children_of(op):
        if row.state not in rows.ENDED:
            op.parts.world.complain(f"{op.id} goes back while {row.kind} is {row.state}")
        for thing in LEAVES[row.kind]:
            place, name = thing.split("/")
            op.parts.world.take(place, f"{row.resource_id}.{name}", row.id)


def not_started(op, tx):
    """The children are rows of the same transaction."""


def parent(kind, start, join):
    return toy(kind, puts("one"), kinds.DatabaseStep(start, not_started), kinds.Step(join, take_parts), puts("two"))


def start_three(op, tx):
    begin(op, tx, PART, [child(op, name) for name in "abc"])


def join_all(op):
    op.join()


JOINED = parent("joined", start_three, join_all)


def await_sibling(op):
    """`quick` ends at once, `slow` when the bell rings, `breaks` once a slow one waits."""
    if op.args.word == "slow":
        wait_for_the_bell(op)
    if op.args.word != "breaks":
        return
    with op.db.read() as tx:
        slow = [row for row in rows.find(tx, parent_id=op.parent_id) if row.args["word"] == "slow"]
    if all(row.wait is not None or row.state in rows.ENDED for row in slow):
        raise Broken(reason="it is brittle")
    raise Wait("a slow one", look_again_s=0.005)


BRITTLE = toy("brittle", puts("one"), kinds.Step(await_sibling, kinds.nothing), puts("two"))


def start_racers(op, tx):
    begin(op, tx, BRITTLE, [child(op, "a", "slow"), child(op, "b", "quick"), child(op, "c", "slow")])


def join_first(op):
    done = [row for row in op.join(first=True) if row.state == "done"]
    op.record(first=[row.resource_id for row in done])


def start_one_that_breaks(op, tx):
    begin(op, tx, BRITTLE, [child(op, "a", "quick"), child(op, "b", "breaks"), child(op, "c", "slow")])


def start_one_that_waits(op, tx):
    begin(op, tx, BRITTLE, [child(op, "a", "quick"), child(op, "b", "slow"), child(op, "c", "quick")])


def start_some_that_break(op, tx):
    begin(op, tx, BRITTLE, [child(op, "a", "quick"), child(op, "b", "breaks"), child(op, "c", "breaks")])


def join_whatever(op):
    op.record(ended=[row.state for row in op.join(tolerate=True)])


RACED = parent("raced", start_racers, join_first)
GATHERED = parent("gathered", start_one_that_waits, join_all)
BURDENED = parent("burdened", start_one_that_breaks, join_all)
TOLERANT = parent("tolerant", start_some_that_break, join_whatever)


def start_parents(op, tx):
    """Their keys they share with this one: under these they run."""
    both = [child(op, name) for name in "xy"]
    under_mine = [msgspec.structs.replace(target, keys=[*target.keys, *op.keys]) for _, target in both]
    begin(op, tx, JOINED, [(args, target) for (args, _), target in zip(both, under_mine, strict=True)])


def take_grandchildren(op: Op[Spot]):
    take_parts(op)
    for row in children_of(op):
        with op.db.read() as tx:
            found = rows.find(tx, parent_id=row.id)
        for one in found:
            for thing in LEAVES[one.kind]:
                place, name = thing.split("/")
                op.parts.world.take(place, f"{one.resource_id}.{name}", one.id)


GRAND = toy(
    "grand",
    puts("one"),
    kinds.DatabaseStep(start_parents, not_started),
    kinds.Step(join_all, take_grandchildren),
    puts("two"),
)


# ---------------------------------------------------------------- several keys


def held_as(key):
    return key.partition(":")[2]


def hold_all(op: Op[Home]):
    """What stands there until `let_go`: who comes between finds it."""
    for key in op.keys:
        op.parts.world.put("held", held_as(key), op.id)


def let_go_of_all(op: Op[Home]):
    for key in op.keys:
        op.parts.world.take("held", held_as(key), op.id)


def hold_still(op: Op[Home]):
    for key in op.keys:
        if not op.parts.world.there("held", held_as(key)):
            op.parts.world.complain(f"{op.id} does not have {key} any more")
    op.parts.world.note(f"{op.args.word} {' '.join(op.keys)}")


HOLDING = toy(
    "holding",
    kinds.Step(hold_all, let_go_of_all),
    kinds.Step(hold_still, kinds.nothing),
    kinds.Pivot(let_go_of_all),
    states("done"),
)


# ---------------------------------------------------------------- a share that first needs its share server


def server_of(op):
    return op.args.names[0]


def server_is(tx, server):
    """Two looks, of which the first may be out of date at the second: what is not being made any more may be up."""
    return next((state for state in ("making", "up") if world.is_fact(tx, f"{server}.{state}")), None)


def need_server(op, tx):
    """Whoever comes first starts it."""
    server = server_of(op)
    if server_is(tx, server) is None and world.state_fact(tx, f"{server}.making"):
        begin(op, tx, SERVER, [(Args(), Target(queue=HOME, keys=[f"share-server:{server}"], resource_id=server))])


def await_server(op):
    server = server_of(op)
    with op.db.read() as tx:
        state = server_is(tx, server)
    if state is None:
        raise Broken(reason="the share server could not be made")
    if state == "making":
        raise Wait("the share server", conditions=[f"server:{server}"], look_again_s=300.0)


def server_is_up(op, tx):
    world.withdraw_fact(tx, f"{op.resource_id}.making")
    world.state_fact(tx, f"{op.resource_id}.up")
    waits.signal(tx, f"server:{op.resource_id}")


def server_is_not(op, tx, error):
    world.withdraw_fact(tx, f"{op.resource_id}.making")
    waits.signal(tx, f"server:{op.resource_id}")


SERVER = toy("server", puts("frame"), puts("address"), succeed=server_is_up, fail=server_is_not)
SHARED = toy(
    "shared", kinds.DatabaseStep(need_server, not_started), kinds.Step(await_server, kinds.nothing), puts("share")
)


KNOWN = {
    what.kind: what
    for what in (
        *(PLAIN, PIVOTED, COPIED, MOVED, AWAITED, LATE, RING, POLLED, PART, JOINED),
        *(BRITTLE, RACED, GATHERED, BURDENED, TOLERANT, GRAND, HOLDING, SERVER, SHARED),
    )
}

# Of a kind what is there when it is done, each name behind the resource's id.
LEAVES = {
    "plain": ("home/one", "facts/two", "home/three"),
    "pivoted": ("home/one", "home/two", "home/three", "home/four", "facts/five"),
    "copied": ("home/reserve", "source/send", "destination/receive", "facts/record", "source/settle"),
    "moved": ("source/send", "destination/receive", "home/switch", "destination/settle"),
    "awaited": ("home/one", "home/two"),
    "late": ("home/one", "home/two"),
    "ring": ("home/rope",),
    "polled": ("home/work", "home/result"),
    **dict.fromkeys(("part", "brittle"), ("home/one", "home/two")),
    **dict.fromkeys(("joined", "raced", "gathered", "burdened", "tolerant", "grand"), ("home/one", "home/two")),
    "holding": ("facts/done",),
    "server": ("home/frame", "home/address", "facts/up"),
    "shared": ("home/share",),
}
# What is taken away by a parent that goes back, though it is done.
OF_PARENTS = {"part", "brittle", "joined"}


def expected(of_subject):
    """The things and facts that must be there, by the rows of all operations about a subject."""
    by_id = {row.id: row for row in of_subject}

    def stands(row):
        above = by_id.get(row.parent_id)
        return row.state == "done" and (row.kind not in OF_PARENTS or above is None or stands(above))

    found = set()
    for row in filter(stands, of_subject):
        found |= {thing.replace("/", f"/{row.resource_id}.") for thing in LEAVES[row.kind]}
        if row.kind == "ring":
            found.add(f"facts/{row.args['word']}.rung")
    return found
