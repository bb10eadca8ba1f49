# SPDX-License-Identifier: Apache-2.0
"""Make a back end let in exactly whom the rules of a snapshot name; all can read it, and nobody can write.

However many rules were posted since the last time, they reach the back end in one call: at most one such operation
waits per snapshot. What can go wrong: the back end refuses one rule (that rule alone goes to `error`), or cannot do
any (all those under way do). The claim under faults: it always ends, and then the rules say what the back end does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.shares import snapshot_access_rules, snapshots
from abaca.domain.administration.messages import Action, Detail
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.operations.parts import DRIVER_CALL_S, BackEnd
from abaca.operations.shares import inherited_access
from abaca.operations.shares.snapshot_instances import Args, changed_snapshot, found, notify_project

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.shares.snapshots import Snapshot
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


def start(tx: Tx, snapshot: Snapshot, by: Requester | None) -> str:
    """Queue it, or join the one that nobody has begun; its id."""
    args = found(tx, snapshot.instance_id)
    target = msgspec.structs.replace(args.target, coalesce_key=f"snapshot-access:{snapshot.id}")
    return queueing.enqueue(tx, OPERATION, args, target, by)


def take_rules(op: Op[BackEnd], tx: Tx) -> None:
    """Say which rules are being worked on, and remember the whole set that is wanted."""
    rules = snapshot_access_rules.take(tx, op.args.snapshot_id)
    inherited = inherited_access.rules_for(tx, op.args.snapshot.instance)
    own = [
        contract.AccessRule(id=rule.id, type=rule.access_type, to=rule.client, level="ro")
        for rule in rules
        if not rule.is_denied
    ]
    wanted = own if inherited is None else inherited
    op.record(wanted=wanted, denied=[rule.id for rule in rules if rule.is_denied])


def leave_rules(_op: Op[BackEnd], _tx: Tx) -> None:
    """Nothing to take back: the end says what became of the rules."""


def apply_rules(op: Op[BackEnd]) -> None:
    """One call with the whole set; none where the snapshot has gone."""
    with op.db.read() as tx:
        if snapshots.find(tx, op.args.snapshot_id) is None:
            return
    driver = op.parts.driver
    if not isinstance(driver, contract.MountsSnapshots):
        raise errors.BackendError(reason="its snapshots cannot be mounted")
    wanted = msgspec.convert(op.data["wanted"], list[contract.AccessRule])
    op.record(outcomes=driver.set_snapshot_access(changed_snapshot(op, op.args.snapshot), wanted))


def succeed(op: Op[BackEnd], tx: Tx) -> None:
    """Each rule gets what the back end made of it."""
    outcomes = msgspec.convert(op.data.get("outcomes") or {}, dict[str, contract.AccessOutcome])
    refused = {rule_id: one for rule_id, one in outcomes.items() if one.state == "error"}
    wanted = [rule["id"] for rule in op.data["wanted"]]
    snapshot_access_rules.drop(tx, op.data["denied"])
    snapshot_access_rules.finish(tx, [rule_id for rule_id in wanted if rule_id not in refused], "done")
    snapshot_access_rules.finish(tx, list(refused), "failed")
    for one in refused.values():
        notify_project(op, tx, op.args, (Action.UPDATE_ACCESS_RULES, Detail.UNSUPPORTED_CLIENT), one.reason)


def fail(op: Op[BackEnd], tx: Tx, error: errors.AbacaError) -> None:
    """Every rule under way is in error; the next change of any rule tries them all again."""
    if "wanted" not in op.data:
        take_rules(op, tx)
    snapshot_access_rules.finish(tx, [*op.data["denied"], *(rule["id"] for rule in op.data["wanted"])], "failed")
    notify_project(op, tx, op.args, (Action.UPDATE_ACCESS_RULES, Detail.UNKNOWN_ERROR), error.message)


OPERATION = kinds.operation(
    kind="snapshot-access-sync",
    resource="snapshot",
    args=Args,
    parts=BackEnd,
    steps=(
        kinds.DatabaseStep(take_rules, undo=leave_rules),
        kinds.Step(apply_rules, undo=kinds.nothing, within_s=DRIVER_CALL_S),
    ),
    succeed=succeed,
    fail=fail,
    cancellable=False,
)
