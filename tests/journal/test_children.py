# SPDX-License-Identifier: Apache-2.0
"""Parents and children: what is started commits with its parent, ends before it, and is seen while it runs."""

import threading

import pytest

from abaca.db.journal import keys, steering
from abaca.db.journal import operations as rows
from abaca.journal import kinds
from abaca.journal.interruptions import Wait
from abaca.journal.queueing import Target
from abaca.journal.queues import WorkQueue
from tests.conftest import wait_until
from tests.operations.bench import QUEUE, Args, Final, Gate, operation, record, shelf, step
from tests.operations.theatre import Arms

NODES = "h@nodes"


def starts(what, names, *, queue=QUEUE, of_keys=lambda name: [f"child:{name}"]):
    """A step that starts one child for each name, which it gets as its word."""

    def start(op, tx):
        wanted = [(Args(word=name), Target(queue, of_keys(name), f"r-{name}")) for name in names]
        new = {key for _, target in wanted for key in target.keys} - set(op.keys)
        op.start(tx, what, wanted, new_keys=new)

    return record("start", start)


def joins(**how):
    return step("join", lambda op: op.record(ended=[row.state for row in op.join(**how)]))


def children(bench, op_id):
    with bench.db.read() as tx:
        return sorted(rows.find(tx, parent_id=op_id, limit=1000), key=lambda row: row.seq)


def cancel(bench, op_id):
    with bench.db.write() as tx:
        assert steering.request_cancel(tx, op_id)


def never(op):
    raise Wait("what never comes", look_again_s=300.0)


def is_aside(row):
    return row.wait is not None


def test_what_a_failed_transaction_started_is_not_there(bench):
    child = bench.add("child", step("do", lambda op: None))

    def start(op, tx):
        op.start(tx, child, [(Args(), Target(QUEUE, ["x"], "x"))], new_keys=["x"])
        raise Final(reason="no")

    bench.add("parent", record("start", start))
    bench.worker()
    row = bench.run("parent")
    assert (row.state, row.children, row.progress_total) == ("failed", 0, 0)
    assert children(bench, row.id) == []


def test_a_parent_does_not_end_before_its_children_though_it_never_joins(bench):
    gate = Gate()
    child = bench.add("child", step("do", lambda op: gate.wait()))
    bench.add("parent", starts(child, "ab"))
    bench.worker()
    op_id = bench.enqueue("parent")
    row = bench.until(op_id, "waiting", and_so=is_aside)
    assert (row.children, row.progress_done, row.progress_total) == (2, 0, 2)
    assert "2 operations" in row.wait["what"]
    gate.opened.set()
    row = bench.until(op_id, "done")
    assert (row.children, row.progress_done, row.progress_total) == (0, 2, 2)


@pytest.mark.parametrize("point", ["parent:join:before", "parent:join:aside", "child:do:before", "child:do:aside"])
def test_a_parent_that_is_cancelled_ends_after_its_children(bench, point):
    """At whichever moment; what it had done is undone when they have ended."""

    def undo(op):
        bench.diary.note(f"undo beside {[row.state for row in children(bench, op.id) if row.state in rows.LIVE]}")

    child = bench.add("child", step("do", never, undo=lambda op: bench.diary.note("child undone")))
    bench.add("parent", step("first", lambda op: None, undo=undo), starts(child, "a"), joins())
    op_id = bench.enqueue("parent")
    bench.worker(faults=Arms({point: lambda: cancel(bench, op_id)}))
    assert bench.until(op_id, *rows.ENDED).state == "cancelled"
    assert [row.state for row in children(bench, op_id)] == ["cancelled"]
    assert bench.diary.lines[-2:] == ["undo beside []", "parent fails: Cancelled"]
    assert bench.diary.lines.count("child fails: Cancelled") == 1


def test_a_parent_whose_children_were_cancelled_with_it_has_not_failed(bench):
    """Though it comes to look at them before it has seen that it is cancelled."""
    child = bench.add("child", step("do", never))
    bench.add("parent", starts(child, "a"), joins())
    op_id = bench.enqueue("parent")

    def cancel_all():
        wait_until(lambda: all(map(is_aside, children(bench, op_id))))
        cancel(bench, op_id)
        wait_until(lambda: children(bench, op_id)[0].state == "cancelled")

    bench.worker(faults=Arms({"parent:join:before": cancel_all}))
    assert bench.until(op_id, *rows.ENDED).state == "cancelled"


def test_grandchildren_are_cancelled_too(bench):
    leaf = bench.add("leaf", step("do", never))
    middle = bench.add("middle", starts(leaf, "xy"), joins())
    bench.add("parent", starts(middle, "a"), joins())
    bench.worker()
    op_id = bench.enqueue("parent")

    def leaves():
        return [row for one in children(bench, op_id) for row in children(bench, one.id)]

    wait_until(lambda: len(leaves()) == 2 and all(map(is_aside, leaves())))
    cancel(bench, op_id)
    assert bench.until(op_id, *rows.ENDED).state == "cancelled"
    assert [row.state for row in [*children(bench, op_id), *leaves()]] == ["cancelled"] * 3


