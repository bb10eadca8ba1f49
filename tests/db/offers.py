# SPDX-License-Identifier: Apache-2.0
"""Every list that grows, with values for each of its filters: one that nearly all rows of `large.py` meet, one that few
do, one that none does.

A list, a filter or an order that is new is red in test_ways.py until it stands here. What has no way of its own stands
in INHERENT with the reason.
"""

import datetime
import itertools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from abaca.db.administration import events, messages, resource_locks, services
from abaca.db.attachments import attachments, orphaned_mounts, servers
from abaca.db.catalog import availability_zones, share_group_types, share_types
from abaca.db.clusters import clusters, nodes, templates
from abaca.db.journal import findings, operations
from abaca.db.networks import security_services, share_networks, share_servers
from abaca.db.shares import (
    export_location_history,
    share_instances,
    share_transfers,
    shares,
    snapshot_instances,
    snapshots,
)
from tests.db.large import TYPES
from tests.db.words import COMMON, LARGE, NONE, RARE

NOTHING = object()
START = datetime.datetime(2026, 1, 1)  # noqa: DTZ001


def row_id(number):
    """The id of a row of `large.py`."""
    return f"{number * 2654435761 % 4294967296:08x}-0000-4000-8000-{number:012x}"


class Values(NamedTuple):
    """What to ask a filter for; NOTHING: there is no such value."""

    common: Any = NOTHING
    rare: Any = NOTHING
    none: Any = NOTHING


class Offer(NamedTuple):
    """A list, and what is asked of it."""

    listing: Any
    columns: tuple[str, ...]
    values: dict[str, Values]
    # what is asked for whoever asks
    always: Mapping[str, object] = MappingProxyType({})
    # by which filter a member's project is asked for
    of_project: str | None = "project_id"
    # a list that is only ever one thing's
    of_one: Mapping[str, object] = MappingProxyType({})
    # the order that it has when none is asked for
    sort: str = "created_at"


_WORDS = Values(COMMON, RARE, NONE)
_SELDOM = Values(rare=RARE, none=NONE)
_IDS = Values(rare=row_id(0), none=row_id(999_999_999))
_PREFIX = Values(rare=row_id(0)[:8], none="ffffffff-1")
_LATER, _FIRST = START + datetime.timedelta(days=400), START + datetime.timedelta(seconds=2)
_SINCE = Values(START, _LATER, _LATER)
_BEFORE = Values(_LATER, _FIRST, START - datetime.timedelta(1))
_PROJECT = Values(LARGE, "p7", NONE)

