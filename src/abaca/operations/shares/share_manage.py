# SPDX-License-Identifier: Apache-2.0
"""Take a share that exists on a back end under management: its data stays where it is, and gets a row here.

Who may reach it begins anew: nobody, until rules are added. Its size counts from when the back end has told it,
whatever the limits of the project are, since it is there already. What can go wrong: nothing is at the path, it does
not fit, it is smaller or larger than its type allows, another share has it; then the share is `manage_error` with a
message, and unmanaging it, or deleting it by force, makes way for another try: neither touches the data, which is on
the back end as before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.administration import pools
from abaca.db.catalog import quotas
from abaca.db.journal import keys
from abaca.db.shares import driver_data, export_locations, share_instances, shares
from abaca.db.shares.export_location_history import Cause, Owner
from abaca.domain.administration.messages import Action, Detail
from abaca.domain.shares import shares as rules
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.operations import events
from abaca.operations.parts import DRIVER_CALL_S, BackEnd
from abaca.operations.shares.share_instances import (
    changed_by,
    keys_of_instances,
    notify_project,
    service_host,
    target_of,
)

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


class Args(msgspec.Struct, frozen=True):
    """What the driver is told, with the path as its one export; where it is (host@backend#pool), and whose."""

    instance: contract.ShareInstance
    host: str
    options: Mapping[str, str]
    protocols: tuple[str, ...]
    user_id: str | None
    share_type_id: str | None

    @property
    def path(self) -> str:
        """Where it is found."""
        return self.instance.exports[0].path


class AlreadyManaged(errors.Conflict):
    """What is at {path} is under management already, as share {share_id}."""


def start(tx: Tx, args: Args, by: Requester | None) -> str:
    """Queue it, for an instance whose rows were written in this transaction; the operation's id."""
    same = hashlib.sha256(f"{service_host(args.host)} {args.path}".encode()).hexdigest()
    # of two who want the same the second finds that the first has it
    held = [*keys_of_instances([args.instance.id]), keys.key("export-path", same)]
    return queueing.enqueue(tx, OPERATION, args, target_of(args.host, args.instance.share_id, held), by)


def refuse_managed(tx: Tx, host: str, path: str) -> None:
    """Raises `AlreadyManaged` where a share on that back end (host@backend#pool) is mounted by that path."""
    share_id = export_locations.share_mounted_by(tx, service_host(host), path)
    if share_id is not None:
        raise AlreadyManaged(path=path, share_id=share_id)


def check(op: Op[BackEnd], tx: Tx) -> None:
    """Nobody was faster."""
    rules.check_protocol(op.args.instance.protocol, op.args.protocols)
    refuse_managed(tx, op.args.host, op.args.path)


def uncheck(_op: Op[BackEnd], _tx: Tx) -> None:
    """Nothing was taken."""


def manage_on_backend(op: Op[BackEnd]) -> None:
    """The back end's part; who could reach it still can."""
    if not isinstance(op.parts.driver, contract.Manages):
        raise errors.BackendError(reason="it cannot take shares over")
    found = op.parts.driver.manage(changed_by(op, op.args.instance), op.args.options)
    op.record(size_gib=found.size_gib, exports=found.exports, driver_data=found.driver_data)


def give_up_on_backend(op: Op[BackEnd]) -> None:
    """Undo: it is there as before, and nobody's."""
    if isinstance(op.parts.driver, contract.Manages):
        op.parts.driver.unmanage(changed_by(op, op.args.instance))


def count(op: Op[BackEnd], tx: Tx) -> None:
    """It has its size, which the project and the pool have in use from now on."""
    instance = op.args.instance
    shares.lock(tx, instance.share_id)
    row = share_instances.whole(tx, instance.id)
    if row is None or row.size:
        return
    size_gib = int(op.data["size_gib"])
    # known only now; a type's bounds hold for what is taken over as for what is made
    rules.check_smallest(size_gib, instance.extra_specs)
    rules.check_largest(size_gib, instance.extra_specs)
    shares.update(tx, instance.share_id, {"size": size_gib})
    _use(op, tx, size_gib)


def uncount(op: Op[BackEnd], tx: Tx) -> None:
    """Undo: it has none."""
    instance = op.args.instance
    shares.lock(tx, instance.share_id)
    row = share_instances.whole(tx, instance.id)
    if row is not None and row.size:
        shares.update(tx, instance.share_id, {"size": 0})
        _use(op, tx, -row.size)


def _use(op: Op[BackEnd], tx: Tx, size_gib: int) -> None:
    args = op.args
    quotas.give_back(tx, args.instance.project_id, args.user_id, args.share_type_id, {"gigabytes": -size_gib})
    if size_gib > 0:
        pools.claim_anyway(tx, args.host, size_gib)
    else:
        pools.release(tx, args.host, -size_gib)


def close_on_backend(op: Op[BackEnd]) -> None:
    """Nobody can reach it until rules are added."""
    known = msgspec.structs.replace(
        op.args.instance,
        size_gib=int(op.data["size_gib"]),
        exports=msgspec.convert(op.data["exports"], list[contract.Export]),
        driver_data=op.data.get("driver_data") or {},
    )
    op.parts.driver.set_access(changed_by(op, known), [])


def succeed(op: Op[BackEnd], tx: Tx) -> None:
    """It can be used from here on."""
    instance = op.args.instance
    owner = Owner(instance.share_id, instance.project_id)
    exports = msgspec.convert(op.data["exports"], list[contract.Export])
    export_locations.add(tx, instance.id, exports, owner, Cause(op.id, op.what.kind))
    driver_data.keep(tx, {instance.id: op.data.get("driver_data")})
    share_instances.finish_manage(tx, instance.id)


def fail(op: Op[BackEnd], tx: Tx, error: errors.AbacaError) -> None:
    """It stays visible, with the reason."""
    share_instances.try_move(tx, op.args.instance.id, "failed", "manage_starting")
    notify_project(op, tx, op.args.instance, (Action.MANAGE, Detail.NOT_MANAGED), error.message)


OPERATION = kinds.operation(
    kind="share-manage",
    resource="share",
    args=Args,
    parts=BackEnd,
    steps=(
        kinds.DatabaseStep(check, undo=uncheck),
        kinds.Step(manage_on_backend, undo=give_up_on_backend, within_s=DRIVER_CALL_S),
        kinds.DatabaseStep(count, undo=uncount),
        kinds.Step(close_on_backend, undo=kinds.nothing, within_s=DRIVER_CALL_S),
    ),
    succeed=succeed,
    fail=fail,
    notifies=kinds.Notification(name="share.manage", payload=events.share),
)
