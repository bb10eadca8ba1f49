# SPDX-License-Identifier: Apache-2.0
"""Every list that grows, each filter that it takes, with what nearly all, few and none of its rows meet; each order.

The rows are those of `benchmarks.population`.
"""

from __future__ import annotations

import datetime
import itertools
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from benchmarks.population import BIG_CLUSTER, DEFAULT_TYPE, RARE, RARE_HOST, RARE_TYPE, id_of

ALL, FEW, NONE = "all match", "few", "none"
MEMBER, ADMIN = "member", "admin"
LIMIT = 50


class Question(NamedTuple):
    """What is asked, of whom, and what it is called."""

    name: str
    who: str
    path: str


class Offer(NamedTuple):
    """A list: where it is, what it is asked for, and by whom; `everywhere` asks for that of all projects."""

    name: str
    path: str
    filters: Mapping[str, Mapping[str, str]]
    sorts: Sequence[str] = ("created_at",)
    everywhere: str | None = "all_tenants=1"
    is_of_admins: bool = False
    is_counted: bool = False
    # where the order of all cannot be asked for
    marker_kind: str | None = None

    @property
    def scopes(self) -> list[tuple[str, str, str]]:
        """The words of the question's name, who asks, and what they add."""
        found = [] if self.is_of_admins else [("project", MEMBER, "")]
        return found if self.everywhere is None else [*found, ("all", ADMIN, self.everywhere)]


def _rarely(often: str, rare: str, none: str = "nothing") -> dict[str, str]:
    return {ALL: often, FEW: rare, NONE: none}


