# SPDX-License-Identifier: Apache-2.0
"""What is done to a share by actions: resize it, bin it, force it away, set its status by hand."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator
from typing import Annotated

from abaca import errors
from abaca.api.shares.lookups import share_for_change, share_held_for_change
from abaca.db.administration import pools
from abaca.db.catalog import quotas
from abaca.db.engine.database import Tx
from abaca.db.shares import share_instances, shares
from abaca.domain.catalog import extra_specs
from abaca.domain.shares import shares as rules
from abaca.domain.shares.shares import Share
from abaca.http.bodies import Body, Flag, Gib, Text, Uuid
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Since
from abaca.operations.administration import resource_locks
from abaca.operations.shares import share_delete, share_extend, share_revert, share_shrink
from abaca.policy import admin, member
from abaca.scheduler import choose
from abaca.scheduler.filters import ShareRequest

FORCE_EXTEND = admin("share:force_extend", "Extend a share whatever the scheduler thinks of it.")

RESOURCE = Resource("share actions", "/shares", rules=(FORCE_EXTEND,))


class Extend(Body):
    """The size to grow to, in GiB."""

    new_size: Gib
    force: Annotated[Flag, Since("2.64")] = False


class Shrink(Body):
    """The size to shrink to, in GiB."""

    new_size: Gib


class Revert(Body):
    """To which snapshot."""

    snapshot_id: Uuid


class ResetStatus(Body):
    """The status to set; older clients say `os-status`."""

    status: Text | None = None


class ResetTaskState(Body):
    """The step of a migration to show; null for none."""

    task_state: Text | None


@contextlib.contextmanager
def refused_as(kind: type[errors.AbacaError]) -> Iterator[None]:
    """What a state does not allow is told with the status that clients of this action know."""
    try:
        yield
    except errors.Conflict as conflict:
        raise kind(conflict.message) from None


def _usable(call: Call, tx: Tx, share_id: str, verb: str) -> Share:
    share = share_held_for_change(call, tx, share_id)
    if share.is_soft_deleted:
        raise errors.Forbidden(f"Share {share_id} is in the recycle bin and cannot be {verb}; restore it first.")
    return share


@RESOURCE.action(
    "extend", formerly=("os-extend", "2.6"), body=Extend, policy=member("share:extend", "Extend a share."), status=202
)
def extend(call: Call, id: str, body: Extend) -> None:
    """Grow a share; it stays in use meanwhile."""
    with call.db.write() as tx:
        share = _usable(call, tx, id, "extended")
        if body.force:
            call.require(FORCE_EXTEND, project_id=share.project_id)
        rules.check_size(body.new_size)
        largest = extra_specs.LARGEST_EXTENDED if call.caller.is_admin else extra_specs.LARGEST
        rules.check_largest(body.new_size, share.extra_specs or {}, largest)
        with refused_as(errors.Invalid):
            more = share_extend.start(tx, share, body.new_size, call.caller)
        # first, as elsewhere: what a project may not have is no matter of pools
        taken = {"gigabytes": more, "per_share_gigabytes": body.new_size}
        limits = call.settings.quota.limits
        quotas.take_or_forbid(tx, share.project_id, share.user_id, share.share_type_id, taken, limits)
        request = ShareRequest(
            size_gib=more,
            share_proto=share.share_proto,
            specs=share.extra_specs or {},
            kind="extend",
            project_id=share.project_id,
        )
        pool = pools.show(tx, share.host or "", call.settings.service_down_time)
        if pool is None:
            raise errors.Invalid(f"The pool of share {id} is not known any more; ask the administrator.")
        refusal = None if body.force else choose.fits(request, pool, choose.rules_of(call.settings))
        if refusal is not None:
            raise errors.Invalid(
                f"Share {id} cannot be extended by {more} GiB where it is: its pool has no room for that."
            )
        claim = pool.claim(more, "extend", request.specs)
        if body.force:
            pools.claim_anyway(tx, pool.host, more)
        elif not pools.claim(tx, claim):
            raise errors.Invalid(f"Share {id} cannot be extended by {more} GiB where it is: the room was just taken.")


@RESOURCE.action(
    "shrink", formerly=("os-shrink", "2.6"), body=Shrink, policy=member("share:shrink", "Shrink a share."), status=202
)
def shrink(call: Call, id: str, body: Shrink) -> None:
    """Make a share smaller; refused, with a message, when more is in use."""
    with call.db.write() as tx:
        share = _usable(call, tx, id, "shrunk")
        rules.check_size(body.new_size)
        rules.check_smallest(body.new_size, share.extra_specs or {})
        with refused_as(errors.Invalid):
            share_shrink.start(tx, share, body.new_size, call.caller)


@RESOURCE.action(
    "revert",
    since="2.27",
    body=Revert,
    policy=member("share:revert_to_snapshot", "Take a share back to its newest snapshot."),
    status=202,
)
def revert(call: Call, id: str, body: Revert) -> None:
    """What was written since the snapshot is gone; refused for any but the newest one."""
    with call.db.write() as tx:
        share = _usable(call, tx, id, "taken back to a snapshot")
        if not share.revert_to_snapshot_support:
            raise errors.Invalid(f"Share {id} cannot go back to snapshots: its share type does not say so.")
        share_revert.start(tx, share, body.snapshot_id, call.caller)


@RESOURCE.action(
    "reset_status",
    formerly=("os-reset_status", "2.6"),
    body=ResetStatus,
    policy=admin("share:reset_status", "Set the status of a share by hand."),
    status=202,
)
def reset_status(call: Call, id: str, body: ResetStatus) -> None:
    """Set the status by hand."""
    if body.status is None:
        raise errors.Invalid("'status' is required.")
    with call.db.write() as tx:
        share_instances.reset(tx, share_for_change(call, tx, id).instance_id, body.status)


@RESOURCE.action(
    "reset_task_state",
    since="2.22",
    experimental=("2.22", "2.95"),
    body=ResetTaskState,
    policy=admin("share:reset_task_state", "Set by hand the step of a migration that a share shows."),
    status=202,
)
def reset_task_state(call: Call, id: str, body: ResetTaskState) -> None:
    """Set the step of a migration that the share shows; clients clear it whenever they change a share."""
    state = rules.check_task_state(body.task_state)
    with call.db.write() as tx:
        share_for_change(call, tx, id)
        shares.TASK_STATE.reset(tx, id, state)


@RESOURCE.action(
    "force_delete",
    formerly=("os-force_delete", "2.6"),
    policy=admin("share:force_delete", "Delete a share whatever its status."),
    status=202,
)
def force_delete(call: Call, id: str) -> None:
    """Delete it whatever its status."""
    with call.db.write() as tx:
        share = share_held_for_change(call, tx, id)
        share_delete.refuse_replicated(tx, id)
        with refused_as(errors.Forbidden):
            share_delete.start(tx, id, share.instance_id, call.caller, event="force_delete")


@RESOURCE.action(
    "soft_delete", since="2.69", policy=member("share:soft_delete", "Put a share into the recycle bin."), status=202
)
def soft_delete(call: Call, id: str) -> None:
    """Put it into the recycle bin; it is deleted when its time there is over."""
    with call.db.write() as tx:
        share = share_held_for_change(call, tx, id)
        if share.is_soft_deleted:
            raise errors.Forbidden(f"Share {id} is in the recycle bin already.")
        resource_locks.refuse_deletion(tx, id)
        share_delete.refuse_replicated(tx, id)
        share_delete.refuse_copied(tx, id)
        share_delete.refuse_attached(tx, id)
        if share.status not in rules.BINNABLE:
            raise errors.Forbidden(f"Share {id} cannot be put into the recycle bin while it is {share.status}.")
        until = tx.now + datetime.timedelta(seconds=call.settings.soft_deleted_share_retention_time)
        shares.update(tx, id, {"is_soft_deleted": True, "scheduled_to_be_deleted_at": until})


@RESOURCE.action(
    "restore", since="2.69", policy=member("share:restore", "Take a share out of the recycle bin."), status=202
)
def restore(call: Call, id: str) -> None:
    """Take it out of the recycle bin; when it is not there, that is fine too."""
    with call.db.write() as tx:
        share = share_held_for_change(call, tx, id)
        if not share.is_soft_deleted:
            call.status = 200
            return
        if share.status == "deleting":
            raise errors.Forbidden(f"Share {id} is being deleted; it cannot be restored any more.")
        shares.update(tx, id, {"is_soft_deleted": False, "scheduled_to_be_deleted_at": None})
