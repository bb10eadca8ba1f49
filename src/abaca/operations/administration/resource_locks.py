# SPDX-License-Identifier: Apache-2.0
"""Lock shares and access rules, and refuse what locks forbid.

A lock on a rule's deletion locks the share's too: who deletes the share takes the rule away. Locks hold people, who
delete and deny; they do not hold attachments, which neither delete a share nor a user's rule, and whose own rules come
and go with them and cannot be locked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from abaca import errors
from abaca.db.administration import resource_locks
from abaca.db.shares import access_rules, shares
from abaca.domain.administration import resource_locks as rules
from abaca.domain.administration.resource_locks import ACCESS_RULE, DELETE, SHARE, SHOW, ResourceLock

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.callers import Caller


class Locked(errors.Forbidden):
    """Share {id} is locked against deletion: {locks}. Delete those locks first, or ask whoever made them."""


def refuse_deletion(tx: Tx, share_id: str) -> None:
    """Raises `Locked`, naming the locks, when the share has any. Its row is locked by the caller."""
    found = [
        f"{lock.id} ({lock.lock_reason[:80]})" if lock.lock_reason else lock.id
        for lock in resource_locks.of_share(tx, share_id)
    ]
    if found:
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        raise Locked(id=share_id, locks=", ".join(found[:5]) + more)


def lock_share(tx: Tx, share_id: str, reason: str | None, caller: Caller) -> str:
    """Keep a share from being deleted; the lock's id. Raises `Conflict` when it is going already."""
    shares.lock(tx, share_id)
    _check_share(tx, share_id)
    return _add_on_share(tx, share_id, reason, _whose(caller))


def lock_rule(tx: Tx, share_id: str, rule_id: str, action: str, reason: str | None, caller: Caller) -> str:
    """Lock a rule of a share; the lock's id.

    Raises `Conflict` when it or its share is going already, when it is the attachments' own, and when it is hidden by
    another lock.
    """
    shares.lock(tx, share_id)
    _check_rule(tx, rule_id, action)
    whose = _whose(caller)
    what = {"share_id": share_id, "access_rule_id": rule_id, "resource_type": ACCESS_RULE, "resource_id": rule_id}
    lock_id = resource_locks.add(tx, {**whose, **what, "resource_action": action, "lock_reason": reason})
    if action == DELETE:
        _lock_share_too(tx, share_id, lock_id, whose)
    return lock_id


def change(tx: Tx, lock: ResourceLock, values: Mapping[str, str | None]) -> None:
    """Give a lock another reason or action. Raises `Conflict` as for a new one."""
    shares.lock(tx, lock.share_id)
    old = resource_locks.show(tx, lock.id)
    if old is None:
        raise errors.NotFound(resource="Resource lock", id=lock.id)
    action = values.get("resource_action") or old.resource_action
    if action != old.resource_action:
        _check_rule(tx, old.resource_id, action)
        if action == DELETE:
            whose = {"user_id": old.user_id, "project_id": old.project_id, "lock_context": old.lock_context}
            _lock_share_too(tx, lock.share_id, lock.id, whose)
        else:
            resource_locks.delete_consequence(tx, lock.id)
    resource_locks.update(tx, lock.id, values)


def unlock(tx: Tx, lock: ResourceLock) -> None:
    """Take a lock away, and what it put on the share."""
    shares.lock(tx, lock.share_id)
    resource_locks.delete(tx, lock.id)


def _whose(caller: Caller) -> dict[str, str]:
    return {"user_id": caller.user_id, "project_id": caller.project_id, "lock_context": rules.context_of(caller)}


def _check_share(tx: Tx, share_id: str) -> None:
    share = shares.find(tx, share_id)
    if share is None:
        raise errors.NotFound(resource="Share", id=share_id)
    if share.is_soft_deleted:
        raise errors.Conflict(f"Share {share_id} is in the recycle bin; restore it before you lock it.")
    rules.check_stays(SHARE, share_id, share.status)


def _check_rule(tx: Tx, rule_id: str, action: str) -> None:
    rule = access_rules.find(tx, rule_id)
    if rule is None:
        raise errors.NotFound(resource="Share access rule", id=rule_id)
    if rule.made_for is not None:
        raise errors.Conflict(
            f"Access rule {rule_id} belongs to attachments of the share: it comes and goes with them."
        )
    if action == DELETE:
        _check_share(tx, rule.share_id)
        rules.check_stays(ACCESS_RULE, rule_id, rule.state)
    elif resource_locks.of_rule(tx, rule_id, SHOW):
        raise errors.Conflict(f"Access rule {rule_id} is hidden already, by another lock.")


def _lock_share_too(tx: Tx, share_id: str, lock_id: str, whose: dict[str, str]) -> None:
    _add_on_share(tx, share_id, rules.reason_on_share(lock_id), {**whose, "because_of": lock_id})


def _add_on_share(tx: Tx, share_id: str, reason: str | None, whose: dict[str, str]) -> str:
    what = {"share_id": share_id, "resource_type": SHARE, "resource_id": share_id}
    return resource_locks.add(tx, {**whose, **what, "resource_action": DELETE, "lock_reason": reason})
