# SPDX-License-Identifier: Apache-2.0
"""Make the back end of an instance let in exactly whom the rules of its share name.

Each instance has operations and states of rules of its own, and none waits for another's. However many rules were
posted since the last time, they reach its back end in one call: at most one such operation waits per instance, and it
takes all that is queued when it starts. Before that those rules are denied that no attachment needs any more. What can
go wrong: the back end refuses one rule (that rule alone goes to `error` there), or cannot do any (all those under way
do). The claim under faults: it always ends, and then the rules say what the back end does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.administration import messages, resource_locks
from abaca.db.attachments import attachments
from abaca.db.journal import keys, waits
from abaca.db.shares import access_rules, instance_access_rules, share_instances, shares
from abaca.domain.administration.messages import Action, Detail
from abaca.domain.shares.access_rules import PENDING
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.operations import events
from abaca.operations.attachments import attachment_needs
from abaca.operations.parts import DRIVER_CALL_S, BackEnd
from abaca.operations.shares import inherited_access, metadata_limits
from abaca.operations.shares.share_instances import changed_by, contract_instance, keys_of_instances, service_host

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.shares.share_instances import PlacedInstance
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


class Args(msgspec.Struct, frozen=True):
    """Which instance of which share."""

    share_id: str
    instance_id: str


def start_for_share(tx: Tx, share_id: str, by: Requester | None) -> None:
    """Queue one for each instance of a share that has a back end, and show the rules as not yet in force."""
    for instance in share_instances.sync_rules(tx, share_id):
        queueing.enqueue(tx, OPERATION, *_about(instance), by)


def start(tx: Tx, instance: PlacedInstance, by: Requester | None) -> str:
    """Queue it for one instance, and show the rules as not yet in force; the operation's id."""
    share_instances.RULES_STATUS.try_move(tx, instance.id, "sync")
    return queueing.enqueue(tx, OPERATION, *_about(instance), by)


def start_many(tx: Tx, instances: Sequence[PlacedInstance], by: Requester | None) -> None:
    """The same for many, in a few statements."""
    share_instances.RULES_STATUS.move_many(tx, [instance.id for instance in instances], "sync")
    queueing.enqueue_many(tx, OPERATION, [_about(instance) for instance in instances], by)


def _about(instance: PlacedInstance) -> tuple[Args, queueing.Target]:
    target = queueing.Target(
        queue=service_host(instance.host),
        keys=keys_of_instances([instance.id]),
        resource_id=instance.share_id,
        coalesce_key=_coalesce_key(instance.id),
    )
    return Args(share_id=instance.share_id, instance_id=instance.id), target


def _coalesce_key(instance_id: str) -> str:
    return f"access:{instance_id}"


def take_rules(op: Op[BackEnd], tx: Tx) -> None:
    """Say which rules are being worked on, and remember the whole set that is wanted."""
    attachment_needs.settle_share(tx, op.args.share_id)
    row = share_instances.whole(tx, op.args.instance_id)
    if row is None:
        op.record(instance=None, wanted=[], denied=[])
        return
    rules = instance_access_rules.take(tx, op.args.share_id, op.args.instance_id)
    kept = [rule for rule in rules if not rule.is_denied and rule.state != "denying"]
    wanted = [
        contract.AccessRule(
            id=rule.id,
            type=rule.access_type,
            to=rule.client,
            level="ro" if row.cast_rules_to_readonly else rule.access_level,
        )
        for rule in kept
    ]
    # of ten thousand rules mostly all but one are in force, and stay so
    unsettled = [rule.id for rule in kept if rule.state != "active"]
    denied = [rule.id for rule in rules if rule.state == "denying"]
    op.record(instance=contract_instance(row), wanted=wanted, unsettled=unsettled, denied=denied)


def leave_rules(_op: Op[BackEnd], _tx: Tx) -> None:
    """Nothing to take back: the end says what became of the rules."""


def apply_rules(op: Op[BackEnd]) -> None:
    """One call with the whole set, and one for each snapshot that inherits it."""
    if op.data["instance"] is None:
        return
    instance = msgspec.convert(op.data["instance"], contract.ShareInstance)
    wanted = msgspec.convert(op.data["wanted"], list[contract.AccessRule])
    outcomes = op.parts.driver.set_access(changed_by(op, instance), wanted)
    refused = {rule_id for rule_id, outcome in outcomes.items() if outcome.state == "error"}
    inherited_access.follow(op, instance.id, [rule for rule in wanted if rule.id not in refused])
    op.record(outcomes=outcomes)


