# SPDX-License-Identifier: Apache-2.0
"""The house rules about waiting in tests: for something that happens, never for time to pass."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.house_rules import dotted, python, rule

# The one place that polls, with a deadline.
POLLS = "tests/conftest.py"
EVENTS = {"Event", "Condition"}
SLEEPERS = {"time", "asyncio", "trio", "anyio", "gevent", "eventlet"}
CLOCKS = {"time.time", "time.monotonic", "time.perf_counter"}
POLLERS = {"poll", "epoll", "kqueue", "devpoll", "DefaultSelector", "PollSelector", "EpollSelector", "SelectSelector"}
RUNNERS = {"run", "call", "check_call", "check_output"}
SHORT_JOIN_S = 1


@rule
def tests_never_sleep(root: Path) -> list[str]:
    """No test sleeps, under no name: a sleep is too long on a quick machine and too short on a slow one.

    Mend: wait for the event itself, or `wait_until(predicate, timeout_s)` of tests/conftest.py. Where something must
    not happen, wait for what would come after it.
    """
    trees = [(name, tree) for name, tree in python(root, "tests") if name != POLLS]
    rung = {attribute.value for _, tree in trees for attribute in attributes(tree) if attribute.attr in RINGING}
    set_somewhere = {last(dotted(value)) for value in rung}
    found = []
    for name, tree in trees:
        silent = events(tree) - set_somewhere - handed_on(tree)
        looks: list[Callable[[ast.AST], bool]] = [sleeps, joins_shortly, spins, selects_nothing, runs_sleep]
        lines = {node.lineno for look in looks for node in ast.walk(tree) if look(node)}
        lines |= {call.lineno for call in calls(tree) if waits_for_nobody(call, silent)}
        lines |= {call.lineno for call in calls(tree) if polls_nothing(call, tree)}
        lines |= {line for function in asked_again(tree) for line in answers_by_the_clock(function)}
        found += [f"{name}:{line}: sleeps" for line in sorted(lines)]
    return found


@rule
def tests_look_whether_what_they_wait_for_came(root: Path) -> list[str]:
    """Who waits for a threading.Event with a deadline looks at the answer: it is False when nothing came.

    Mend: `assert event.wait(10)`.
    """
    trees = list(python(root, "tests"))
    known = {event for _, tree in trees for event in events(tree)}
    return [
        f"{name}:{node.lineno}: does not look whether it came"
        for name, tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and waits(node.value, known)
    ]


@rule
def tests_wait_for_nobody_while_they_write(root: Path) -> list[str]:
    """Who waits for an operation's state does so outside their own write: on SQLite nobody else writes meanwhile.

    Mend: wait first, and then write.
    """
    return [
        f"{name}:{call.lineno}: waits while it writes"
        for name, tree in python(root, "tests")
        for node in ast.walk(tree)
        if isinstance(node, ast.With) and any(writes(item.context_expr) for item in node.items)
        for call in calls(ast.Module(node.body, []))
        if last(dotted(call.func)).partition("_")[0] == "until"
    ]


@rule
def tests_freeze_others_by_the_lab(root: Path) -> list[str]:
    """Who sends SIGSTOP to another process does not know when it stands still: its threads run on for a while.

    Mend: `processes.freeze(pid)`, or `with processes.frozen(pid):`, of lab/processes.py.
    """
    return [
        f"{name}:{call.lineno}: sends SIGSTOP"
        for name, tree in python(root, "tests")
        for call in calls(tree)
        if any(last(dotted(sent)) == "SIGSTOP" for sent in call.args) and not is_to_itself(call)
    ]


def is_to_itself(call: ast.Call) -> bool:
    """Whether the signal goes to `os.getpid()`."""
    whom = call.args[0]
    return isinstance(whom, ast.Call) and last(dotted(whom.func)) == "getpid"


def writes(node: ast.expr) -> bool:
    """Whether it is `db.write()`."""
    return isinstance(node, ast.Call) and last(dotted(node.func)) == "write"


RINGING = {"set", "notify", "notify_all"}


def attributes(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Every `a.b`."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Every call."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def last(name: str) -> str:
    """`c` of `a.b.c`."""
    return name.rpartition(".")[2]


def number(node: ast.expr) -> float | None:
    """The number that stands there."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) else None


def makes_event(node: ast.AST) -> bool:
    """Whether it is `threading.Event()` or its like."""
    return isinstance(node, ast.Call) and last(dotted(node.func)) in EVENTS


