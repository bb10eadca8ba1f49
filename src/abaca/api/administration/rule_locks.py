# SPDX-License-Identifier: Apache-2.0
"""What locks on access rules mean to a caller: rules that they do not see whole, and rules that they may not deny."""

from __future__ import annotations

from collections.abc import Iterable

from abaca import errors
from abaca.db.administration import resource_locks as db
from abaca.db.engine.database import Tx
from abaca.domain.administration import resource_locks as rules
from abaca.domain.administration.resource_locks import ResourceLock
from abaca.http.pipeline import Call
from abaca.policy import Rule, owner

REMOVE = owner("resource_lock:delete", "Delete a resource lock, or deny an access rule that has it.")
LOOK_PAST = owner("resource_lock:bypass_locked_show_action", "See an access rule that is locked against being seen.")


def hide_some(call: Call, tx: Tx, share_id: str) -> frozenset[str]:
    """Note, for the views, which rules of a share the caller may not see whole; their ids."""
    return _hide(call, db.hiding(tx, share_id))


def hide_one(call: Call, tx: Tx, rule_id: str) -> frozenset[str]:
    """The same for one rule."""
    return _hide(call, db.of_rule(tx, rule_id, rules.SHOW))


def _hide(call: Call, locks: Iterable[ResourceLock]) -> frozenset[str]:
    hidden = frozenset(lock.resource_id for lock in locks if not _may(call, LOOK_PAST, lock))
    call.notes["hidden"] = hidden
    return hidden


def seen(call: Call, rule_id: str, value: str | None) -> str | None:
    """What the caller sees of a rule's secret."""
    return rules.MASK if rule_id in call.notes.get("hidden", ()) else value


def refuse_denial(call: Call, tx: Tx, rule_id: str, *, unrestrict: bool) -> None:
    """Raises Forbidden when a rule is locked against deletion, unless the caller says so and may lift all its locks."""
    locks = db.of_rule(tx, rule_id, rules.DELETE)
    if not locks:
        return
    named = ", ".join(lock.id for lock in locks[:5])
    if not unrestrict:
        raise errors.Forbidden(
            f"Access rule {rule_id} is locked against deletion: {named}. "
            "Delete those locks first, or repeat it with unrestrict if they are yours."
        )
    others = [lock.id for lock in locks if not _may(call, REMOVE, lock)]
    if others:
        raise errors.Forbidden(
            f"Access rule {rule_id} is locked against deletion by locks that are not yours: {', '.join(others[:5])}."
        )


def _may(call: Call, rule: Rule, lock: ResourceLock) -> bool:
    return rules.has_a_say(call.caller, lock.lock_context) and call.allows(
        rule, project_id=lock.project_id, user_id=lock.user_id
    )
