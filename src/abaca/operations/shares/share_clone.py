# SPDX-License-Identifier: Apache-2.0
"""Make a share that starts with the content of a snapshot.

It is accepted as any share is (share_accept.py) and holds its instance and the snapshot, which so stays until it is
done. One on a share network waits for its share server. What can go wrong: the snapshot cannot be read any more, the
back end is full, refuses or stays away for long; then whatever it had begun is taken back there, the share is in
`error`, and a message says why. The share keeps its quota until it is deleted, as any share does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.journal import keys
from abaca.db.shares import share_instances, snapshots
from abaca.domain.administration.messages import Action, Detail
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.journal.interruptions import Wait
from abaca.operations import events
from abaca.operations.networks import share_server_choice
from abaca.operations.parts import DRIVER_CALL_S, BackEnd
from abaca.operations.shares import share_create
from abaca.operations.shares.share_instances import changed_by, keys_of_instances, target_of

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester

# How often a back end that takes its time is looked at, in seconds.
LOOK_S = 5.0


class Args(msgspec.Struct, frozen=True):
    """What the driver is told of the new share and of the snapshot, and on which share network it shall be served."""

    instance: contract.ShareInstance
    source: contract.Snapshot
    snapshot_id: str
    share_network_id: str | None = None


def start(tx: Tx, args: Args, host: str, by: Requester | None) -> str:
    """Queue it, for an instance whose rows were written in this transaction; the operation's id."""
    held = [*keys_of_instances([args.instance.id]), keys.key(snapshots.KEY, args.snapshot_id)]
    target = target_of(host, args.instance.share_id, held)
    return queueing.enqueue(tx, OPERATION, args, target, by)


def _clone(op: Op[BackEnd]) -> contract.Clone:
    """As its driver is told of it, with its share server from when that is known."""
    on_server = op.data.get("instance")
    found = op.args.instance if on_server is None else msgspec.convert(on_server, contract.ShareInstance)
    return contract.Clone(instance=changed_by(op, found), snapshot=op.args.source)


def _cloning(op: Op[BackEnd]) -> contract.ClonesSnapshots:
    if not isinstance(op.parts.driver, contract.ClonesSnapshots):
        raise errors.BackendError(reason="it cannot make shares from snapshots")
    return op.parts.driver


def begin_on_backend(op: Op[BackEnd]) -> None:
    """The back end begins; on a share network, once its share server serves."""
    if op.args.share_network_id is not None:
        server = share_server_choice.server_for(op, op.args.instance, op.args.share_network_id)
        op.record(instance=msgspec.structs.replace(op.args.instance, server=server))
    _cloning(op).start_clone(_clone(op))


def cancel_on_backend(op: Op[BackEnd]) -> None:
    """Whatever there is of it."""
    if isinstance(op.parts.driver, contract.ClonesSnapshots):
        op.parts.driver.cancel_clone(_clone(op))


def wait_for_backend(op: Op[BackEnd]) -> None:
    """Until all is copied; a share that has to wait for it says so."""
    progress = _cloning(op).look_at_clone(_clone(op))
    if not progress.is_done:
        op.progress(progress.percent, 100)
        with op.write() as tx:
            share_instances.try_move(tx, op.args.instance.id, "copy", ("creating",))
        raise Wait(progress.details or "the snapshot to be copied", look_again_s=LOOK_S)


def finish_on_backend(op: Op[BackEnd]) -> None:
    """It is exported, to nobody yet."""
    made = _cloning(op).end_clone(_clone(op))
    op.record(exports=made.exports, driver_data=made.driver_data)


def remove_from_backend(op: Op[BackEnd]) -> None:
    """Whatever there is of it."""
    op.parts.driver.delete(_clone(op).instance)


def succeed(op: Op[BackEnd], tx: Tx) -> None:
    """It can be used from here on."""
    share_create.succeed(op, tx)


def fail(op: Op[BackEnd], tx: Tx, error: errors.AbacaError) -> None:
    """It stays visible, broken, with the reason."""
    detail = share_server_choice.DETAILS.get(error.code, Detail.DRIVER_FAILED_CREATING_FROM_SNAPSHOT)
    share_create.break_off(op, tx, (Action.CREATE, detail), error)


OPERATION = kinds.operation(
    kind="share-clone",
    resource="share",
    args=Args,
    parts=BackEnd,
    steps=(
        kinds.Step(begin_on_backend, undo=cancel_on_backend, within_s=DRIVER_CALL_S),
        kinds.Step(wait_for_backend, undo=kinds.nothing, within_s=DRIVER_CALL_S),
        kinds.Step(finish_on_backend, undo=remove_from_backend, within_s=DRIVER_CALL_S),
    ),
    succeed=succeed,
    fail=fail,
    notifies=kinds.Notification(name="share.create", payload=events.share),
)