def events(tree: ast.AST) -> set[str]:
    """The names that are given to events in a module, the last word of each."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                found |= {last(dotted(name)) for name, value in pairs(target, node.value) if makes_event(value)}
    return found


def pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is assigned to what, in `a, b = c, d` as well."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        yield from zip(target.elts, value.elts, strict=False)
    else:
        yield target, value


def handed_on(tree: ast.AST) -> set[str]:
    """Names that are given to somebody else as arguments or answers: whoever has them may ring."""
    given: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            given += [*node.args, *(keyword.value for keyword in node.keywords)]
        elif isinstance(node, (ast.Return, ast.Yield)) and node.value is not None:
            given.append(node.value)
    flat = [one for node in given for one in (node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node])]
    return {last(dotted(node)) for node in flat if isinstance(node, (ast.Name, ast.Attribute))}


def waits(call: ast.Call, known: set[str]) -> bool:
    """Whether it is `event.wait(seconds)` of a known event."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "wait" and (call.args or call.keywords)):
        return False
    return last(dotted(call.func.value)) in known or makes_event(call.func.value)


def waits_for_nobody(call: ast.Call, silent: set[str]) -> bool:
    """Whether it waits for an event that nobody sets."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr in {"wait", "wait_for"}):
        return False
    return makes_event(call.func.value) or (call.func.attr == "wait" and last(dotted(call.func.value)) in silent)


def sleeps(node: ast.AST) -> bool:
    """Whether it names a function that sleeps, to call it or to give it another name; or a timer."""
    if isinstance(node, ast.ImportFrom):
        names = {alias.name for alias in node.names}
        return (node.module in SLEEPERS and "sleep" in names) or (node.module == "threading" and "Timer" in names)
    if isinstance(node, ast.Call) and last(dotted(node.func)) == "sleep":
        return True
    if isinstance(node, ast.Attribute):
        name = dotted(node)
        return name in {f"{module}.sleep" for module in SLEEPERS} or name in {"threading.Timer", "signal.pause"}
    return False


def joins_shortly(node: ast.AST) -> bool:
    """Whether it is `thread.join(0.3)`, which gives up so soon that giving up must be what is wanted."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "join"):
        return False
    told = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "timeout")]
    bound_s = number(told[0]) if told else None
    return bound_s is not None and bound_s < SHORT_JOIN_S


def spins(node: ast.AST) -> bool:
    """Whether a loop, or a `wait_until`, goes on until the clock says something."""
    if isinstance(node, ast.While):
        asked: ast.AST = node.test
    elif isinstance(node, ast.Call) and last(dotted(node.func)) == "wait_until" and node.args:
        asked = node.args[0]
    else:
        return False
    return any(dotted(call.func) in CLOCKS for call in calls(asked))


def asked_again(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """The functions of a module that are given to `wait_until`."""
    given = {dotted(call.args[0]) for call in calls(tree) if last(dotted(call.func)) == "wait_until" and call.args}
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in given)


def answers_by_the_clock(function: ast.FunctionDef) -> list[int]:
    """The lines that return what the clock says."""
    returns = (node for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None)
    return [node.lineno for node in returns if any(dotted(call.func) in CLOCKS for call in calls(node))]


def selects_nothing(node: ast.AST) -> bool:
    """Whether it is `select.select([], [], [], seconds)`, or a signal's wait for no signal."""
    if not isinstance(node, ast.Call):
        return False
    empty = [isinstance(one, (ast.List, ast.Tuple, ast.Set)) and not one.elts for one in node.args]
    name = last(dotted(node.func))
    return (name == "select" and len(empty) >= 3 and all(empty[:3])) or (name == "sigtimedwait" and any(empty))


def polls_nothing(call: ast.Call, tree: ast.AST) -> bool:
    """Whether a poller polls at which the module registers nothing."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr in {"poll", "select"}):
        return False
    poller = call.func.value
    if isinstance(poller, ast.Call):
        return last(dotted(poller.func)) in POLLERS
    made = {
        last(dotted(target))
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for target in node.targets
        if last(dotted(node.value.func)) in POLLERS
    }
    watching = {last(dotted(one.value)) for one in attributes(tree) if one.attr == "register"}
    return last(dotted(poller)) in made - watching


def runs_sleep(node: ast.AST) -> bool:
    """Whether the command `sleep` is run and waited for."""
    if not (isinstance(node, ast.Call) and node.args):
        return False
    name, command = dotted(node.func), node.args[0]
    words = command.elts if isinstance(command, (ast.List, ast.Tuple)) else [command]
    word = words[0].value if words and isinstance(words[0], ast.Constant) else ""
    by = name.startswith("subprocess.") and last(name) in RUNNERS
    return (by or name == "os.system") and isinstance(word, str) and word.split(" ")[0] == "sleep"
