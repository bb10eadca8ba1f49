# SPDX-License-Identifier: Apache-2.0
"""What a share is: its states, whose names are Manila's, and the rules for its fields.

A share has one or more instances, each on one back end. The share's own status is that of one chosen instance: the
first by `STATUS_PREFERENCE`, where whatever an operation on the whole share is about comes before a healthy copy, and
a healthy copy before a broken one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from abaca import errors
from abaca.domain.catalog import extra_specs
from abaca.domain.state_machine import StateMachine

PROTOCOLS = ("NFS", "CIFS", "GLUSTERFS", "HDFS", "CEPHFS", "MAPRFS", "LUSTRE")

# An exbibyte.
MAX_SIZE_GIB = 2**30

# Wherever the last operation has ended, well or badly, its user may delete.
DELETABLE = (
    "available",
    "error",
    "inactive",
    "extending_error",
    "shrinking_error",
    "reverting_error",
    "error_deleting",
)

# The same for the recycle bin, but that of what is deleted in part nothing can be taken out again.
BINNABLE = tuple(status for status in DELETABLE if status != "error_deleting")

# Wherever nothing is under way an administrator may give it up.
MANAGEABLE = (
    "available",
    "error",
    "inactive",
    "extending_error",
    "shrinking_error",
    "shrinking_possible_data_loss_error",
    "reverting_error",
    "error_deleting",
    "manage_error",
    "unmanage_error",
)

# What ensuring takes up; a share that it left half done shows the second.
ENSURABLE = ("available", "ensuring")

TRANSITIONAL = (
    "creating",
    "creating_from_snapshot",
    "deleting",
    "manage_starting",
    "unmanage_starting",
    "extending",
    "shrinking",
    "migrating",
    "migrating_to",
    "restoring",
    "reverting",
    "server_migrating",
    "server_migrating_to",
    "backup_restoring",
    "backup_creating",
    "ensuring",
)

# What an operator may set by hand (reset_status); every status may be left this way.
RESETTABLE = (
    "creating",
    "available",
    "deleting",
    "error",
    "error_deleting",
    "migrating",
    "migrating_to",
    "server_migrating",
)

SHARE_INSTANCE = StateMachine(
    "share",
    # at                                   event            to
    ("none",                               "create",        "creating"),
    ("creating",                           "copy",          "creating_from_snapshot"),  # it takes its time
    (("creating", "creating_from_snapshot"), "created",     "available"),
    (("creating", "creating_from_snapshot"), "failed",      "error"),
    (("creating", "creating_from_snapshot"), "refuse",      "error"),  # no pool can hold it; a message says why
    (("available",),                       "extend",        "extending"),
    ("extending",                          "extended",      "available"),
    ("extending",                          "failed",        "extending_error"),
    (("available",
      "shrinking_possible_data_loss_error"), "shrink",      "shrinking"),
    ("shrinking",                          "shrunk",        "available"),
    ("shrinking",                          "kept",          "available"),  # more is in use; a message says so
    ("shrinking",                          "failed",        "shrinking_error"),
    (("available", "ensuring"),            "ensure",        "ensuring"),
    ("ensuring",                           "ensured",       "available"),
    ("ensuring",                           "let_go",        "available"),  # not now: it goes on as it was
    ("ensuring",                           "failed",        "available"),  # nothing is known against it
    (("available", "ensuring"),            "lost",          "error"),  # the back end cannot serve it any more
    ("error",                              "recovered",     "available"),  # its share server serves it again
    ("none",                               "manage",        "manage_starting"),
    ("manage_starting",                    "managed",       "available"),
    ("manage_starting",                    "failed",        "manage_error"),
    (MANAGEABLE,                           "unmanage",      "unmanage_starting"),
    ("unmanage_starting",                  "unmanaged",     "gone"),
    ("unmanage_starting",                  "failed",        "unmanage_error"),
    (("available", "reverting_error"),     "revert",        "reverting"),
    ("reverting",                          "reverted",      "available"),
    ("reverting",                          "failed",        "reverting_error"),  # its content may be either
    ("available",                          "offer",         "awaiting_transfer"),
    ("awaiting_transfer",                  "keep",          "available"),  # whoever's it is from now on
    (DELETABLE,                            "delete",        "deleting"),
    (("creating", "creating_from_snapshot", "extending", "extending_error", "shrinking", "shrinking_error",
      "deleting", "error_deleting",
      "shrinking_possible_data_loss_error", "available", "error", "inactive", "migrating", "migrating_to",
      "server_migrating", "ensuring", "reverting", "reverting_error", "manage_error", "unmanage_error",
      "awaiting_transfer"),
                                           "force_delete",  "deleting"),
    ("deleting",                           "deleted",       "gone"),
    ("deleting",                           "failed",        "error_deleting"),
    busy=("creating", "creating_from_snapshot", "extending", "shrinking", "deleting", "ensuring", "reverting",
          "manage_starting", "unmanage_starting"),
    resettable=RESETTABLE,
)  # fmt: skip

# What the back end of an instance makes of the rules of its share, all in all.
RULES_STATUS = StateMachine(
    "access rules status",
    # at                          event      to
    ("none",                      "create",  "active"),  # there are no rules yet
    (("active", "error",
      "syncing"),                 "sync",    "syncing"),
    (("syncing", "error"),        "synced",  "active"),
    ("syncing",                   "failed",  "error"),  # the back end does not honour one of them as it shall
    ("active",                    "refused", "error"),  # the same, after another operation had ended the syncing
    busy=("syncing",),
)  # fmt: skip

# How far a replica has its share's data; an instance of a share without replicas is none.
REPLICA = StateMachine(
    "share replica",
    # at                          event       to
    (("none", "in_sync",
      "out_of_sync", "error"),    "activate", "active"),
    (("none", "active",
      "out_of_sync", "error"),    "catch_up", "in_sync"),
    (("none", "active",
      "in_sync", "error"),        "lag",      "out_of_sync"),
    (("none", "active", "in_sync",
      "out_of_sync"),             "lose",     "error"),
    resettable=("active", "in_sync", "out_of_sync", "error"),
)  # fmt: skip

# Where a migration can be said to stand (reset_task_state).
TASK_STATES = (
    "migration_starting",
    "migration_in_progress",
    "migration_completing",
    "migration_success",
    "migration_error",
    "migration_cancelled",
    "migration_driver_in_progress",
    "migration_driver_phase1_done",
    "data_copying_starting",
    "data_copying_in_progress",
    "data_copying_completing",
    "data_copying_completed",
    "data_copying_cancelled",
    "data_copying_error",
)

# No event moves it yet; an operator may set it.
TASK = StateMachine("share task", resettable=TASK_STATES)


class Share(msgspec.Struct, frozen=True, gc=False):
    """A share, and what the instance that speaks for it says: the type, the host (host@backend#pool) and the states.

    `size` is in GiB. `extra_specs` are those of its type, and `instance_statuses` those of all its instances, with
    blanks between them.
    """

    id: str
    project_id: str
    user_id: str | None
    size: int
    share_proto: str
    is_public: bool
    is_soft_deleted: bool
    share_group_id: str | None
    snapshot_support: bool
    create_share_from_snapshot_support: bool
    revert_to_snapshot_support: bool
    mount_snapshot_support: bool
    snapshot_inherit_share_access_support: bool
    share_type_id: str | None
    extra_specs: dict[str, str] | None
    instance_id: str
    host: str | None
    status: str
    instance_statuses: str
    access_rules_status: str


# Of a share's instances the first by this speaks for it; a status that is not named comes between these and those that
# are transitional.
STATUS_PREFERENCE = ("reverting", "replication_change", "migrating", "server_migrating", "available", "error")

# Before the status counts the replica: the one that is written to speaks, and whoever has more of the data before who
# has less. Instances that are no replicas, or not yet, are at 0.
REPLICA_PREFERENCE = {"active": -3, "in_sync": -2, "out_of_sync": -1, None: 0, "error": 1}

ACCESS_RULES_STATUSES = ("active", "syncing", "error")


def status_rank(status: str, replica_state: str | None = None) -> int:
    """Where an instance stands when those of a share compete to speak for it; the lowest rank wins.

    Whichever replica is being promoted speaks before all others.
    """
    width = len(STATUS_PREFERENCE) + 2
    if status in STATUS_PREFERENCE:
        place = STATUS_PREFERENCE.index(status)
    else:
        place = len(STATUS_PREFERENCE) + (status in TRANSITIONAL)
    promoted = -width * len(REPLICA_PREFERENCE) if status == "replication_change" else 0
    return promoted + width * REPLICA_PREFERENCE[replica_state] + place


def check_protocol(protocol: str | None, enabled: tuple[str, ...]) -> str:
    """The protocol in capitals. Raises `Invalid` when it is missing, unknown or not enabled here."""
    name = (protocol or "").upper()
    if name not in PROTOCOLS or name not in enabled:
        raise errors.Invalid(f"Share protocol {protocol!r} is not offered here; choose one of: {', '.join(enabled)}.")
    return name


def check_size(size: int) -> None:
    """Raises `Invalid` for a size (GiB) that no back end has."""
    if not 1 <= size <= MAX_SIZE_GIB:
        raise errors.Invalid(f"A share's size must be from 1 to {MAX_SIZE_GIB} GiB.")


def check_new_size(current: int, new: int, *, grow: bool) -> None:
    """Raises `Invalid` unless `new` (GiB) is larger than `current`, or smaller and not nothing."""
    check_size(new)
    if grow and new <= current:
        raise errors.Invalid(f"The new size must be greater than the current size: {current} GiB now, {new} asked.")
    if not grow and new >= current:
        raise errors.Invalid(f"The new size must be less than the current size: {current} GiB now, {new} asked.")


def check_smallest(size: int, specs: Mapping[str, str]) -> None:
    """Raises `Invalid` when `size` (GiB) is less than the share type allows."""
    smallest = specs.get(extra_specs.SMALLEST)
    if smallest and size < int(smallest):
        raise errors.Invalid(f"The share type asks for at least {smallest} GiB; {size} asked.")


def check_largest(size: int, specs: Mapping[str, str], spec: str = extra_specs.LARGEST) -> None:
    """Raises `Invalid` when `size` (GiB) is more than `spec` of the share type allows."""
    largest = specs.get(spec)
    if largest and size > int(largest):
        raise errors.Invalid(f"The share type allows at most {largest} GiB; {size} asked.")


def check_task_state(state: str | None) -> str | None:
    """The state; None is none. Raises `Invalid` for one that no migration has."""
    if state is not None and state not in TASK_STATES:
        raise errors.Invalid(f"'task_state' must be null or one of: {', '.join(TASK_STATES)}.")
    return state


_MOUNT_POINT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")


def check_mount_point_name(name: str) -> str:
    """The last part of an export path, as users choose it. Raises `Invalid` for what could not stand in a path."""
    if not _MOUNT_POINT.fullmatch(name):
        raise errors.Invalid(
            "A mount point name begins with a letter or digit and goes on with letters, digits, '.', '_' and '-'; "
            "with its prefix it has at most 255 characters."
        )
    return name