def succeed(op: Op[BackEnd], tx: Tx) -> None:
    """Each rule gets what the back end made of it."""
    if op.data["instance"] is None:
        return
    outcomes = msgspec.convert(op.data.get("outcomes") or {}, dict[str, contract.AccessOutcome])
    refused = {rule_id: outcome for rule_id, outcome in outcomes.items() if outcome.state == "error"}
    wanted = _unsettled(op)
    instance_id = op.args.instance_id
    gone = instance_access_rules.drop(tx, op.args.share_id, instance_id, op.data["denied"])
    instance_access_rules.finish(tx, instance_id, [rule_id for rule_id in wanted if rule_id not in refused], "done")
    instance_access_rules.finish(tx, instance_id, list(refused), "failed")
    for rule_id, outcome in outcomes.items():
        if outcome.key is not None:
            access_rules.update(tx, rule_id, {"access_key": outcome.key})
    hidden = resource_locks.hidden(tx, op.args.share_id) if refused else ()
    for rule_id, outcome in refused.items():
        # the reason may name whom a hidden rule would let in
        _tell(op, tx, Detail.UNSUPPORTED_CLIENT, None if rule_id in hidden else outcome.reason)
    _settle(op, tx)
    metadata_limits.count_anyway(tx, {op.data["instance"]["project_id"]: -gone})


def fail(op: Op[BackEnd], tx: Tx, error: errors.AbacaError) -> None:
    """Every rule under way is in error; the next change of any rule tries them all again."""
    if "wanted" not in op.data:
        _fail_untaken(op, tx)
    elif op.data["instance"] is None:
        return
    else:
        under_way = [*op.data["denied"], *_unsettled(op)]
        instance_access_rules.finish(tx, op.args.instance_id, under_way, "failed")
    _tell(op, tx, Detail.UNKNOWN_ERROR, error.message)
    _settle(op, tx)


def _unsettled(op: Op[BackEnd]) -> list[str]:
    """The rules that were not in force; the release before took down all alone."""
    found: list[str] = op.data.get("unsettled", [rule["id"] for rule in op.data["wanted"]])
    return found


def _fail_untaken(op: Op[BackEnd], tx: Tx) -> None:
    """It never came to take the rules: whoever comes next does, and if nobody comes they are in error."""
    instance_id = op.args.instance_id
    same = _coalesce_key(instance_id)
    if not any(row.coalesce_key == same for row in keys.holders(tx, *keys_of_instances([instance_id]))):
        attachment_needs.settle_share(tx, op.args.share_id)
        taken = instance_access_rules.take(tx, op.args.share_id, instance_id)
        instance_access_rules.finish(tx, instance_id, [rule.id for rule in taken], "failed")


def _settle(op: Op[BackEnd], tx: Tx) -> None:
    # before looking: whoever adds a rule has this until the rule can be seen, or says so after us
    share_instances.lock(tx, op.args.instance_id)
    states = instance_access_rules.summary(tx, op.args.instance_id)
    event = "sync" if states & set(PENDING) else "failed" if "error" in states else "synced"
    # once at most: a row that is changed twice waits for its share, which whoever changes its rules has locked
    if not share_instances.RULES_STATUS.try_move(tx, op.args.instance_id, event) and event == "failed":
        share_instances.RULES_STATUS.try_move(tx, op.args.instance_id, "refused")
    waits.signal(tx, attachments.rules_condition(op.args.share_id))


def _tell(op: Op[BackEnd], tx: Tx, detail: Detail, reason: str | None) -> None:
    share = shares.find(tx, op.args.share_id)
    if share is not None:
        about = messages.About(share.project_id, op.request_id, "SHARE", op.args.share_id)
        messages.record(tx, about, Action.UPDATE_ACCESS_RULES, detail, reason=reason)


OPERATION = kinds.operation(
    kind=share_instances.RULES_KIND,
    resource="share",
    args=Args,
    parts=BackEnd,
    steps=(
        kinds.DatabaseStep(take_rules, undo=leave_rules),
        kinds.Step(apply_rules, undo=kinds.nothing, within_s=DRIVER_CALL_S),
    ),
    succeed=succeed,
    fail=fail,
    cancellable=False,
    # many requests become one of these, so only what became of them is told
    notifies=kinds.Notification(name="share.access.update", payload=events.share, starts=False),
)
