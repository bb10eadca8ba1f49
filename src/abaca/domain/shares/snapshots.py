# SPDX-License-Identifier: Apache-2.0
"""What a snapshot is: its states, whose names are Manila's, and the rules for its fields.

A snapshot has an instance wherever its share has one. Its own status is that of the instance that is worst off.
"""

from __future__ import annotations

import msgspec

from abaca import errors
from abaca.domain.state_machine import StateMachine

# Wherever the last operation has ended, well or badly, its user may delete.
DELETABLE = ("available", "error", "error_deleting")

# And an administrator may release it.
MANAGEABLE = ("available", "error", "error_deleting", "manage_error", "unmanage_error")

# What an operator may set by hand (reset_status); every status may be left this way.
RESETTABLE = (
    "available",
    "creating",
    "deleting",
    "error",
    "error_deleting",
    "manage_error",
    "manage_starting",
    "migrating",
    "migrating_to",
    "restoring",
    "unmanage_error",
    "unmanage_starting",
)

SNAPSHOT_INSTANCE = StateMachine(
    "snapshot",
    # at                  event           to
    ("none",              "create",       "creating"),
    ("creating",          "created",      "available"),
    ("creating",          "failed",       "error"),
    ("available",         "restore",      "restoring"),  # its share goes back to it
    ("restoring",         "restored",     "available"),
    ("restoring",         "failed",       "available"),  # nothing has happened to it
    ("none",              "manage",       "manage_starting"),
    ("manage_starting",   "managed",      "available"),
    ("manage_starting",   "failed",       "manage_error"),
    (MANAGEABLE,          "unmanage",     "unmanage_starting"),
    ("unmanage_starting", "unmanaged",    "gone"),
    ("unmanage_starting", "failed",       "unmanage_error"),
    (DELETABLE,           "delete",       "deleting"),
    (RESETTABLE,          "force_delete", "deleting"),
    ("deleting",          "deleted",      "gone"),
    ("deleting",          "failed",       "error_deleting"),
    busy=("creating", "deleting", "restoring", "manage_starting", "unmanage_starting"),
    resettable=RESETTABLE,
)  # fmt: skip

# Of a snapshot's instances the first by this speaks for it; one that is well comes last.
_WORST_FIRST = ("deleting", "error_deleting", "error", "creating", "restoring")

# While it is at one of these a share cannot be copied, not even by force: it goes, or is not here yet.
_NOT_HERE = ("deleting", "error_deleting", "unmanage_starting", "manage_starting", "manage_error")


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """A snapshot, and the status of the instance that speaks for it. `size` is in GiB."""

    id: str
    project_id: str
    share_id: str
    size: int
    instance_id: str
    status: str


class SnapshotInstance(msgspec.Struct, frozen=True, gc=False):
    """A snapshot on one back end, with what its driver is told of it beside the share instance that it is of.

    `host` is where that is, host@backend#pool.
    """

    id: str
    snapshot_id: str
    share_id: str
    share_instance_id: str
    project_id: str
    user_id: str | None
    size: int
    status: str
    progress: str | None
    provider_location: str | None
    driver_data: dict[str, str] | None
    host: str | None


def status_rank(status: str) -> int:
    """Where an instance stands when those of a snapshot compete to speak for it; the lowest rank wins."""
    return _WORST_FIRST.index(status) if status in _WORST_FIRST else len(_WORST_FIRST)


def check_revert(snapshot: Snapshot, newest_id: str, share_size: int) -> None:
    """Raises `Conflict` where its share, which has `share_size` (GiB), cannot go back to the snapshot."""
    if snapshot.status != "available":
        raise errors.Conflict(resource="Snapshot", id=snapshot.id, event="be restored", status=snapshot.status)
    if snapshot.id != newest_id:
        raise errors.Conflict(
            f"Snapshot {snapshot.id} is not the newest of share {snapshot.share_id}; that is {newest_id}. "
            "A share goes back to its newest snapshot only."
        )
    if share_size < snapshot.size:
        raise errors.Conflict(
            f"Snapshot {snapshot.id} has {snapshot.size} GiB and its share {share_size}; extend the share first."
        )


def check_clone(snapshot: Snapshot, size: int) -> None:
    """Raises `Invalid` where no share of `size` (GiB) can be made from the snapshot."""
    if snapshot.status != "available":
        raise errors.Invalid(f"No share can be made from snapshot {snapshot.id} while it is {snapshot.status}.")
    if size < snapshot.size:
        raise errors.Invalid(f"Snapshot {snapshot.id} has {snapshot.size} GiB; a share made from it has no fewer.")


def check_source(share_id: str, status: str, host: str | None, *, force: bool) -> None:
    """Raises `Invalid` while no snapshot of a share can be taken; with `force` it need not be available."""
    is_there = host is not None and status not in _NOT_HERE
    if not is_there or not (force or status == "available"):
        raise errors.Invalid(f"No snapshot of share {share_id} can be taken while it is {status}.")
