# SPDX-License-Identifier: Apache-2.0
"""What a year has left in each table: the shares, and all that belongs to them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from abaca.domain.shares import snapshots
from abaca.domain.shares.shares import status_rank
from benchmarks.population import projects
from benchmarks.population.words import (
    DEFAULT_TYPE,
    FINDINGS,
    GOLD_TYPE,
    HOST,
    LARGE,
    PAUSED_OPERATIONS,
    RARE,
    RARE_HOST,
    RARE_SHARES,
    RARE_TYPE,
    WEEK_S,
    YEAR_S,
    Rows,
    Words,
    host,
    id_of,
    service,
)


def everything(w: Words) -> Iterator[Rows]:
    """All rows, in an order in which nothing names what comes later."""
    for area in (_catalog, _shares, _snapshots, _servers, _journal, _around, projects.everything, _counted):
        yield from area(w)


def _catalog(w: Words) -> Iterator[Rows]:
    old = w.ago(str(YEAR_S))
    names = "CASE n WHEN 1 THEN 'default' WHEN 2 THEN 'gold' ELSE 'rare' END"
    specs = [f'{{"driver_handles_share_servers": "False"{more}}}' for more in (', "rare": "yes"', "")]
    yield Rows(
        "share_types",
        3,
        {
            "id": w.id("type"),
            "name": names,
            "is_public": "true",
            "extra_specs": w.json(f"CASE n WHEN 3 THEN '{specs[0]}' ELSE '{specs[1]}' END"),
            "created_at": old,
        },
    )
    name = f"CASE n WHEN 1 THEN 'nova' ELSE '{RARE}' END"
    yield Rows("availability_zones", 2, {"id": w.id("zone"), "name": name, "created_at": old})


_STATUSES = ("error", "awaiting_transfer", "available")


def _status(w: Words, rare: str, offered: str, other: str) -> str:
    return w.rarely(rare, f"CASE WHEN {w.is_offered()} THEN {offered} ELSE {other} END")


def _shares(w: Words) -> Iterator[Rows]:
    of = {"share_id": w.id("share"), "created_at": w.since()}
    rare_id = f"'{id_of('rare', 1)}'"
    often, seldom = (f"'{json.dumps(pairs)}'" for pairs in ({"team": "blue"}, {"team": "blue", RARE: "yes"}))
    yield Rows(
        "shares",
        w.shares,
        {
            "id": w.id("share"),
            "project_id": w.project(),
            "user_id": w.user(),
            "name": w.rarely("'rare-' || n", "'share-' || n"),
            "description": w.rarely("'Rare words'", "'Data of team ' || (n % 50)"),
            "size": "1 + n % 100",
            "share_proto": w.rarely("'CIFS'", "'NFS'"),
            "is_public": w.is_rare(),
            "metadata": w.json(w.rarely(seldom, often)),
            "is_soft_deleted": w.is_binned(),
            "scheduled_to_be_deleted_at": f"CASE WHEN {w.is_binned()} THEN {w.ago(str(-YEAR_S))} END",
            **{name: w.rarely(rare_id) for name in ("snapshot_id", "share_group_id", "encryption_key_ref")},
            "mount_point_name": w.rarely(f"'{RARE}'"),
            "created_at": w.since(),
            "updated_at": w.ago(f"({w.shares} - n) * {YEAR_S / w.shares} * (n % 7) / 8.0"),
        },
    )
    yield Rows(
        "share_instances",
        w.shares,
        {
            **of,
            "id": w.id("instance"),
            "status": _status(w, *(f"'{said}'" for said in _STATUSES)),
            "status_rank": _status(w, *(str(status_rank(said)) for said in _STATUSES)),
            "access_rules_status": "'active'",
            "host": w.rarely(f"'{RARE_HOST}'", host()),
            "availability_zone": w.rarely(f"'{RARE}'", "'nova'"),
            "share_type_id": w.rarely(
                f"'{RARE_TYPE}'", f"CASE WHEN n % 20 IN (10, 11) THEN '{GOLD_TYPE}' ELSE '{DEFAULT_TYPE}' END"
            ),
            **{name: w.rarely(rare_id) for name in ("share_network_id", "share_server_id")},
            "progress": "'100%'",
        },
    )
    where = {**of, "id": w.id("location"), "share_instance_id": w.id("instance"), "path": w.path()}
    location = {**where, "preferred": "true", "metadata": w.pairs()}
    yield Rows("export_locations", w.shares, {key: sql for key, sql in location.items() if key != "share_id"})
    yield from _history(w, where)
    yield from _rules(w, of)


def _snapshots(w: Words) -> Iterator[Rows]:
    """One each of a tenth of the shares, of which the large project has half."""
    where, oldest = "n % 20 IN (0, 7)", "n / 2"
    often, seldom = (f"'{json.dumps(pairs)}'" for pairs in ({"team": "blue"}, {"team": "blue", RARE: "yes"}))
    yield Rows(
        "snapshots",
        w.shares,
        {
            "id": w.id("snapshot"),
            "share_id": w.id("share"),
            "project_id": w.project(),
            "user_id": w.user(),
            "name": w.rarely("'rare-' || n", "'snapshot-' || n", oldest),
            "description": w.rarely("'Rare words'", "'Data of team ' || (n % 50)", oldest),
            **dict.fromkeys(("size", "share_size"), "1 + n % 100"),
            "share_proto": "'NFS'",
            "metadata": w.json(w.rarely(seldom, often, oldest)),
            "created_at": w.since(),
            "updated_at": w.ago(f"({w.shares} - n) * {YEAR_S / w.shares} * (n % 7) / 8.0"),
        },
        where=where,
    )
    yield Rows(
        "snapshot_instances",
        w.shares,
        {
            "id": w.id("snapshot-instance"),
            "snapshot_id": w.id("snapshot"),
            "share_instance_id": w.id("instance"),
            "status": w.rarely("'error'", "'available'", oldest),
            "status_rank": w.rarely(*(str(snapshots.status_rank(said)) for said in ("error", "available")), oldest),
            "progress": "'100%'",
            "created_at": w.since(),
        },
        where=where,
    )


def _history(w: Words, where: Mapping[str, str]) -> Iterator[Rows]:
    """Each share was exported at another address for the first half of its life."""
    moved = w.ago(f"({w.shares} - n) * {YEAR_S / w.shares / 2}")
    same = {name: where[name] for name in ("share_id", "share_instance_id")}
    same |= {"project_id": w.project(), "is_admin_only": "false", "preferred": "true"}
    made, ensured = (
        {"operation": w.id("operation"), "kind": f"'{kind}'"} for kind in ("share-create", "backend-ensure")
    )
    yield Rows(
        "export_location_history",
        w.shares,
        {
            **same,
            "id": w.id("ended"),
            "export_location_id": w.id("ended"),
            "path": w.path().replace("192.0.2.1", "192.0.2.2"),
            "since": where["created_at"],
            "until": moved,
            "begun_by": made["operation"],
            "begun_by_kind": made["kind"],
            "ended_by": ensured["operation"],
            "ended_by_kind": ensured["kind"],
        },
    )
    yield Rows(
        "export_location_history",
        w.shares,
        {
            **same,
            "id": w.id("history"),
            "export_location_id": where["id"],
            "path": where["path"],
            "since": moved,
            "begun_by": ensured["operation"],
            "begun_by_kind": ensured["kind"],
        },
    )


def _rules(w: Words, of: Mapping[str, str]) -> Iterator[Rows]:
    """One each: of a share that is attached that of its attachment, of another one that a user made."""
    server, is_attached = w.server_number(), "n % 20 IN (0, 7)"
    others = "'10.3.' || (n / 250 % 250) || '.' || (1 + n % 250)"
    client = f"CASE WHEN {is_attached} THEN {w.address('n % 20 = 0', server)} ELSE {others} END"
    yield Rows(
        "access_rules",
        w.shares,
        {
            **of,
            "id": w.id("rule"),
            "access_type": "'ip'",
            "access_to": client,
            "client": client,
            "access_level": "'rw'",
            "made_for": f"CASE WHEN {is_attached} THEN 'attachments' END",
            "metadata": w.pairs(),
        },
    )
    yield Rows(
        "instance_access_rules",
        w.shares,
        {
            "access_rule_id": w.id("rule"),
            "share_instance_id": w.id("instance"),
            "state": "'active'",
            "created_at": of["created_at"],
        },
    )


def _servers(w: Words) -> Iterator[Rows]:
    for kind, project in (("large-server", f"'{LARGE}'"), ("small-server", w.small("n"))):
        address = w.address(str(kind == "large-server"), "n")
        made = w.ago(f"({w.servers} - n) * {YEAR_S / w.servers}")
        yield Rows(
            "servers",
            w.servers,
            {
                "id": w.id(kind),
                "project_id": project,
                "user_id": "'user-1'",
                "name": "'server-' || n",
                "status": "'ACTIVE'",
                "availability_zone": "'nova'",
                "metadata": w.pairs(),
                "ssh_host": address,
                "ssh_user": "'root'",
                "host_key": "'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'",
                "key": "'file:/etc/abaca/keys/nodes'",
                "created_at": made,
            },
        )
        yield Rows(
            "server_addresses",
            w.servers,
            {"server_id": w.id(kind), "ip": address, "network": "'plant'", "place": "0"},
        )
    yield _attachments(w)


def _attachments(w: Words) -> Rows:
    """A tenth of the shares, ten to a server."""
    server = w.server_number()
    large, small = (w.id(kind, server) for kind in ("large-server", "small-server"))
    return Rows(
        "attachments",
        w.shares,
        {
            "id": w.id("attachment"),
            "share_id": w.id("share"),
            "server_id": f"CASE WHEN n % 20 = 0 THEN {large} ELSE {small} END",
            "project_id": w.project(),
            "user_id": w.user(),
            "mode": "'network'",
            "mount_point": f"'/mnt/' || {w.id('share')}",
            "tag": w.id("share"),
            "access_level": "'rw'",
            "state": w.rarely("'error'", "'active'"),
            "wanted": "'attached'",
            "addresses": w.json(f"'[\"' || {w.address('n % 20 = 0', server)} || '\"]'"),
            "source": w.path(),
            "last_verified_at": w.ago("0"),
            "error_code": w.rarely("'NoWayIn'"),
            "error_text": w.rarely("'It has no key.'"),
            "retry_at": w.rarely(w.ago(str(-YEAR_S))),
            "created_at": w.since(),
        },
        where="n % 20 IN (0, 7)",
    )


def _journal(w: Words) -> Iterator[Rows]:
    number = w.shares * 3 // 10
    share = f"CASE WHEN n % 3 = 0 THEN 10 * (1 + n % {w.shares // 10}) ELSE n END"
    is_rare = f"(n % 3 = 0 AND n <= {3 * RARE_SHARES})"
    ended = {
        "data": w.pairs(),
        "args": w.pairs(),
        "updated_at": w.ago(f"({number} - n) * {WEEK_S / number}"),
    }
    ended |= dict.fromkeys(("created_at", "finished_at"), ended["updated_at"])
    yield Rows(
        "operations",
        number,
        {
            **ended,
            "id": w.id("operation"),
            "kind": f"CASE WHEN {is_rare} THEN 'share-extend' ELSE 'share-create' END",
            "queue": service("n"),
            "home": service("n"),
            "keys": w.json(f"'[\"share:' || {w.id('share', share)} || '\"]'"),
            "state": f"CASE WHEN {is_rare} THEN 'cancelled' WHEN n % 50 = 1 THEN 'failed' ELSE 'done' END",
            "request_id": "'req-' || n",
            "project_id": w.project(share),
            "user_id": w.user(share),
            "resource_type": "'share'",
            "resource_id": w.id("share", share),
        },
    )
    ensured = {**ended, "resource_type": "'service'", "resource_id": "'1'", "kind": "'backend-ensure'"}
    ensured |= {"queue": f"'{HOST}@first'", "home": f"'{HOST}@first'", "keys": w.json("'[]'")}
    yield Rows("operations", 1, {**ensured, "id": w.id("ensuring"), "state": "'done'"})
    yield Rows(
        "operation_findings",
        FINDINGS,
        {
            "id": w.id("finding"),
            "operation_id": f"'{id_of('ensuring', 1)}'",
            "kind": "'skipped'",
            "share_id": w.id("share"),
            "share_instance_id": w.id("instance"),
            "why": "'It was busy.'",
            "created_at": w.ago("86400 - n"),
        },
    )
    key = {"keys": w.json(f"'[\"server:' || {w.id('paused')} || '\"]'")}
    paused = {"id": w.id("paused"), "state": "'paused'", "project_id": f"'{LARGE}'", "finished_at": "NULL"}
    yield Rows("operations", PAUSED_OPERATIONS, {**ensured, **key, **paused, "queue": "'nobody'", "home": "'nobody'"})
    keys = {
        "operation_id": w.id("paused"),
        "key": f"'server:' || {w.id('paused')}",
        "place": "n",
        "seq": "n",
    }
    yield Rows("operation_keys", PAUSED_OPERATIONS, keys)


def _around(w: Words) -> Iterator[Rows]:
    """What users and operators are told, and what they have locked."""
    block = f"(1 + n / 2 % {w.shares // 20 - 1})"
    share = f"CASE WHEN n % 2 = 0 THEN 20 * {block} ELSE 20 * {block} - 13 END"
    is_rare = f"(n % 2 = 0 AND n <= {2 * RARE_SHARES})"
    yield Rows(
        "messages",
        w.messages,
        {
            "id": w.id("message"),
            "project_id": w.project(share),
            "request_id": f"CASE WHEN {is_rare} THEN '{RARE}' ELSE 'req-' || n END",
            "resource_type": f"CASE WHEN {is_rare} THEN 'ATTACHMENT' ELSE 'SHARE' END",
            "resource_id": w.id("share", share),
            "action_id": f"CASE WHEN {is_rare} THEN '007' ELSE '001' END",
            "detail_id": f"CASE WHEN {is_rare} THEN '001' ELSE '008' END",
            "message_level": f"CASE WHEN {is_rare} THEN 'INFO' ELSE 'ERROR' END",
            "created_at": w.ago(f"({w.messages} - n) * {YEAR_S / w.messages}"),
        },
    )
    yield Rows(
        "resource_locks",
        w.locks,
        {
            "id": w.id("lock"),
            "project_id": w.project(share),
            "user_id": f"CASE WHEN {is_rare} THEN '{RARE}' ELSE 'user-' || (n % 5) END",
            "lock_context": f"CASE WHEN {is_rare} THEN 'admin' ELSE 'user' END",
            "share_id": w.id("share", share),
            "resource_type": "'share'",
            "resource_id": w.id("share", share),
            "resource_action": "'delete'",
            "lock_reason": f"CASE WHEN {is_rare} THEN 'Rare reason' ELSE 'Audit of ' || (n % 50) END",
            "created_at": w.ago(f"({w.locks} - n) * {YEAR_S / w.locks}"),
        },
    )
    is_rare = w.is_rare()
    yield Rows(
        "events",
        w.shares // 10,
        {
            "id": w.id("event"),
            "event_type": f"CASE WHEN {is_rare} THEN 'share.extend.end' ELSE 'share.create.end' END",
            "resource_type": "'share'",
            "resource_id": w.id("share"),
            "project_id": w.project(),
            "payload": w.pairs(),
            "created_at": w.ago(f"({w.shares // 10} - n) * {WEEK_S * 10 / w.shares}"),
        },
    )


def _counted(w: Words) -> Iterator[Rows]:
    """What each scope has in use, and what lives in each pool, by what is there."""
    joined = "shares JOIN share_instances ON share_instances.share_id = shares.id"
    # at most one snapshot a share
    with_snapshots = f"{joined} LEFT JOIN snapshots ON snapshots.share_id = shares.id"
    for scope in ("'project'", "'user:' || shares.user_id", "'type:' || share_type_id"):
        used = {
            "project_id": "shares.project_id",
            "scope": scope,
            "shares": "count(*)",
            "gigabytes": "sum(shares.size)",
            "snapshots": "count(snapshots.id)",
            "snapshot_gigabytes": "coalesce(sum(snapshots.size), 0)",
        }
        yield Rows("quota_usages", 0, used, source=with_snapshots, where="true GROUP BY 1, 2")
    yield Rows("attachment_counts", 0, {"id": w.id("counts", "1"), "number": "count(*)"}, source="attachments")
    yield Rows(
        "pools",
        0,
        {
            "host": "host",
            "service_host": w.said.service("host"),
            "name": "'pool' || substr(host, length(host))",
            "total_gib": "1000000000.0",
            "free_gib": "1000000000.0",
            "provisioned_gib": "sum(size)",
            "capabilities": w.json("'{}'"),
            "created_at": w.ago(str(YEAR_S)),
            "updated_at": w.ago("0"),
        },
        source=joined,
        where="true GROUP BY host",
    )
