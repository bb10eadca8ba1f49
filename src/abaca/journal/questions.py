# SPDX-License-Identifier: Apache-2.0
"""Questions to workers: can this migration be done, does this subnet fit.

A question is a short operation that changes nothing and records its answer. Whoever asks gets a future of it, and
holds no thread and no connection meanwhile: the end of the operation is announced as new work is, and one thread for
all questions of a process reads the answers. A worker that dies while it answers is followed by another, as with any
operation. Where no worker answers the future stays as it is; how long to wait for it is for the asker to say.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec
from sqlalchemy import exc

from abaca import errors
from abaca.db.journal import operations as rows
from abaca.journal import kinds, queueing

if TYPE_CHECKING:
    from abaca.db.engine.database import Database, Tx
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester
    from abaca.journal.wakeup import Listener

Parts = TypeVar("Parts")

log = logging.getLogger(__name__)

# An answer is announced as the queues are, under the operation's id behind this.
ANSWERED = "!"
# Announcements may get lost: so often is looked for answers by ourselves while anybody waits.
LOOK_AGAIN_S = 1.0

Future = concurrent.futures.Future[object]


class NoAnswer(errors.AbacaError):
    """It could not be found out: {reason}"""

    status, code = 409, "NoAnswer"


def kind(name: str, args: type[msgspec.Struct], parts: type, find_out: kinds.StepFunction) -> kinds.Operation:
    """A kind of question: `find_out` calls `answer` with what it has found, and changes nothing."""
    step = kinds.Step(find_out, kinds.nothing)
    return kinds.operation(
        kind=name, resource="question", args=args, parts=parts, steps=(step,), succeed=_announce, fail=_announce
    )


def answer(op: Op[Parts], found: object) -> None:
    """The answer to a question, in plain data."""
    op.record(answer=found)


def _announce(op: Op[Parts], tx: Tx, *_error: errors.AbacaError) -> None:
    tx.wake(ANSWERED + op.id)


def all_of(futures: Sequence[Future]) -> Future:
    """All answers in the order of their questions; it fails as soon as one of them does."""
    # Reentrant, since the failure of one cancels the others, whose end is noted within the same call.
    whole, lock = Future(), threading.RLock()

    def note(one: Future) -> None:
        with lock:
            if whole.done():
                return
            error = None if one.cancelled() else one.exception()
            if one.cancelled():
                whole.cancel()
            elif error is not None:
                whole.set_exception(error)
            elif all(future.done() for future in futures):
                whole.set_result([future.result() for future in futures])

    if not futures:
        whole.set_result([])
    whole.add_done_callback(lambda _: [future.cancel() for future in futures])
    for future in futures:
        future.add_done_callback(note)
    return whole


class Questions:
    """Asks for one process. It listens from the first question on, to what `listen` makes."""

    def __init__(self, db: Database, listen: Callable[[], Listener]) -> None:
        self._db = db
        self._make_listener = listen
        self._listener: Listener | None = None
        self._changed = threading.Condition()
        self._asked: dict[str, list[Future]] = {}
        self._heard: set[str] = set()
        self._look_at_s = 0.0
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def ask(self, what: kinds.Operation, args: msgspec.Struct, queue: str, by: Requester | None) -> Future:
        """A future of the answer, which fails with `NoAnswer` when the worker cannot find it out.

        Those who ask the same before a worker has begun get the same answer.
        """
        said = msgspec.json.encode((what.kind, queue, args, by.project_id if by else None), order="sorted")
        same = hashlib.blake2b(said, digest_size=16).hexdigest()
        target = queueing.Target(queue=queue, keys=(), resource_id=same, coalesce_key=f"question:{same}")
        future = Future()
        self._listen()
        with self._db.write() as tx:
            op_id = queueing.enqueue(tx, what, args, target, by)
        with self._changed:
            self._asked.setdefault(op_id, []).append(future)
            # it may have been answered before this was written down
            self._heard.add(op_id)
            self._changed.notify_all()
        return future

    def close(self) -> None:
        """Listen no longer; who still waits, waits in vain."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._listener is not None:
            self._listener.stop()
        if self._thread is not None:
            self._thread.join()

    def _listen(self) -> None:
        with self._changed:
            if self._thread is None:
                self._thread = threading.Thread(target=self._follow, name="answers", daemon=True)
                self._thread.start()
                self._listener = self._make_listener()
                self._listener.start(self._hear)

    def _hear(self, announced: str) -> None:
        op_id = announced.removeprefix(ANSWERED)
        with self._changed:
            if not announced:
                self._heard.update(self._asked)
            elif op_id in self._asked:
                self._heard.add(op_id)
            else:
                return
            self._changed.notify_all()

    def _follow(self) -> None:
        while (due := self._due()) is not None:
            try:
                self._read(due)
            except exc.SQLAlchemyError as error:
                log.warning("no answers can be read: %s", str(error).split("\n")[0])
            except Exception:
                log.exception("answers were not read")

    def _due(self) -> list[str] | None:
        """The questions to look at; None when this is over."""
        with self._changed:
            while not self._heard and not self._is_closed:
                left_s = self._look_at_s - time.monotonic()
                if self._asked and left_s <= 0:
                    self._forget()
                    self._heard.update(self._asked)
                    self._look_at_s = time.monotonic() + LOOK_AGAIN_S
                else:
                    self._changed.wait(left_s if self._asked else None)
            due, self._heard = list(self._heard), set()
            return None if self._is_closed else due

    def _forget(self) -> None:
        """Those that nobody waits for any more."""
        for op_id, futures in list(self._asked.items()):
            waiting = [future for future in futures if not future.cancelled()]
            if waiting:
                self._asked[op_id] = waiting
            else:
                del self._asked[op_id]

    def _read(self, due: list[str]) -> None:
        with self._db.read() as tx:
            ended = rows.ended(tx, due)
        for row in ended:
            with self._changed:
                futures = self._asked.pop(row.id, [])
            for future in futures:
                if future.set_running_or_notify_cancel():
                    _settle(future, row.data, row.state, row.error_text)


def _settle(future: Future, data: Mapping[str, object], state: str, reason: str | None) -> None:
    if state == "done":
        future.set_result(data.get("answer"))
    else:
        future.set_exception(NoAnswer(reason=reason or "it was cancelled"))
