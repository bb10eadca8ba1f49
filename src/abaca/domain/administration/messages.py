# SPDX-License-Identifier: Apache-2.0
"""Messages to users about what went wrong behind the API: what was being done, what happened, and what to do about it.

The ids are Manila's, since clients know them, and ours from 901 on; the sentences are ours. `reason` adds what was
special about this case.
"""

from __future__ import annotations

import datetime
import enum

import msgspec

ERROR = "ERROR"

RESOURCE_TYPES = (
    "SHARE",
    "SHARE_GROUP",
    "SHARE_REPLICA",
    "SHARE_SNAPSHOT",
    "SECURITY_SERVICE",
    "SHARE_NETWORK_SUBNET",
)


class Action(enum.StrEnum):
    """What was being done; the values are the `action_id`s."""

    ALLOCATE_HOST = "001"
    CREATE = "002"
    DELETE_ACCESS_RULES = "003"
    PROMOTE = "004"
    UPDATE = "005"
    REVERT = "006"
    DELETE = "007"
    EXTEND = "008"
    SHRINK = "009"
    UPDATE_ACCESS_RULES = "010"
    ADD_UPDATE_SECURITY_SERVICE = "011"
    TRANSFER_ACCEPT = "026"
    UPDATE_METADATA = "027"
    RESTORE = "028"
    ATTACH = "901"
    DETACH = "902"
    MANAGE = "903"
    UNMANAGE = "904"


class Detail(enum.StrEnum):
    """What happened; the values are the `detail_id`s."""

    UNKNOWN_ERROR = "001"
    NO_VALID_HOST = "002"
    UNEXPECTED_NETWORK = "003"
    NO_SHARE_SERVER = "004"
    NO_ACTIVE_AVAILABLE_REPLICA = "005"
    NO_ACTIVE_REPLICA = "006"
    FILTER_AVAILABILITY = "007"
    FILTER_CAPABILITIES = "008"
    FILTER_CAPACITY = "009"
    FILTER_DRIVER = "010"
    FILTER_ATTEMPTED = "011"
    FILTER_JSON = "012"
    FILTER_RETRY = "013"
    FILTER_REPLICATION = "014"
    DRIVER_FAILED_EXTEND = "015"
    FILTER_CREATE_FROM_SNAPSHOT = "016"
    DRIVER_FAILED_CREATING_FROM_SNAPSHOT = "017"
    SHRINK_REFUSED = "018"
    DRIVER_FAILED_SHRINK = "019"
    FORBIDDEN_CLIENT = "020"
    UNSUPPORTED_CLIENT = "021"
    UNSUPPORTED_SECURITY_SERVICE = "022"
    SECURITY_SERVICE_FAILED_AUTH = "023"
    NO_DEFAULT_SHARE_TYPE = "024"
    MISSING_SECURITY_SERVICE = "025"
    TRANSFER_NEEDS_CLEARED_RULES = "026"
    NETWORK_PORT_QUOTA = "027"
    NOT_READY = "028"
    METADATA_UPDATED = "029"
    METADATA_FAILED = "030"
    METADATA_NOT_DELETED = "031"
    TARGETED_RESTORE_UNSUPPORTED = "032"
    SUBNET_FULL = "033"
    UNSUPPORTED_REPLICA = "034"
    NOT_ON_SERVER = "901"
    STILL_ON_SERVER = "902"
    NOT_MANAGED = "903"
    NOT_UNMANAGED = "904"


_ACTIONS: dict[str, str] = {
    Action.ALLOCATE_HOST: "find a pool",
    Action.CREATE: "create",
    Action.DELETE_ACCESS_RULES: "remove access rules",
    Action.PROMOTE: "promote",
    Action.UPDATE: "update",
    Action.REVERT: "revert to a snapshot",
    Action.DELETE: "delete",
    Action.EXTEND: "extend",
    Action.SHRINK: "shrink",
    Action.UPDATE_ACCESS_RULES: "apply access rules",
    Action.ADD_UPDATE_SECURITY_SERVICE: "add or update a security service",
    Action.TRANSFER_ACCEPT: "accept a transfer",
    Action.UPDATE_METADATA: "update metadata",
    Action.RESTORE: "restore from a backup",
    Action.ATTACH: "attach to a server",
    Action.DETACH: "detach from a server",
    Action.MANAGE: "take under management",
    Action.UNMANAGE: "release from management",
}

# Clients look for these words; which pools there are and why none fits comes behind them.
_NO_ROOM = "No storage could be allocated for this share request"

