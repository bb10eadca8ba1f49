# SPDX-License-Identifier: Apache-2.0
"""A database with very many rows of everything that grows, written by a handful of statements.

Nine of ten shares are the many small projects', one of ten is the project LARGE's. Nearly all rows are alike (COMMON);
four of each kind, all of them LARGE's, are not (RARE).
"""

import sqlalchemy as sa

from abaca.db import tables
from abaca.db.engine import schema
from tests.db.words import COMMON, NONE, RARE
from tests.db.words import Words as _Words
from tests.db.words import either as _either
from tests.db.words import project as _project

TYPES = {kind: f"{kind:x<8}-0000-4000-8000-000000000000" for kind in (COMMON, RARE, NONE)}


def _pairs(words, number):
    return words.rare(f"""'{{"k": "{RARE}"}}'""", f"""'{{"k": "{COMMON}"}}'""", number)


def _shares(words, n):
    either, none_or_rare = _either(words, n), words.rare(f"'{RARE}'", "NULL", n)
    pairs = _pairs(words, n)
    rare_flag = words.rare(words.true, words.false, n, 10 if n > 100 else 0)
    flags = (
        "snapshot_support", "create_share_from_snapshot_support", "revert_to_snapshot_support",
        "mount_snapshot_support", "snapshot_inherit_share_access_support",
    )  # fmt: skip
    return {
        "id": words.id(),
        "project_id": _project(),
        "user_id": either,
        "name": words.rare("'an Unusual name'", f"CASE WHEN i % 3 = 0 THEN '{COMMON}' ELSE 'name ' || i END", n),
        "description": words.rare(
            "'an Unusual text'", f"CASE WHEN i % 3 = 0 THEN '{COMMON}' WHEN i % 3 = 1 THEN 'of ' || i END", n
        ),
        "size": "1 + i % 97",
        "share_proto": words.rare("'CIFS'", "'NFS'", n),
        "is_public": words.rare(words.true, words.false, n, 20 if n > 100 else 0),
        "metadata": pairs,
        "snapshot_id": none_or_rare,
        "share_group_id": none_or_rare,
        "encryption_key_ref": none_or_rare,
        "mount_point_name": none_or_rare,
        "is_soft_deleted": rare_flag,
        "scheduled_to_be_deleted_at": f"CASE WHEN {rare_flag} THEN {words.time(str(n))} END",
        "created_at": words.time(),
        "updated_at": f"CASE WHEN i % 2 = 0 THEN {words.time('i + 7')} END",
        **dict.fromkeys(flags, words.false),
    }


def _instances(words, n):
    none_or_rare = words.rare(f"'{RARE}'", "NULL", n)
    return {
        "id": words.id(),
        "share_id": words.id(),
        "status": words.rare("'error'", "'available'", n),
        "status_rank": "1",
        "access_rules_status": "'active'",
        "host": words.rare(f"'h@{RARE}#p'", f"'h@{COMMON}#p' || i % 3", n),
        "availability_zone": words.rare(f"'{RARE}'", f"'{COMMON}'", n),
        "share_type_id": words.rare(f"'{TYPES[RARE]}'", f"'{TYPES[COMMON]}'", n),
        "share_network_id": none_or_rare,
        "share_server_id": none_or_rare,
        "cast_rules_to_readonly": words.false,
        "created_at": words.time(),
    }


def _locations(words, n):
    return {
        "id": words.id(),
        "share_instance_id": words.id(),
        "path": "'host:/path/' || i",
        "is_admin_only": words.false,
        "preferred": words.false,
        "preferred_by_hand": words.false,
        "metadata": "'{}'",
        "created_at": words.time(),
    }


def _history(words, n):
    """All of the shares' locations, and of the first share very many."""
    return {
        "id": words.id(),
        "export_location_id": words.id(),
        "share_id": f"CASE WHEN i % 4 = 0 THEN {words.id('0')} ELSE {words.id()} END",
        "share_instance_id": words.id(),
        "project_id": _project(),
        "path": "'host:/path/' || i",
        "is_admin_only": words.rare(words.true, words.false, n),
        "preferred": words.false,
        "since": words.time(),
        "until": f"CASE WHEN i % 4 = 0 THEN {words.time('i + 1')} END",
    }