OFFERS = {
    "shares": Offer(
        shares.SHARES,
        ("id", "name", "status", "has_replicas", "share_type_name", "metadata", "size", "host"),
        {
            "id": _IDS,
            "id_prefix": _PREFIX,
            "project_id": _PROJECT,
            "visible_to": _PROJECT,
            "is_public": Values(False, True),
            "name": Values(COMMON, "an Unusual name", NONE),
            "name_like": Values("COMM", "unusual", "nosuch"),
            "description": Values(COMMON, "an Unusual text", NONE),
            "description_like": Values("omm", "unusual", "nosuch"),
            "status": Values("available", "error", "creating"),
            "host": Values(f"h@{COMMON}#p1", f"h@{RARE}#p", NONE),
            "share_server_id": _SELDOM,
            "share_type_id": Values(*TYPES.values()),
            "snapshot_id": _SELDOM,
            "share_network_id": _SELDOM,
            "share_group_id": _SELDOM,
            "encryption_key_ref": _SELDOM,
            "availability_zone": _WORDS,
            "mount_point_name": _SELDOM,
            "is_soft_deleted": Values(False, True),
            "share_proto": Values("NFS", "CIFS", "HDFS"),
            "user_id": _WORDS,
            "metadata": Values({"k": COMMON}, {"k": RARE}, {"k": NONE}),
            "extra_specs": Values({"k": COMMON}, {"k": RARE}, {"k": "x"}),
            "export_location_id": _IDS,
            "export_location_path": Values(rare="host:/path/10", none=NONE),
        },
        always={"is_soft_deleted": False},
    ),
    "share instances": Offer(
        share_instances.INSTANCES,
        ("id", "share_id", "status", "host", "export_paths"),
        {
            "id": _IDS,
            "share_id": _IDS,
            "is_soft_deleted": Values(False, True),
            "export_location_id": _IDS,
            "export_location_path": Values(rare="host:/path/10", none=NONE),
        },
        always={"is_soft_deleted": False},
        of_project=None,
    ),
    "history of export locations": Offer(
        export_location_history.HISTORY,
        ("id", "path", "since", "until"),
        {"id": _IDS, "share_id": _IDS, "is_admin_only": Values(False)},
        of_project=None,
        of_one={"share_id": row_id(0)},
        sort="since",
    ),
    "snapshots": Offer(
        snapshots.SNAPSHOTS,
        ("id", "name", "status", "metadata", "size", "provider_location"),
        {
            "id": _IDS,
            "id_prefix": _PREFIX,
            "project_id": _PROJECT,
            "share_id": Values(row_id(0), row_id(1), NONE),
            "name": Values(COMMON, "an Unusual name", NONE),
            "name_like": Values("COMM", "unusual", "nosuch"),
            "description": Values(COMMON, "an Unusual text", NONE),
            "description_like": Values("omm", "unusual", "nosuch"),
            "status": Values("available", "error", "creating"),
            "size": Values(9, 7, 8),
            "metadata": Values({"k": COMMON}, {"k": RARE}, {"k": NONE}),
            "usage": Values("unused", "used"),
        },
    ),
    "share transfers": Offer(
        share_transfers.TRANSFERS,
        ("id", "name", "resource_id", "expires_at"),
        {
            "id": _IDS,
            "project_id": _PROJECT,
            "share_id": Values(rare=row_id(0), none=NONE),
            "name": Values(COMMON, "an Unusual name", NONE),
            "name_like": Values("COMM", "unusual", "nosuch"),
        },
    ),
    "snapshot instances": Offer(
        snapshot_instances.INSTANCES,
        ("id", "snapshot_id", "share_id", "status"),
        {"id": _IDS, "snapshot_id": _IDS},
        of_project=None,
    ),
    "operations": Offer(
        operations.OPERATIONS,
        ("id", "kind", "state", "args"),
        {
            "id": _IDS,
            "id_prefix": _PREFIX,
            "project_id": _PROJECT,
            "resource_type": Values("share", "backend", "nosuch"),
            "resource_id": _IDS,
            "kind": Values("share-create", "share-extend", "nosuch"),
            "queue": Values(f"h@{COMMON}", f"h@{RARE}", NONE),
            "state": Values("done", "running", "paused"),
            "parent_id": _IDS,
            "states": Values(("done", "failed"), operations.LIVE, ("paused",)),
        },
    ),
    "findings of an operation": Offer(
        findings.FINDINGS,
        ("id", "kind", "share_id", "why"),
        {"id": _IDS, "operation_id": _IDS, "kind": Values("skipped", "failed", "updated"), "share_id": _IDS},
        of_project=None,
        of_one={"operation_id": row_id(0)},
    ),
    "messages": Offer(
        messages.MESSAGES,
        ("id", "action_id", "created_at", "resource_id"),
        {
            "id": _IDS,
            "project_id": _PROJECT,
            "request_id": Values(rare=RARE, none=NONE),
            "resource_type": Values("SHARE", "SERVER", NONE),
            "resource_id": _IDS,
            "action_id": Values("001", "002", "003"),
            "detail_id": Values("001", "002", "003"),
            "message_level": Values("ERROR", "WARNING", NONE),
            "created_since": _SINCE,
            "created_before": _BEFORE,
        },
    ),
    "resource locks": Offer(
        resource_locks.LOCKS,
        ("id", "lock_reason", "resource_id"),
        {
            "id": _IDS,
            "project_id": _PROJECT,
            "user_id": _WORDS,
            "lock_context": Values("user", "admin", NONE),
            "resource_type": Values("share", "access_rule", NONE),
            "resource_id": _IDS,
            "resource_action": Values("delete", "show", NONE),
            "lock_reason": Values(f"a {COMMON} one", f"a {RARE} one", NONE),
            "lock_reason_like": Values("OMMO", "rar", NONE),
            "created_since": _SINCE,
            "created_before": _BEFORE,
        },
    ),
    "servers": Offer(
        servers.SERVERS,
        ("id", "name", "status", "metadata"),
        {
            "id": _IDS,
            "id_prefix": _PREFIX,
            "project_id": _PROJECT,
            "user_id": _WORDS,
            "name": Values(rare="server10", none=NONE),
            "statuses": Values(["ACTIVE"], ["SHUTOFF"], ["ERROR"]),
            "availability_zone": _WORDS,
            "ip": Values(rare="10.0.0.10", none="10.255.0.0"),
            "changed_since": _SINCE,
            "changed_before": _BEFORE,
        },
    ),
    "attachments": Offer(
        attachments.ATTACHMENTS,
        ("id", "share_name", "server_name", "state", "source"),
        {
            "id": _IDS,
            "id_prefix": _PREFIX,
            "project_id": _PROJECT,
            "share_id": _IDS,
            "server_id": Values(row_id(0), row_id(7), NONE),
            "state": Values("active", "error", "detaching"),
            "mode": Values("nfs", "virtiofs", "nosuch"),
            "share_ids": Values(rare=[row_id(0), row_id(1)], none=[NONE]),
            "server_ids": Values(rare=[row_id(7), row_id(9)], none=[NONE]),
        },
    ),
    "orphaned mounts": Offer(
        orphaned_mounts.ORPHANED_MOUNTS,
        ("id", "server_id", "mount_point"),
        {"id": _IDS, "server_id": Values(rare=RARE, none=NONE), "machine_id": _WORDS},
        of_project=None,
    ),
    "clusters": Offer(
        clusters.CLUSTERS,
        ("id", "name", "status", "shares"),
        {
            "id": _IDS,
            "id_prefix": _PREFIX,
            "project_id": _PROJECT,
            "name": Values(rare="cluster7", none=NONE),
            "status": Values("active", "error", "deleting"),
        },
    ),
    "nodes of a cluster": Offer(
        nodes.NODES,
        ("id", "server_id", "server_name", "refusals"),
        {"id": _IDS, "cluster_id": _IDS, "server_id": _IDS, "node_group_id": _IDS},
        of_project=None,
        of_one={"cluster_id": row_id(0)},
    ),
    "templates of clusters": Offer(
        templates.TEMPLATES,
        ("id", "name", "content"),
        {
            "id": _IDS,
            "project_id": _PROJECT,
            "kind": Values("cluster", "node_group", "nosuch"),
            "name": Values(rare="template7", none=NONE),
        },
        of_project=None,
        of_one={"kind": "cluster", "project_id": LARGE},
    ),
    "events": Offer(
        events.EVENTS,
        ("id", "event_type", "payload", "undelivered"),
        {
            "id": _IDS,
            "id_prefix": _PREFIX,
            "event_type": Values("share.create.end", "share.extend.end", "nosuch"),
            "resource_type": Values("share", "server", "nosuch"),
            "resource_id": _IDS,
            "project_id": _PROJECT,
        },
        of_project=None,
        sort="seq",
    ),
    "share networks": Offer(
        share_networks.SHARE_NETWORKS,
        ("id", "name", "status"),
        {
            "id": _IDS,
            "id_prefix": _PREFIX,
            "status": Values("active", "network_change", "error"),
            "project_id": _PROJECT,
            "name": _WORDS,
            "description": _WORDS,
            "name_like": Values("commo", "rar", "nosuch"),
            "description_like": Values("commo", "rar", "nosuch"),
            "created_since": _SINCE,
            "created_before": _BEFORE,
            "security_service_id": _IDS,
            "neutron_net_id": _SELDOM,
            "neutron_subnet_id": _SELDOM,
            "network_type": Values("vxlan", "vlan", NONE),
            "segmentation_id": Values(9, 7, 8),
            "cidr": Values("10.9.0.0/24", "10.7.0.0/24", NONE),
            "ip_version": Values(4, 6, 5),
        },
    ),
    "security services": Offer(
        security_services.SECURITY_SERVICES,
        ("id", "name", "type"),
        {
            "id": _IDS,
            "project_id": _PROJECT,
            "share_network_id": _IDS,
            "type": Values("ldap", "kerberos", "active_directory"),
            **dict.fromkeys(("name", "user", "server", "dns_ip", "domain", "ou", "default_ad_site"), _WORDS),
        },
    ),
    "share servers": Offer(
        share_servers.SHARE_SERVERS,
        ("id", "host", "status", "share_network_name"),
        {
            "id": _IDS,
            "id_prefix": _PREFIX,
            "project_id": _PROJECT,
            "host": Values(f"h@{COMMON}", f"h@{RARE}", NONE),
            "status": Values("active", "error", "creating"),
            "identifier": _SELDOM,
            "encryption_key_ref": _SELDOM,
            "share_network": _IDS,
            "share_network_id": _IDS,
            "share_network_subnet_id": _IDS,
        },
    ),
}