_UNKNOWN = "0000ffff-0000-7000-8000-ffffffffffff"
_OF_DIRECTORIES = ("name", "user", "server", "dns_ip", "domain", "ou", "default_ad_site")
_OLD, _SOON = (
    (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)).date().isoformat() for days in (-999, 9)
)
_RARE_ID = {FEW: id_of("rare", 1), NONE: _UNKNOWN}
_SHARE_FILTERS: dict[str, dict[str, str]] = {
    "status": _rarely("available", "error", "creating"),
    "host": {ALL: "bench@first#pool1", FEW: RARE_HOST, NONE: "bench@first#none"},
    "name": {FEW: "rare-10", NONE: "nothing"},
    "name~": _rarely("share", RARE),
    "description": _rarely("Data of team 10", "Rare words"),
    "description~": _rarely("data", "rare w"),
    "share_type_id": _rarely(DEFAULT_TYPE, RARE_TYPE, _UNKNOWN),
    "user_id": _rarely("user-1", RARE),
    "share_proto": _rarely("NFS", "CIFS", "HDFS"),
    "is_public": {ALL: "false", FEW: "true"},
    "metadata": _rarely("{'team': 'blue'}", "{'rare': 'yes'}", "{'team': 'none'}"),
    "extra_specs": _rarely(
        "{'driver_handles_share_servers': 'False'}", "{'rare': 'yes'}", "{'driver_handles_share_servers': 'x'}"
    ),
    "is_soft_deleted": {ALL: "false", FEW: "true"},
    "availability_zone": _rarely("nova", RARE),
    "mount_point_name": {FEW: RARE, NONE: "nothing"},
    "export_location_id": {FEW: id_of("location", 10), NONE: _UNKNOWN},
    "export_location_path": {FEW: f"192.0.2.1:/shares/{id_of('share', 10)}", NONE: "192.0.2.1:/nothing"},
    **dict.fromkeys(
        ("snapshot_id", "share_network_id", "share_group_id", "share_server_id", "encryption_key_ref"), _RARE_ID
    ),
}
_OF_ADMINS = {"host", "share_server_id", "extra_specs"}
OFFERS = (
    Offer(
        "shares",
        "/v2/shares/detail",
        _SHARE_FILTERS,
        (
            "created_at",
            "id",
            "status",
            "size",
            "host",
            "share_proto",
            "availability_zone",
            "user_id",
            "project_id",
            "updated_at",
            "name",
            "share_type_id",
            "share_network_id",
            "snapshot_id",
            "is_public",
        ),
        is_counted=True,
        marker_kind="share",
    ),
    Offer(
        "share_instances",
        "/v2/share_instances",
        {name: _SHARE_FILTERS[name] for name in ("export_location_id", "export_location_path", "is_soft_deleted")}
        | {"export_location_id": {FEW: id_of("location", 10), NONE: _UNKNOWN}},
        ("created_at", "id", "host", "status"),
        everywhere="",
        is_of_admins=True,
        marker_kind="instance",
    ),
    Offer(
        "snapshots",
        "/v2/snapshots/detail",
        {
            "share_id": {FEW: id_of("share", 20), NONE: _UNKNOWN},
            "size": {ALL: "41", NONE: "999"},
            "usage": {ALL: "unused", NONE: "used"},
            **{name: _SHARE_FILTERS[name] for name in ("status", "description", "description~", "metadata")},
            "name": {FEW: "rare-20", NONE: "nothing"},
            "name~": _rarely("snapshot", RARE),
        },
        ("created_at", "id", "project_id", "share_id", "name", "status", "size", "updated_at"),
        is_counted=True,
        marker_kind="snapshot",
    ),
    Offer(
        "snapshot_instances",
        "/v2/snapshot-instances/detail",
        {"snapshot_id": {FEW: id_of("snapshot", 20), NONE: _UNKNOWN}},
        sorts=(),
        everywhere="",
        is_of_admins=True,
        marker_kind="snapshot-instance",
    ),
    Offer(
        "operations",
        "/abaca/v1/operations",
        {
            "resource_id": {FEW: id_of("share", 10), NONE: _UNKNOWN},
            "resource_type": _rarely("share", "service", "attachment"),
            "kind": _rarely("share-create", "share-extend", "share-shrink"),
            "queue": _rarely("bench@first", "nobody"),
            "state": _rarely("done", "cancelled", "running"),
            "parent_id": {NONE: _UNKNOWN},
            "live": {ALL: "false", FEW: "true"},
        },
        ("created_at",),
        marker_kind="operation",
    ),
    Offer(
        "attachments",
        "/abaca/v1/attachments",
        {
            "share_id": {FEW: id_of("share", 20), NONE: _UNKNOWN},
            "server_id": {FEW: id_of("large-server", 1), NONE: _UNKNOWN},
            "mode": {ALL: "network", NONE: "virtiofs"},
            "state": _rarely("active", "error", "attaching"),
        },
        ("created_at", "server_id", "share_id"),
        marker_kind="attachment",
    ),
    Offer(
        "servers",
        "/abaca/v1/servers",
        {
            "name": {FEW: "server-1", NONE: "nothing"},
            "status": {ALL: "ACTIVE", NONE: "SHUTOFF"},
            "availability_zone": {ALL: "nova", NONE: "nothing"},
            "ip": {FEW: "10.1.0.2", NONE: "10.9.9.9"},
        },
        ("created_at", "id", "name", "project_id", "status"),
        marker_kind="large-server",
    ),
    Offer(
        "messages",
        "/v2/messages",
        {
            "request_id": {FEW: RARE, NONE: "nothing"},
            "resource_type": _rarely("SHARE", "ATTACHMENT", "NOTHING"),
            "resource_id": {FEW: id_of("share", 40), NONE: _UNKNOWN},
            "action_id": _rarely("001", "007", "999"),
            "detail_id": _rarely("008", "001", "999"),
            "message_level": _rarely("ERROR", "INFO", "NOTHING"),
            "created_since": {ALL: _OLD, NONE: _SOON},
            "created_before": {ALL: _SOON, NONE: _OLD},
        },
        (
            "created_at",
            "expires_at",
            "id",
            "project_id",
            "request_id",
            "resource_type",
            "resource_id",
            "action_id",
            "detail_id",
            "message_level",
        ),
        everywhere="",
        marker_kind="message",
    ),
    Offer(
        "locks",
        "/v2/resource-locks",
        {
            "user_id": _rarely("user-1", RARE),
            "resource_id": {FEW: id_of("share", 200), NONE: _UNKNOWN},
            "resource_type": {ALL: "share", NONE: "access_rule"},
            "resource_action": {ALL: "delete", NONE: "show"},
            "lock_context": _rarely("user", "admin", "service"),
            "lock_reason": _rarely("Audit of 0", "Rare reason"),
            "lock_reason~": _rarely("audit", "rare"),
            "created_since": {ALL: _OLD, NONE: _SOON},
            "created_before": {ALL: _SOON, NONE: _OLD},
        },
        (
            "created_at",
            "updated_at",
            "id",
            "project_id",
            "user_id",
            "lock_context",
            "resource_type",
            "resource_id",
            "resource_action",
            "lock_reason",
        ),
        is_counted=True,
    ),
    Offer(
        "events",
        "/abaca/v1/events",
        {
            "event_type": _rarely("share.create.end", "share.extend.end", "share.shrink.end"),
            "resource_type": {ALL: "share", NONE: "attachment"},
            "resource_id": {FEW: id_of("share", 10), NONE: _UNKNOWN},
        },
        sorts=(),
        everywhere="",
        is_of_admins=True,
    ),
    Offer(
        "findings of one operation",
        f"/abaca/v1/operations/{id_of('ensuring', 1)}/findings",
        {"kind": {ALL: "skipped", NONE: "failed"}, "share_id": {FEW: id_of("share", 10), NONE: _UNKNOWN}},
        sorts=(),
        everywhere="",
        is_of_admins=True,
    ),
    Offer(
        "share transfers",
        "/v2/share-transfers/detail",
        {
            "name": {FEW: "offer-230", NONE: "nothing"},
            "name~": {ALL: "offer", FEW: "offer-230", NONE: "nothing"},
            "resource_id": {FEW: id_of("share", 230), NONE: _UNKNOWN},
        },
        ("created_at", "id", "name", "expires_at"),
        marker_kind="offer",
    ),
    Offer(
        "orphaned mounts",
        "/abaca/v1/orphaned-mounts",
        {
            "server_id": {FEW: id_of("large-server", 2), NONE: _UNKNOWN},
            "machine_id": _rarely(id_of("machine", 1), id_of("rare", 1), _UNKNOWN),
        },
        everywhere="",
        is_of_admins=True,
        marker_kind="orphaned-mount",
    ),
    Offer(
        "clusters",
        "/abaca/v1/clusters",
        {
            "name": {FEW: "cluster-2", NONE: "nothing"},
            "status": _rarely("active", "error", "deleting"),
        },
        marker_kind="cluster",
    ),
    Offer(
        "nodes of one cluster",
        f"/abaca/v1/clusters/{id_of('cluster', BIG_CLUSTER)}/nodes",
        {
            "server_id": {FEW: id_of("large-server", 1), NONE: _UNKNOWN},
            "node_group_id": {ALL: id_of("node-group", BIG_CLUSTER), NONE: _UNKNOWN},
        },
        everywhere=None,
        marker_kind="node",
    ),
    Offer(
        "templates of clusters",
        "/data-processing/v2/cluster-templates",
        {"name": {FEW: "template-2", NONE: "nothing"}},
        sorts=(),
        everywhere=None,
    ),
    Offer(
        "share networks",
        "/v2/share-networks/detail",
        {
            "name": {FEW: "rare-2", NONE: "nothing"},
            "name~": _rarely("network", RARE),
            "description": _rarely("Network of team 4", "Rare words"),
            "description~": _rarely("team", "rare w"),
            "created_since": {ALL: _OLD, NONE: _SOON},
            "created_before": {ALL: _SOON, NONE: _OLD},
            "security_service_id": {FEW: id_of("directory", 2), NONE: _UNKNOWN},
            "neutron_net_id": {FEW: id_of("neutron-net", 2), NONE: _UNKNOWN},
            "neutron_subnet_id": {FEW: id_of("neutron-subnet", 2), NONE: _UNKNOWN},
            "network_type": _rarely("vxlan", "vlan", "gre"),
            "segmentation_id": _rarely("9", "7", "8"),
            "cidr": _rarely("10.9.0.0/24", "10.7.0.0/24"),
            "ip_version": _rarely("4", "6", "5"),
        },
        marker_kind="network",
    ),
    Offer(
        "security services",
        "/v2/security-services/detail",
        {
            # of a network that is not there the list says that
            "share_network_id": {FEW: id_of("network", 2)},
            "type": _rarely("ldap", "kerberos", "active_directory"),
            **dict.fromkeys(_OF_DIRECTORIES, _rarely("common", RARE)),
        },
        marker_kind="directory",
    ),
    Offer(
        "share servers",
        "/v2/share-servers",
        {
            "host": _rarely("bench@first", "bench@second", "bench@none"),
            "status": _rarely("active", "error", "creating"),
            "identifier": {FEW: id_of("share-server", 2), NONE: _UNKNOWN},
            "encryption_key_ref": {FEW: id_of("share-server", 2), NONE: _UNKNOWN},
            "share_network": {FEW: "rare-2", NONE: "nothing"},
            "share_network_id": {FEW: id_of("network", 2), NONE: _UNKNOWN},
            "share_network_subnet_id": {FEW: id_of("subnet", 2), NONE: _UNKNOWN},
        },
        everywhere="",
        is_of_admins=True,
        marker_kind="share-server",
    ),
)
ONES = (
    ("one share", MEMBER, f"/v2/shares/{id_of('share', 500)}"),
    ("its export locations", MEMBER, f"/v2/shares/{id_of('share', 500)}/export_locations"),
    ("their history", MEMBER, f"/abaca/v1/shares/{id_of('share', 500)}/export-locations/history"),
    ("its rules", MEMBER, f"/v2/share-access-rules?share_id={id_of('share', 500)}"),
    ("its instances", ADMIN, f"/v2/shares/{id_of('share', 500)}/instances"),
    ("its metadata", MEMBER, f"/v2/shares/{id_of('share', 500)}/metadata"),
    ("one operation", MEMBER, f"/abaca/v1/operations/{id_of('operation', 3)}"),
    ("one attachment", MEMBER, f"/abaca/v1/attachments/{id_of('attachment', 500)}"),
    ("one server", MEMBER, f"/abaca/v1/servers/{id_of('large-server', 1)}"),
    ("limits", MEMBER, "/v2/limits"),
    ("pools", ADMIN, "/v2/scheduler-stats/pools/detail"),
    ("services", ADMIN, "/v2/services"),
    ("share types", MEMBER, "/v2/types"),
    ("servers as Nova lists them", MEMBER, "/compute/v2.1/servers/detail?limit=50"),
    ("/metrics", ADMIN, "/metrics"),
)