def _operations(words, n):
    return {
        "id": words.id(),
        "kind": words.rare("'share-extend'", "'share-create'", n),
        "queue": words.rare(f"'h@{RARE}'", f"'h@{COMMON}'", n),
        "home": words.rare(f"'h@{RARE}'", f"'h@{COMMON}'", n),
        "keys": "'[]'",
        "state": words.rare("'running'", "'done'", n),
        "step": "0",
        "direction": "'do'",
        "attempt": "0",
        "not_before": "0",
        "signals": "0",
        "token": "0",
        "args": "'{}'",
        "data": "'{}'",
        "progress_done": "0",
        "progress_total": "0",
        "parent_id": words.rare(words.id("0"), "NULL", n),
        "children": "0",
        "joins_each": words.false,
        "cancel": words.false,
        "pause": words.false,
        "project_id": _project(),
        "resource_type": words.rare("'backend'", "'share'", n),
        "resource_id": words.id(),
        "created_at": words.time(),
        "updated_at": words.time("i + 5"),
        "finished_at": words.rare("NULL", words.time("i + 5"), n),
    }


def _findings(words, n):
    """All of one operation."""
    return {
        "id": words.id(),
        "operation_id": words.id("0"),
        "kind": words.rare("'failed'", "'skipped'", n),
        "share_id": words.id(),
        "share_instance_id": words.id(),
        "why": "'why'",
        "created_at": words.time(),
    }


def _messages(words, n):
    return {
        "id": words.id(),
        "project_id": _project(),
        "request_id": words.rare(f"'{RARE}'", "'req-' || i", n),
        "resource_type": words.rare("'SERVER'", "'SHARE'", n),
        "resource_id": words.id(),
        "action_id": words.rare("'002'", "'001'", n),
        "detail_id": words.rare("'002'", "'001'", n),
        "message_level": words.rare("'WARNING'", "'ERROR'", n),
        "created_at": words.time(),
    }


def _locks(words, n):
    return {
        "id": words.id(),
        "project_id": _project(),
        "user_id": _either(words, n),
        "lock_context": words.rare("'admin'", "'user'", n),
        "share_id": words.id(),
        "resource_type": words.rare("'access_rule'", "'share'", n),
        "resource_id": words.id(),
        "resource_action": words.rare("'show'", "'delete'", n),
        "lock_reason": words.rare(f"'a {RARE} one'", f"'a {COMMON} one'", n),
        "created_at": words.time(),
        "updated_at": f"CASE WHEN i % 2 = 0 THEN {words.time('i + 7')} END",
    }


def _servers(words, n):
    return {
        "id": words.id(),
        "project_id": _project(),
        "user_id": _either(words, n),
        "name": "'server' || i",
        "status": words.rare("'SHUTOFF'", "'ACTIVE'", n),
        "availability_zone": words.rare(f"'{RARE}'", f"'{COMMON}'", n),
        "metadata": "'{}'",
        "ssh_port": "22",
        "ssh_user": "'root'",
        "created_at": words.time(),
        "updated_at": f"CASE WHEN i % 2 = 0 THEN {words.time('i + 7')} END",
    }


def _addresses(words, n):
    return {
        "server_id": words.id(),
        "ip": "'10.' || i / 65536 % 256 || '.' || i / 256 % 256 || '.' || i % 256",
        "network": "'net'",
        "place": "0",
    }


def _attachments(words, n):
    """On each server two, and on the first one very many."""
    server = f"CASE WHEN i % 4 = 0 THEN {words.id('0')} ELSE {words.id('i / 2')} END"
    return {
        "id": words.id(),
        "share_id": words.id(),
        "server_id": server,
        "project_id": _project(),
        "user_id": _either(words, n),
        "mode": words.rare("'virtiofs'", "'nfs'", n),
        "mount_point": "'/mnt/' || i",
        "tag": "'tag' || i",
        "access_level": "'rw'",
        "state": words.rare("'error'", "'active'", n),
        "wanted": "'attached'",
        "is_forced": words.false,
        "addresses": "'[]'",
        "made_directory": words.false,
        "attempts": "0",
        "created_at": words.time(),
        "updated_at": f"CASE WHEN i % 2 = 0 THEN {words.time('i + 7')} END",
    }