def test_a_child_that_is_cancelled_alone_fails_its_parent(bench):
    child = bench.add("child", step("do", never))
    bench.add("parent", starts(child, "ab"), joins())
    bench.worker()
    op_id = bench.enqueue("parent")
    wait_until(lambda: len(found := children(bench, op_id)) == 2 and all(map(is_aside, found)))
    cancel(bench, children(bench, op_id)[0].id)
    row = bench.until(op_id, *rows.ENDED)
    assert (row.state, row.error_code) == ("failed", "ChildFailed")


def test_a_paused_child_keeps_its_parent_waiting_and_resumed_ends_it(bench):
    gate = Gate()

    def in_parts(op):
        gate.wait()
        op.between_parts()

    child = bench.add("child", step("do", in_parts), pausable=True)
    bench.add("parent", starts(child, "a"), joins())
    bench.worker()
    op_id = bench.enqueue("parent")
    assert gate.arrived.wait(60)
    (one,) = children(bench, op_id)
    with bench.db.write() as tx:
        assert steering.request_pause(tx, one.id)
    gate.opened.set()
    bench.until(one.id, "paused")
    bench.until(op_id, "waiting", and_so=is_aside)
    with bench.db.write() as tx:
        assert steering.retry_now(tx, op_id)
    bench.until(op_id, "waiting", and_so=lambda row: row.token >= 2)
    assert bench.show(one.id).state == "paused"
    with bench.db.write() as tx:
        assert steering.resume(tx, one.id)
    bench.until(op_id, "done")


def test_a_paused_parent_is_cancelled_with_its_children(bench):
    gate = Gate()

    def in_parts(op):
        gate.wait()
        op.between_parts()

    child = bench.add("child", step("do", never))
    bench.add("parent", starts(child, "a"), step("parts", in_parts), joins(), pausable=True)
    bench.worker()
    op_id = bench.enqueue("parent")
    assert gate.arrived.wait(60)
    with bench.db.write() as tx:
        assert steering.request_pause(tx, op_id)
    gate.opened.set()
    bench.until(op_id, "paused")
    cancel(bench, op_id)
    assert bench.until(op_id, *rows.ENDED).state == "cancelled"
    assert [row.state for row in children(bench, op_id)] == ["cancelled"]


def test_children_run_under_their_parents_key_and_before_whoever_came_after_it(bench):
    held = []
    child = bench.add("child", step("do", lambda op: held.append((op.args.word, list(op.keys)))))
    bench.add("stranger", step("do", lambda op: held.append(("stranger", list(op.keys)))))
    gate = Gate()
    both = starts(child, "ab", of_keys=lambda name: ["thing", "shared"])
    bench.add("parent", step("first", lambda op: gate.wait()), both, joins())
    bench.worker()
    op_id = bench.enqueue("parent")
    assert gate.arrived.wait(60)
    strangers = [bench.enqueue("stranger", ["thing", "x"]), bench.enqueue("stranger", "thing")]
    gate.opened.set()
    for one in strangers:
        bench.until(one, "done")
    assert held == [("a", ["shared"]), ("b", ["shared"]), ("stranger", ["thing", "x"]), ("stranger", ["thing"])]
    assert bench.show(op_id).state == "done"
    with bench.db.read() as tx:
        assert keys.holders(tx, "thing") == []


def test_of_many_that_end_at_once_each_is_counted(bench):
    gate = threading.Barrier(8)
    child = bench.add("child", step("do", lambda op: gate.wait(60)))
    bench.add("parent", starts(child, "abcdefgh"), joins())
    for name in ("one", "two"):
        bench.worker(name)
    row = bench.run("parent")
    assert (row.state, row.children, row.progress_done, row.data["ended"]) == ("done", 0, 8, ["done"] * 8)


def test_parents_whose_children_fail_at_once_never_block_each_other(bench, caplog):
    """A parent that turns back cancels its children while these end: neither waits for a row that the other has."""

    def fail(op):
        raise Final(reason="no")

    child = bench.add("child", step("do", fail))
    bench.add("parent", starts(child, "abcdef"), joins())
    bench.worker("one", queues=[shelf(concurrency=8)])
    bench.worker("two", queues=[shelf(concurrency=8)])
    ids = [bench.enqueue("parent", str(number)) for number in range(15)]
    for op_id in ids:
        assert bench.until(op_id, *rows.ENDED).state == "failed"
    assert "deadlock" not in caplog.text


