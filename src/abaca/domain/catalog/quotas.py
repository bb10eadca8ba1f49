# SPDX-License-Identifier: Apache-2.0
"""Quotas: which things are counted, whose limits hold, and what is said when one is exceeded.

A limit holds in a scope: a project, a user or a share type in it. Where a project has no limit of its own, that of the
default quota class holds, and without one the configured default. A user or a type without one is bound by the project.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from abaca import errors

Counts = Mapping[str, int]

PROJECT = "project"
DEFAULT_CLASS = "class:default"

# What a database column holds.
LARGEST = 2**31 - 1
LONGEST_NAME = 255

# Characters of the metadata of a project's shares, rules and export locations: bounded by the configuration alone.
METADATA = "metadata_characters"
# Keys that shares are encrypted with: of however many shares, one is one in its project, and of no user or type.
KEYS = "encryption_keys"
# Limits that bound one thing; they are compared, not counted.
PER_SHARE = "per_share_gigabytes"


class Resource(msgspec.Struct, frozen=True):
    """Something with a limit: how clients know the refusal, and its words."""

    code: str
    what: str
    is_of_types: bool = True


RESOURCES: dict[str, Resource] = {
    "shares": Resource("ShareLimitExceeded", "shares"),
    "gigabytes": Resource("ShareSizeExceedsAvailableQuota", "GiB in shares"),
    "snapshots": Resource("SnapshotLimitExceeded", "snapshots"),
    "snapshot_gigabytes": Resource("SnapshotSizeExceedsAvailableQuota", "GiB in snapshots"),
    "share_networks": Resource("ShareNetworksLimitExceeded", "share networks", is_of_types=False),
    "share_groups": Resource("ShareGroupsLimitExceeded", "share groups", is_of_types=False),
    "share_group_snapshots": Resource("ShareGroupSnapshotsLimitExceeded", "share group snapshots", is_of_types=False),
    "share_replicas": Resource("ShareReplicasLimitExceeded", "share replicas"),
    "replica_gigabytes": Resource("ShareReplicaSizeExceedsAvailableQuota", "GiB in share replicas"),
    "backups": Resource("BackupLimitExceeded", "share backups"),
    "backup_gigabytes": Resource("ShareBackupSizeExceedsAvailableQuota", "GiB in share backups"),
    KEYS: Resource("EncryptionKeysLimitExceeded", "encryption keys"),
    PER_SHARE: Resource("ShareSizeExceedsLimit", "GiB in one share"),
}
COUNTED = tuple(name for name in RESOURCES if name != PER_SHARE)


def scopes(user_id: str | None, share_type_id: str | None) -> tuple[str, ...]:
    """Whose counts something adds to. The project comes first: its row is where concurrent requests queue up."""
    return (
        PROJECT,
        *((type_scope(share_type_id),) if share_type_id else ()),
        *((user_scope(user_id),) if user_id else ()),
    )


def user_scope(user_id: str) -> str:
    """A user in a project."""
    return f"user:{user_id}"


def type_scope(share_type_id: str) -> str:
    """A share type in a project."""
    return f"type:{share_type_id}"


def class_scope(name: str) -> str:
    """A quota class; classes belong to no project."""
    return f"class:{name}"


def check_whose(project_id: str, scope: str) -> None:
    """Raises `Invalid` for names of projects, users and classes that nothing is called."""
    if max(len(project_id), len(scope)) > LONGEST_NAME:
        raise errors.Invalid("Names of projects, users and quota classes are shorter than that.")


def checked(deltas: Counts) -> dict[str, int]:
    """What is compared with limits when `deltas` are taken: all that grows, and a new share's size with PER_SHARE."""
    grows = {name: delta for name, delta in deltas.items() if delta > 0}
    if deltas.get("shares") == 1 and "gigabytes" in deltas:
        grows.setdefault(PER_SHARE, deltas["gigabytes"])
    return grows


def exceeded(name: str, limit: int | None, used: int, delta: int) -> bool:
    """Whether `used`, in which `delta` is counted already, is over the limit; None and -1 are no limit."""
    if limit is None or limit < 0:
        return False
    return (delta if name == PER_SHARE else used) > limit


def over_limit(name: str, limit: int, used: int, delta: int) -> errors.OverLimit:
    """What the user is told. `used` counts `delta` already."""
    if name == METADATA:
        return errors.OverLimit(
            f"Metadata of a project have at most {limit} characters in all; remove some of its shares first.",
            code="MetadataLimitExceeded",
        )
    resource = RESOURCES[name]
    if name == PER_SHARE:
        text = f"A share of {delta} GiB exceeds the limit of {limit} GiB for one share."
    else:
        text = (
            f"The limit of {limit} {resource.what} would be exceeded: {used - delta} in use, {delta} more asked for. "
            "Remove some, or ask the administrator for a larger quota."
        )
    return errors.OverLimit(text, code=resource.code)


def check_limits(limits: Counts, in_use: Counts, bounds: Counts, *, force: bool) -> None:
    """Whether an operator may set `limits`: -1 or more, and unless forced not below use and not above `bounds`.

    `bounds` are the project's limits when those of a user or type in it are set. Raises `Invalid`.
    """
    for name, limit in limits.items():
        if not -1 <= limit <= LARGEST:
            raise errors.Invalid(f"The quota of {name} must be -1, for unlimited, or up to {LARGEST}; it was {limit}.")
        used, bound = in_use.get(name, 0), bounds.get(name, -1)
        if force:
            continue
        if 0 <= limit < used:
            raise errors.Invalid(f"The quota of {name} cannot be {limit}: {used} are in use; `force` sets it anyway.")
        if bound >= 0 and not 0 <= limit <= bound:
            raise errors.Invalid(f"The quota of {name} cannot be {limit}: that of the project is {bound}.")