def _orphans(words, n):
    return {
        "id": words.id(),
        "server_id": words.rare(f"'{RARE}'", "'server' || i", n),
        "machine_id": words.rare(f"'{RARE}'", f"'{COMMON}'", n),
        "mode": "'nfs'",
        "tag": "'tag' || i",
        "mount_point": "'/mnt/' || i",
        "protocol": "'nfs'",
        "source": "'host:/path/' || i",
        "attempts": "0",
        "retry_at": words.time(),
        "created_at": words.time(),
    }


def _cluster_templates(words, n):
    return {
        "id": words.id(),
        "project_id": _project(),
        "kind": "'cluster'",
        "name": "'template' || i",
        "is_protected": words.false,
        "content": "'{}'",
        "created_at": words.time(),
    }


def _clusters(words, n):
    return {
        "id": words.id(),
        "project_id": _project(),
        "user_id": _either(words, n),
        "name": "'cluster' || i",
        "status": words.rare("'error'", "'active'", n),
        "wanted": "'present'",
        "shares": "'[]'",
        "tolerance": "0",
        "is_protected": words.false,
        "is_forced": words.false,
        "looked_at": words.rare(words.time(), "NULL", n),
        "attempts": "0",
        "created_at": words.time(),
    }


def _node_groups(words, n):
    return {
        "id": words.id(),
        "cluster_id": words.id(),
        "name": "'nodes'",
        "shares": "'[]'",
        "selector": "'{}'",
        "is_leaving": words.false,
        "created_at": words.time(),
    }


def _nodes(words, n):
    """One of each cluster, and of the first one very many."""
    cluster = f"CASE WHEN i % 4 = 0 THEN {words.id('0')} ELSE {words.id()} END"
    return {
        "id": words.id(),
        "cluster_id": cluster,
        "node_group_id": cluster,
        "server_id": words.id(),
        "is_leaving": words.false,
        "refusals": "'{}'",
        "created_at": words.time(),
    }


def _events(words, n):
    return {
        "id": words.id(),
        "event_type": words.rare("'share.extend.end'", "'share.create.end'", n),
        "resource_type": words.rare("'server'", "'share'", n),
        "resource_id": words.id(),
        "project_id": _project(),
        "payload": "'{}'",
        "created_at": words.time(),
    }


def _networks(words, n):
    return {
        "id": words.id(),
        "project_id": _project(),
        "name": _either(words, n),
        "description": _either(words, n),
        "status": "'active'",
        "created_at": words.time(),
    }


def _subnets(words, n):
    return {
        "id": words.id(),
        "share_network_id": words.id(),
        "neutron_net_id": words.rare(f"'{RARE}'", "'net' || i", n),
        "neutron_subnet_id": words.rare(f"'{RARE}'", "'subnet' || i", n),
        "network_type": words.rare("'vlan'", "'vxlan'", n),
        "segmentation_id": words.rare("7", "9", n),
        "cidr": words.rare("'10.7.0.0/24'", "'10.9.0.0/24'", n),
        "ip_version": words.rare("6", "4", n),
        "metadata": "'{}'",
        "created_at": words.time(),
    }


def _security_services(words, n):
    said = dict.fromkeys(("name", '"user"', "server", "dns_ip", "domain"), _either(words, n))
    kind = words.rare("'kerberos'", "'ldap'", n)
    return {"id": words.id(), "project_id": _project(), "type": kind, **said, "created_at": words.time()}


def _security_services_of_networks(words, n):
    return {"share_network_id": words.id(), "type": "'ldap'", "security_service_id": words.id(),
            "created_at": words.time()}  # fmt: skip


def _snapshots(words, n):
    """Of each second share one, and of the first share very many."""
    return {
        "id": words.id(),
        "share_id": f"CASE WHEN i % 4 = 0 THEN {words.id('0')} ELSE {words.id()} END",
        "project_id": _project(),
        "user_id": _either(words, n),
        "name": words.rare("'an Unusual name'", f"CASE WHEN i % 3 = 0 THEN '{COMMON}' ELSE 'name ' || i END", n),
        "description": words.rare("'an Unusual text'", f"CASE WHEN i % 3 = 0 THEN '{COMMON}' END", n),
        "size": words.rare("7", "9", n),
        "share_size": "9",
        "share_proto": "'NFS'",
        "metadata": _pairs(words, n),
        "created_at": words.time(),
        "updated_at": f"CASE WHEN i % 2 = 0 THEN {words.time('i + 7')} END",
    }