# Lists that do not grow with the number of shares, but with what operators configure.
SHORT = (share_types.TYPES, share_group_types.GROUP_TYPES, availability_zones.ZONES, services.SERVICES)

_SORTED = "the ids of all that is asked for are sorted, and only the page is read: an index more would cost every write"
_OF_INSTANCES = "an instance does not know its project: of all that the project has the ids are sorted"
_PATTERN = "a part of a text is looked for in all that may be shown"
_OF_ONE = "of one thing"
_FEW = "a project has some, and few look for them by this: they are looked through"
# What has no way of its own, by list, and why. A filter, or an order as "by NAME".
INHERENT: dict[str, dict[str, str]] = {name: {} for name in OFFERS} | {
    "shares": dict.fromkeys(
        (
            "by availability_zone",
            "by share_type_id",
            "by share_network_id",
            "by snapshot_id",
        ),
        _SORTED,
    )
    | dict.fromkeys(("by status of a project", "by host of a project"), _OF_INSTANCES)
    | {"visible_to": "what is public and what is the project's are found by two indexes, and sorted"},
    "history of export locations": {"by path": f"{_SORTED}; {_OF_ONE} share's locations"},
    "snapshots": {
        "by status of a project": _OF_INSTANCES,
        "usage": "whether a share was made from it is asked of each",
    },
    "share transfers": {
        **dict.fromkeys(("by name", "by expires_at"), _SORTED),
        **dict.fromkeys(("name", "name_like"), "offers stand for minutes: those of the project are looked through"),
    },
    "findings of an operation": dict.fromkeys(("kind", "share_id"), "an operation keeps ten thousand at most"),
    "resource locks": {
        **dict.fromkeys(("by updated_at", "by lock_reason"), _SORTED),
        "lock_reason": "a text too long for an index",
        "lock_reason_like": _PATTERN,
    },
    "servers": dict.fromkeys(("changed_since", "changed_before"), "compares one of two columns"),
    "share networks": {
        **dict.fromkeys(("name", "description", "status"), _FEW),
        **dict.fromkeys(("name_like", "description_like"), _PATTERN),
        **dict.fromkeys(("network_type", "segmentation_id", "cidr", "ip_version"), f"{_FEW}, and by their subnets"),
    },
    "security services": dict.fromkeys(
        ("type", "name", "user", "server", "dns_ip", "domain", "ou", "default_ad_site"), _FEW
    ),
}
# The same of two filters.
_APART = "PostgreSQL takes them for independent, expects few, and sorts what has the text; one at a time"
_JOINED = "among so few all instances are joined at once sooner than one by one; among 7,500 they no longer are"
_TEXTS = ("name", "name_like", "description", "description_like")
TOGETHER = {
    "shares": {f"{text} and host": _APART for text in _TEXTS},
    "snapshots": {f"{one} and {text}": _JOINED for one, text in itertools.combinations(("share_id", *_TEXTS), 2)},
}
_NOT_OF_SHARES = "a site has some thousands at most, however many shares it has"
# What of this needs no turn, because that which is read for it is never much.
BOUNDED = {
    "shares": {"visible_to": "either many meet it, and the newest are found soon, or few do"},
    "history of export locations": {"by path": _OF_ONE},
    "findings of an operation": INHERENT["findings of an operation"],
    "share networks": dict.fromkeys(INHERENT["share networks"], _NOT_OF_SHARES),
    "security services": dict.fromkeys(INHERENT["security services"], _NOT_OF_SHARES),
}
ON_SQLITE: dict[str, dict[str, str]] = {name: {} for name in OFFERS}
_ALL_SORTED = "SQLite does not know how many rows meet it: it goes by the filter's index, and sorts all that it finds"
_ALL_READ = "SQLite has no index of this kind, or does not see that it leads to few: all that may be shown is read"
ON_SQLITE |= {
    "shares": {
        **dict.fromkeys(
            ("visible_to", "description", "status", "share_type_id", "availability_zone", "extra_specs"), _ALL_SORTED
        ),
        **dict.fromkeys(("name_like", "description_like", "metadata", "is_soft_deleted"), _ALL_READ),
    },
    "share instances": {"is_soft_deleted": _ALL_READ},
    "snapshots": {
        **dict.fromkeys(("share_id", "description", "status"), _ALL_SORTED),
        **dict.fromkeys(("name_like", "description_like", "metadata"), _ALL_READ),
    },
    "operations": dict.fromkeys(("state", "states"), _ALL_SORTED),
    "attachments": dict.fromkeys(("state", "server_id"), _ALL_SORTED),
    "share servers": {"host": _ALL_SORTED},
}