def every(shares: int) -> Iterator[Question]:
    """What is measured at each size: all but orders under a filter."""
    yield from (Question(*one) for one in ONES)
    for offer in OFFERS:
        for scope, who, more in offer.scopes:
            yield _ask(offer, scope, who, [more])
            if offer.marker_kind is not None:
                marker, offset = _middle(offer.marker_kind, shares), _offset(offer, scope, shares)
                yield _ask(offer, f"{scope}, after a marker", who, [more, f"marker={marker}"])
                yield _ask(offer, f"{scope}, offset in the middle", who, [more, f"offset={offset}"])
            if offer.is_counted:
                yield _ask(offer, f"{scope}, counted", who, [more, "with_count=true"])
            for name, kind, said in _filtered(offer, who):
                yield _ask(offer, f"{scope}, {name} ({kind})", who, [more, said])
            for sort, way in itertools.product(offer.sorts, ("desc", "asc")):
                yield _ask(offer, f"{scope}, by {sort} {way}", who, [more, f"sort_key={sort}&sort_dir={way}"])


def crossed() -> Iterator[Question]:
    """Each order under each filter."""
    for offer in OFFERS:
        for scope, who, more in offer.scopes:
            for (name, kind, said), sort in itertools.product([*_filtered(offer, who)], offer.sorts[1:]):
                yield _ask(offer, f"{scope}, {name} ({kind}), by {sort}", who, [more, said, f"sort_key={sort}"])