def _share_transfers(words, n):
    return {
        **dict.fromkeys(("id", "share_id"), words.id()),
        "project_id": _project(),
        "user_id": _either(words, n),
        "name": words.rare("'an Unusual name'", f"CASE WHEN i % 3 = 0 THEN '{COMMON}' ELSE 'name ' || i END", n),
        **dict.fromkeys(("salt", "key_hash"), "'hash'"),
        **dict.fromkeys(("expires_at", "created_at"), words.time()),
    }


def _snapshot_instances(words, n):
    return {
        "id": words.id(),
        "snapshot_id": words.id(),
        "share_instance_id": words.id(),
        "status": words.rare("'error'", "'available'", n),
        "status_rank": "5",
        "created_at": words.time(),
    }


def _share_servers(words, n):
    return {
        "id": words.id(),
        "project_id": _project(),
        "share_network_id": words.id("(i - i % 4)"),
        "host": words.rare(f"'h@{RARE}'", f"'h@{COMMON}'", n),
        "status": words.rare("'error'", "'active'", n),
        "identifier": words.rare(f"'{RARE}'", words.id(), n),
        "is_auto_deletable": words.true,
        "details": "'{}'",
        "security_service_update_support": words.false,
        "network_allocation_update_support": words.false,
        "share_server_multiple_subnet_support": words.false,
        "created_at": words.time(),
    }


def _subnets_of_share_servers(words, n):
    return {"share_server_id": words.id(), "share_network_subnet_id": words.id("(i - i % 4)")}


# In the order of their foreign keys, each with how many rows it has to a share.
GROWING = {
    "shares": (_shares, 1),
    "share_instances": (_instances, 1),
    "export_locations": (_locations, 1),
    "export_location_history": (_history, 1),
    "snapshots": (_snapshots, 0.5),
    "share_transfers": (_share_transfers, 0.5),
    "snapshot_instances": (_snapshot_instances, 0.5),
    "operations": (_operations, 1),
    "operation_findings": (_findings, 0.5),
    "messages": (_messages, 0.5),
    "resource_locks": (_locks, 0.5),
    "servers": (_servers, 0.5),
    "server_addresses": (_addresses, 0.5),
    "attachments": (_attachments, 0.5),
    "orphaned_mounts": (_orphans, 0.5),
    "clusters": (_clusters, 0.5),
    "cluster_templates": (_cluster_templates, 0.5),
    "cluster_node_groups": (_node_groups, 0.5),
    "cluster_nodes": (_nodes, 0.5),
    "events": (_events, 0.5),
    "share_networks": (_networks, 0.5),
    "share_network_subnets": (_subnets, 0.5),
    "security_services": (_security_services, 0.5),
    "share_network_security_services": (_security_services_of_networks, 0.5),
    "share_servers": (_share_servers, 0.5),
    "share_server_subnets": (_subnets_of_share_servers, 0.5),
}


def fill(url, number):
    """So many shares, and what belongs to them, in an empty database; then PostgreSQL's planner is told."""
    engine = schema.migration_engine(sa.make_url(url))
    with engine.connect() as connection, connection.begin():
        words = _Words(connection.dialect.name, number)
        for kind, type_id in TYPES.items():
            of_type = f"""'{type_id}', '{kind}', {words.true}, {words.json(kind)}, {words.time("0")}"""
            into = "share_types (id, name, is_public, extra_specs, created_at)"
            words.run(connection, f"INSERT INTO {into} SELECT {of_type}")
        # a revision of before has not all of them
        there = {*sa.inspect(connection).get_table_names()}
        for table, (columns, part) in GROWING.items():
            if table not in there:
                continue
            rows = int(number * part)
            values = columns(words, rows)
            for column in tables.metadata.tables[table].columns:
                if isinstance(column.type, sa.JSON) and words.is_postgresql and column.name in values:
                    values[column.name] = f"CAST({values[column.name]} AS json)"
            insert = f"INSERT INTO {table} ({', '.join(values)}) SELECT {', '.join(values.values())} "
            words.run(connection, f"{insert} FROM {words.numbers(rows)}")
    engine.dispose()
    if words.is_postgresql:
        # nobody tells SQLite where it is at work
        outside = schema.migration_engine(sa.make_url(url)).execution_options(isolation_level="AUTOCOMMIT")
        with outside.connect() as connection:
            # one that freezes waits for pages that are being written; others leave these as not seen by all
            connection.exec_driver_sql("VACUUM (FREEZE, ANALYZE)")
        outside.dispose()