_DETAILS: dict[str, str] = {
    Detail.UNKNOWN_ERROR: "Something unexpected went wrong; give the administrator the request id.",
    Detail.NO_VALID_HOST: f"{_NO_ROOM}: no pool fits it.",
    Detail.UNEXPECTED_NETWORK: "A share network was given, but this share type does not use share servers.",
    Detail.NO_SHARE_SERVER: "No share server could be found or made for the share.",
    Detail.NO_ACTIVE_AVAILABLE_REPLICA: "The share has no active replica that is available now.",
    Detail.NO_ACTIVE_REPLICA: "The share has no active replica.",
    Detail.FILTER_AVAILABILITY: f"{_NO_ROOM}: no pool is in an availability zone that is allowed.",
    Detail.FILTER_CAPABILITIES: f"{_NO_ROOM}: no pool has the capabilities that the share type asks for.",
    Detail.FILTER_CAPACITY: f"{_NO_ROOM}: no pool has enough capacity left.",
    Detail.FILTER_DRIVER: f"{_NO_ROOM}: the back ends' own rules refuse it.",
    Detail.FILTER_ATTEMPTED: f"{_NO_ROOM}: all pools were tried already.",
    Detail.FILTER_JSON: f"{_NO_ROOM}: no pool matches the query in the scheduler hints.",
    Detail.FILTER_RETRY: f"{_NO_ROOM}: it was tried as often as is allowed.",
    Detail.FILTER_REPLICATION: f"{_NO_ROOM}: no pool can hold another replica of it.",
    Detail.DRIVER_FAILED_EXTEND: "The back end could not extend the share; its size is unchanged.",
    Detail.FILTER_CREATE_FROM_SNAPSHOT: f"{_NO_ROOM}: no pool can read the snapshot.",
    Detail.DRIVER_FAILED_CREATING_FROM_SNAPSHOT: "The back end could not make the share from the snapshot.",
    Detail.SHRINK_REFUSED: "More is stored in the share than the new size holds; nothing was changed.",
    Detail.DRIVER_FAILED_SHRINK: "The back end could not shrink the share, or cannot shrink shares at all.",
    Detail.FORBIDDEN_CLIENT: "The back end forbids access to one of the clients in the rules.",
    Detail.UNSUPPORTED_CLIENT: "The back end does not support the type or level of one of the rules.",
    Detail.UNSUPPORTED_SECURITY_SERVICE: "The back end does not support this kind of security service.",
    Detail.SECURITY_SERVICE_FAILED_AUTH: "The security service refused the user and password that it was given with.",
    Detail.NO_DEFAULT_SHARE_TYPE: "No share type was given and no default share type is configured; name one.",
    Detail.MISSING_SECURITY_SERVICE: "The share network lacks a security service that the back end needs.",
    Detail.TRANSFER_NEEDS_CLEARED_RULES: "The share cannot be handed over with its access rules; clear them.",
    Detail.NETWORK_PORT_QUOTA: "The quota of network ports is used up; free ports or ask for a larger quota.",
    Detail.NOT_READY: "The storage back ends are not ready yet; try again in a minute.",
    Detail.METADATA_UPDATED: "The back end has applied the metadata.",
    Detail.METADATA_FAILED: "The back end could not apply the metadata.",
    Detail.METADATA_NOT_DELETED: "The metadata was removed here, but what it did on the back end stays.",
    Detail.TARGETED_RESTORE_UNSUPPORTED: "The back end can restore a backup only to the share that it was made of.",
    Detail.SUBNET_FULL: "The share network's subnet has no free addresses left.",
    Detail.UNSUPPORTED_REPLICA: "The back end cannot make a replica of this share as it is.",
    Detail.NOT_ON_SERVER: "The share is not on the server as it shall be; this is tried again with growing pauses.",
    Detail.STILL_ON_SERVER: "The share is still on the server; this is tried again with growing pauses.",
    Detail.NOT_MANAGED: "It could not be taken over and is as it was on the back end; release it, and try again.",
    Detail.NOT_UNMANAGED: "The back end could not let go of it; its data is as it was. Release it once more.",
}


class About(msgspec.Struct, frozen=True):
    """Whom a message is for (nobody: it is not written), and which of their resources it is about."""

    project_id: str | None
    request_id: str | None
    resource_type: str
    resource_id: str | None


class Message(msgspec.Struct, frozen=True, gc=False):
    """A message as its project's users may read it; `reason` is what was special about this case."""

    id: str
    project_id: str
    request_id: str | None
    resource_type: str | None
    resource_id: str | None
    action_id: str
    detail_id: str
    message_level: str
    reason: str | None
    created_at: datetime.datetime


def text(action_id: str, detail_id: str, reason: str | None = None) -> str:
    """What the user reads: what was being done, what happened, and what was special this time."""
    said = f"{_ACTIONS.get(action_id, 'unknown action')}: {_DETAILS.get(detail_id, _DETAILS[Detail.UNKNOWN_ERROR])}"
    return f"{said} {reason}" if reason else said
