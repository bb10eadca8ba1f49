# SPDX-License-Identifier: Apache-2.0
"""How people steer what is going on: cancel, pause, resume, retry; and why that is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

from abaca import errors
from abaca.db.journal import operations
from abaca.db.journal import steering as rows

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.operations import OperationRecord
    from abaca.journal.kinds import Operation

Verb = Literal["cancel", "pause", "resume", "retry"]

_WRITES: dict[Verb, Callable[[Tx, str], bool]] = {
    "cancel": rows.request_cancel,
    "pause": rows.request_pause,
    "resume": rows.resume,
    "retry": rows.retry_now,
}
_REFUSALS: dict[Verb, str] = {
    "cancel": "it has ended",
    "pause": "it has ended, is being cancelled, or goes back",
    "resume": "it is not paused",
    "retry": "it is not waiting",
}


def steer(tx: Tx, op_id: str, verb: Verb, known: Mapping[str, Operation]) -> None:
    """Do it. Raises `NotFound`, and `Conflict` with the reason where it makes no sense."""
    row = operations.show(tx, op_id)
    if row is None:
        raise errors.NotFound(resource="Operation", id=op_id)
    if verb == "pause" and not (row.kind in known and known[row.kind].pausable):
        raise errors.Conflict(f"Operation {op_id} cannot be paused: {row.kind} does not go in parts.")
    if not _WRITES[verb](tx, op_id):
        raise _refusal(row, verb)


def _refusal(row: OperationRecord, verb: Verb) -> errors.AbacaError:
    why = "resume it instead" if verb == "retry" and row.state == "paused" else _REFUSALS[verb]
    return errors.Conflict(f"Operation {row.id} is {row.state}: {why}.")
