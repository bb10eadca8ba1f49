# SPDX-License-Identifier: Apache-2.0
"""Make a share on the back end that the scheduler chose.

One transaction accepts it: the rows, the quota, the room in the pool and this operation. One on a share network waits
for its share server, which is chosen or asked for here. What can go wrong: that cannot be had, the back
end is full, refuses or stays away for long; then whatever it had begun is taken back there, the share is in `error`,
and a message says why. The share keeps its quota until it is deleted, as any share does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.shares import driver_data, export_locations, share_instances
from abaca.db.shares.export_location_history import Cause, Owner
from abaca.domain.administration.messages import Action, Detail
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.operations import events
from abaca.operations.networks import share_server_choice
from abaca.operations.parts import DRIVER_CALL_S, BackEnd
from abaca.operations.shares.share_instances import changed_by, keys_of_instances, notify_project, target_of

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


_DETAILS = share_server_choice.DETAILS | {contract.Full.code: Detail.FILTER_CAPACITY}


class Args(msgspec.Struct, frozen=True):
    """What the driver is told, and the share network on which it shall be served, if it is one."""

    instance: contract.ShareInstance
    share_network_id: str | None = None


def start(
    tx: Tx, instance: contract.ShareInstance, host: str, by: Requester | None, share_network_id: str | None = None
) -> str:
    """Queue it, for an instance whose rows were written in this transaction; the operation's id."""
    # nobody can work on the share before it has this instance, so that holding it is enough
    target = target_of(host, instance.share_id, keys_of_instances([instance.id]))
    return queueing.enqueue(tx, OPERATION, Args(instance, share_network_id), target, by)


def _instance(op: Op[BackEnd]) -> contract.ShareInstance:
    """As its driver is told of it, with its share server from when that is known."""
    on_server = op.data.get("instance")
    found = op.args.instance if on_server is None else msgspec.convert(on_server, contract.ShareInstance)
    return changed_by(op, found)


def create_on_backend(op: Op[BackEnd]) -> None:
    """The back end's part: data and export, for nobody yet; on a share network, once its share server serves."""
    if op.args.share_network_id is not None:
        server = share_server_choice.server_for(op, op.args.instance, op.args.share_network_id)
        op.record(instance=msgspec.structs.replace(op.args.instance, server=server))
    made = op.parts.driver.create(_instance(op))
    op.record(exports=made.exports, driver_data=made.driver_data)


def remove_from_backend(op: Op[BackEnd]) -> None:
    """Whatever there is of it."""
    op.parts.driver.delete(_instance(op))


def succeed(op: Op[BackEnd], tx: Tx) -> None:
    """It can be used from here on."""
    instance_id = op.args.instance.id
    owner = Owner(op.args.instance.share_id, op.args.instance.project_id)
    exports = msgspec.convert(op.data["exports"], list[contract.Export])
    export_locations.add(tx, instance_id, exports, owner, Cause(op.id, op.what.kind))
    driver_data.keep(tx, {instance_id: op.data.get("driver_data")})
    share_instances.finish_create(tx, instance_id)


def fail(op: Op[BackEnd], tx: Tx, error: errors.AbacaError) -> None:
    """It stays visible, broken, with the reason."""
    detail = _DETAILS.get(error.code, Detail.UNKNOWN_ERROR)
    break_off(op, tx, (Action.CREATE, detail), error)


def break_off(op: Op[BackEnd], tx: Tx, cause: tuple[Action, Detail], error: errors.AbacaError) -> None:
    """Say that a share that was being made, from whatever, is not."""
    share_instances.try_move(tx, op.args.instance.id, "failed", ("creating", "creating_from_snapshot"))
    notify_project(op, tx, op.args.instance, cause, error.message)


OPERATION = kinds.operation(
    kind="share-create",
    resource="share",
    args=Args,
    parts=BackEnd,
    steps=(kinds.Step(create_on_backend, undo=remove_from_backend, within_s=DRIVER_CALL_S),),
    succeed=succeed,
    fail=fail,
    notifies=kinds.Notification(name="share.create", payload=events.share),
)
