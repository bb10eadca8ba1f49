# SPDX-License-Identifier: Apache-2.0
"""Kinds of operations: what they are made of. op.py is one run of one, queueing.py writes one down, runner.py runs it.

An operation is a row that commits with the state move it explains. It is a list of steps, each `(do, undo)` and each
idempotent, with at most one pivot. A step that ends is checkpointed, where a step of the database follows in the
transaction of that; whoever goes on after a crash repeats at most the step that was under way. Errors that can pass are
tried again with growing delays; any other error before the pivot undoes what was done, in reverse, beginning with the
step that failed; after the pivot the operation only goes forward. The end (state event, quota, message, the row itself)
is one transaction.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from abaca import errors
from abaca.domain.administration.events import END, ERROR, START

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx

StepFunction = Callable[[Any], None]
RecordFunction = Callable[[Any, "Tx"], None]
# Of an `Op` the queue on which a step runs.
QueueOf = Callable[[Any], str]

# Of a transaction, the resource's id, the operation's arguments and what its steps have recorded: what events say of
# the resource, or None when it is gone.
Payload = Callable[["Tx", str, Any, Mapping[str, object]], Mapping[str, object] | None]


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """The events of a kind of operation: `<name>.start`, and `<name>.end` or `<name>.error` (events.py)."""

    # of its arguments where these decide; then `names` are all that it may be
    name: str | Callable[[Any], str]
    payload: Payload
    names: tuple[str, ...] = ()
    # False: its start is told by a step, or not at all where many requests become one operation
    starts: bool = True
    # its success takes the resource away: then the end tells what there was, and this
    gone: Mapping[str, object] | None = None
    # of its arguments, and of what it has recorded: it is news, and told. When it is accepted nothing is recorded yet;
    # that one has failed always is, but for what `is_known`
    is_news: Callable[..., bool] = lambda _args, _data: True
    # of its arguments, and of the code of its error, None when it is accepted: an earlier try has told that, and it is
    # not told again
    is_known: Callable[..., bool] = lambda _args, _code: False

    @property
    def types(self) -> frozenset[str]:
        """The types of all its events."""
        names = (self.name,) if isinstance(self.name, str) else self.names
        moments = (START, END, ERROR)
        return frozenset(f"{name}.{moment}" for name in names for moment in moments)

    def called(self, args: object) -> str:
        """What an operation with these arguments does, such as `share.create`."""
        return self.name if isinstance(self.name, str) else self.name(args)

    def named(self, args: object, moment: str) -> str:
        """The type of its event at START, END or ERROR."""
        return f"{self.called(args)}.{moment}"


def nothing(_op: object) -> None:
    """The undo of a step that leaves nothing behind when it fails."""


class Step(msgspec.Struct, frozen=True):
    """Do something to the world, outside any transaction. `undo` takes it back, also when it was half done.

    `queue` says on which queue both run, where that is not the operation's own; `parts` is what they get there, by
    default the kind's. A step, or a part of one, that takes longer than `within_s` seconds is shown as overdue.
    Where `applies` says no the step is passed over, and costs nothing; its undo is not.
    """

    do: StepFunction
    undo: StepFunction | None = None
    is_pivot: bool = False
    queue: QueueOf | None = None
    parts: type | None = None
    within_s: float | None = None
    applies: Callable[..., bool] = lambda _op: True

    @property
    def name(self) -> str:
        """What operators see."""
        return self.do.__name__


class DatabaseStep(msgspec.Struct, frozen=True):
    """A step that only writes the database: it runs inside the transaction of its own checkpoint.

    It, too, is idempotent: the answer to a commit can get lost. It runs wherever the operation is.
    """

    do: RecordFunction
    undo: RecordFunction | None = None
    is_pivot: bool = False

    @property
    def name(self) -> str:
        """What operators see."""
        return self.do.__name__


def Pivot(do: StepFunction, **more: Any) -> Step:  # noqa: N802 - it reads as a kind of step
    """The step from which there is no way back."""
    return Step(do, is_pivot=True, **more)


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of durable work. `succeed` and `fail` write inside the transaction that ends it."""

    kind: str
    args: type[msgspec.Struct]
    # what steps get to work with on the operation's own queue: `op.parts` is one of these
    parts: type
    steps: tuple[Step | DatabaseStep, ...]
    succeed: RecordFunction
    fail: Callable[[Any, Tx, errors.AbacaError], None]
    resource: str
    # from this step on it only goes forward
    pivot: int = -1
    # an accepted delete, say, is not taken back
    cancellable: bool = True
    # the events of it
    notifies: Notification | None = None
    # whether it goes in parts, between which it can wait for as long as an operator likes
    pausable: bool = False

    def parts_of(self, step: Step | DatabaseStep) -> type:
        """What a step gets to work with."""
        return (step.parts if isinstance(step, Step) else None) or self.parts