def test_a_mount_on_two_hundred_nodes_shows_what_it_has_while_it_goes_on(bench):
    """One parent, a child for each node; partial results are seen, progress adds up, and what failed is told apart."""
    number, gate = 200, Gate()

    def mount(op):
        if op.args.word in ("7", "77"):
            raise Final(reason=f"node {op.args.word} refuses")
        if int(op.args.word) >= 150:
            gate.wait()
        op.record(mounted_on=op.args.word)

    bench.known["mount"] = child = operation("mount", step("mount", mount), parts=Nodes)
    names = [str(one) for one in range(number)]
    bench.add("cluster", starts(child, names, queue=NODES), joins(tolerate=True), parts=Nodes)
    bench.worker(queues=[WorkQueue(QUEUE, Nodes()), WorkQueue(NODES, Nodes(), 32)])
    op_id = bench.enqueue("cluster")
    row = bench.until(op_id, "waiting", and_so=lambda row: row.progress_done == 150)
    found = children(bench, op_id)
    assert (row.progress_total, row.children, len(found)) == (number, 50, number)
    assert [one.data.get("mounted_on") for one in found[:3]] == ["0", "1", "2"]
    assert [one.resource_id for one in found if one.state == "failed"] == ["r-7", "r-77"]
    wait_until(lambda: sum(one.state == "running" for one in children(bench, op_id)) == 32)
    gate.opened.set()
    row = bench.until(op_id, *rows.ENDED)
    assert (row.state, row.progress_done, row.progress_total, row.children) == ("done", number, number, 0)
    assert row.data["ended"].count("done") == number - 2
    assert row.token < 20, "the parent does not look at each that ends"


class Nodes:
    """What is done on machines."""


# ---------------------------------------------------------------- keys of children


def asks_for(child, key, new=()):
    return record("start", lambda op, tx: op.start(tx, child, [(Args(), Target(QUEUE, [key], "x"))], new_keys=new))


def test_two_parents_whose_children_want_what_the_other_holds_are_refused_at_once(bench):
    """Each child would wait for the other parent, and each parent for its child, until somebody's deadline."""
    child, both = bench.add("child", step("do", lambda op: None)), threading.Barrier(2)
    meet = step("meet", lambda op: both.wait(60))
    crossing = record(
        "start",
        lambda op, tx: op.start(tx, child, [(Args(), Target(QUEUE, [{"a": "b", "b": "a"}[op.keys[0]]], "x"))]),
    )
    bench.add("parent", meet, crossing, joins())
    bench.worker()
    ids = [bench.enqueue("parent", key) for key in "ab"]
    for op_id in ids:
        row = bench.until(op_id, *rows.ENDED)
        assert (row.state, children(bench, op_id)) == ("failed", [])
        assert "StrangeKeys" in row.error_text


def test_a_key_that_somebody_has_is_not_new(bench):
    gate, child = Gate(), bench.add("child", step("do", lambda op: None))
    bench.add("holder", step("hold", lambda op: gate.wait()))
    bench.add("parent", asks_for(child, "taken", new=["taken"]), joins())
    bench.worker()
    holder = bench.enqueue("holder", "taken")
    assert gate.arrived.wait(60)
    row = bench.run("parent")
    assert (row.state, children(bench, row.id)) == ("failed", [])
    gate.opened.set()
    bench.until(holder, "done")
    assert bench.run("parent").state == "done"


def test_a_child_may_have_what_any_of_its_ancestors_has(bench):
    leaf = bench.add("leaf", step("do", lambda op: None))
    middle = bench.add("middle", asks_for(leaf, "top"), joins())
    bench.add("parent", starts(middle, "a", of_keys=lambda name: ["top"]), joins())
    bench.worker()
    assert bench.until(bench.enqueue("parent", "top"), *rows.ENDED).state == "done"


# ---------------------------------------------------------------- joining past the pivot


@pytest.mark.parametrize("how", [{}, {"first": True}], ids=["all", "first"])
def test_a_child_that_failed_past_the_pivot_ends_its_parent_with_nothing_undone(bench, how):
    """It can neither go back, nor will what has failed ever be done: trying again would never end."""
    undone = []

    def fail(op):
        raise Final(reason="the child cannot")

    child = bench.add("child", step("do", fail))
    other = bench.add("other", step("slow", lambda op: bench.diary.note("the other goes on")))
    starting = record(
        "start",
        lambda op, tx: [
            op.start(tx, what, [(Args(), Target(QUEUE, [what.kind], what.kind))], new_keys=[what.kind])
            for what in ((child,) if how else (child, other))
        ],
    )
    first = step("first", lambda op: None, undo=lambda op: undone.append("first"))
    bench.add(
        "parent",
        first,
        kinds.Pivot(lambda op: None),
        starting,
        joins(**how),
        step("last", lambda op: undone.append("last")),
    )
    bench.worker()
    row = bench.run("parent")
    assert (row.state, row.error_code, undone) == ("failed", "ChildFailed", [])
    assert "the child cannot" in row.error_text
    assert {one.state for one in children(bench, row.id)} == ({"failed"} if how else {"failed", "done"})
    assert bench.diary.lines.count("parent fails: ChildFailed") == 1