def _filtered(offer: Offer, who: str) -> Iterator[tuple[str, str, str]]:
    for name, values in offer.filters.items():
        if who == MEMBER and offer.name in ("shares", "share_instances") and name in _OF_ADMINS:
            continue
        for kind, value in values.items():
            yield name, kind, urllib.parse.urlencode({name: value})


def _ask(offer: Offer, rest: str, who: str, words: Sequence[str]) -> Question:
    query = "&".join(word for word in ("limit=50", *words) if word)
    return Question(f"{offer.name}: {rest}", who, f"{offer.path}?{query}")


def _rows(kind: str, shares: int) -> int:
    parts = {"operation": 3 / 10, "message": 1 / 20}
    parts |= dict.fromkeys(("large-server", "node", "orphaned-mount"), 1 / 200) | {"cluster": 1 / 1000}
    parts |= dict.fromkeys(("network", "directory", "share-server"), 1 / 500)
    return int(shares * parts.get(kind, 1))


def _middle(kind: str, shares: int) -> str:
    """A row in the middle, of the large project."""
    number = _rows(kind, shares) // 2
    if kind == "offer":
        return id_of(kind, number - number % 100 + 30)
    steps = {"share": 10, "instance": 10, "operation": 3}
    steps |= dict.fromkeys(("message", "network", "directory", "share-server", "cluster"), 2)
    step = (steps | dict.fromkeys(("attachment", "snapshot", "snapshot-instance"), 20)).get(kind, 1)
    return id_of(kind, max(step, number - number % step))


def _offset(offer: Offer, scope: str, shares: int) -> int:
    """Half of what there is."""
    parts = dict.fromkeys(("attachments", "snapshots", "snapshot_instances"), 1 / 10)
    parts |= {"servers": 1 / 100, "messages": 1 / 20, "operations": 3 / 10, "share transfers": 1 / 50}
    parts |= {"clusters": 1 / 1000, "orphaned mounts": 1 / 200, "nodes of one cluster": 1 / 100}
    parts |= dict.fromkeys(("share networks", "security services", "share servers"), 1 / 500)
    of_project = 1.0 if scope != "project" else 1 / 10 if offer.name == "shares" else 1 / 2
    return int(shares * parts.get(offer.name, 1.0) * of_project / 2)