def operation(**parts: Any) -> Operation:
    """An `Operation`, checked: at most one pivot, every step before it can be undone, and all get what they ask for.

    Raises `ValueError`.
    """
    steps: tuple[Step | DatabaseStep, ...] = parts["steps"]
    pivots = [i for i, step in enumerate(steps) if step.is_pivot]
    if len(pivots) > 1:
        raise ValueError(f"{parts['kind']}: more than one pivot")
    reach = pivots[0] if pivots else len(steps)
    for step in steps[:reach]:
        if step.undo is None:
            raise ValueError(f"{parts['kind']}: step {step.name} stands before the pivot and has no undo")
    made = Operation(**parts, pivot=reach)
    for step in steps:
        for function in (step.do, step.undo):
            _check_parts(made, function, made.parts_of(step))
    return made


def _check_parts(what: Operation, function: Callable[..., object] | None, given: type) -> None:
    """A step that says by its annotation `Op[X]` which parts it gets is given these."""
    if function is None:
        return
    wanted = _asked_parts(what, function)
    if wanted is not None and not issubclass(given, wanted):
        raise ValueError(f"{what.kind}: {function.__name__} asks for {wanted.__name__}, and gets {given.__name__}")


def _asked_parts(what: Operation, function: Callable[..., object]) -> type | None:
    """X of a function whose first parameter is annotated `Op[X]`, by the names of its module; None for any other.

    Raises `ValueError` for a name that the module imports for the type checker only.
    """
    first = next(iter(inspect.signature(function).parameters))
    annotation = function.__annotations__.get(first, "")
    if not isinstance(annotation, str):
        found: object = (*typing.get_args(annotation), None)[0]
    elif annotation.startswith("Op[") and annotation.endswith("]"):
        name, *attributes = annotation[3:-1].split(".")
        if name not in function.__globals__:
            raise ValueError(f"{what.kind}: {function.__name__} asks for {annotation[3:-1]}, unknown at run time")
        found = functools.reduce(getattr, attributes, function.__globals__[name])
    else:
        return None
    return found if isinstance(found, type) and found is not Any else None


class Standing(Protocol):
    """As much of an operation as names the step it stands at."""

    @property
    def kind(self) -> str: ...
    @property
    def step(self) -> int: ...


def waiting_for(row: Standing, known: Mapping[str, Operation]) -> str:
    """The name of the step that an operation stands at, for people."""
    what = known.get(row.kind)
    if what is None:
        return "a worker that knows this kind"
    return what.steps[row.step].name if 0 <= row.step < len(what.steps) else "the end"


class Retry(msgspec.Struct, frozen=True):
    """How long to wait before the next try, in seconds: the last value goes on for ever after a pivot."""

    delays_s: Sequence[float] = (1, 2, 4, 8, 16, 32, 60, 120)
    # how often an undo that fails for good is tried before the end is written all the same
    undo_tries: int = 4

    def delay_s(self, attempt: int) -> float:
        """Before try number `attempt` + 1."""
        return self.delays_s[min(attempt, len(self.delays_s) - 1)]


class Faults(Protocol):
    """Where tests break things: called with `kind:step:moment` at every moment at which a process may die."""

    def __call__(self, point: str, /) -> None: ...


def no_faults(_point: str) -> None:
    """Production: nothing breaks on purpose."""
