# SPDX-License-Identifier: Apache-2.0
"""What back ends hold beside shares, compared with what the database says: snapshots and share servers."""

import sqlalchemy as sa

from abaca.db.journal import operations as rows
from abaca.db.tables.networks import network_allocations, share_servers
from abaca.db.tables.shares import (
    access_rules,
    instance_access_rules,
    share_instances,
    shares,
    snapshot_access_rules,
    snapshot_instances,
    snapshots,
)
from abaca.domain.networks.share_servers import SHARE_SERVER
from abaca.domain.shares.access_rules import PENDING
from abaca.domain.shares.snapshots import SNAPSHOT_INSTANCE
from tests.operations import server_takeover


def snapshots_wrong(tx, drivers):
    """Snapshots that are under way without anybody, and where back ends hold others than the database says."""
    t = snapshot_instances.c
    inherits = shares.c.snapshot_inherit_share_access_support.label("inherits")
    query = sa.select(t.id, t.status, t.snapshot_id, t.share_instance_id, snapshots.c.size, inherits)
    joined = query.join(snapshots, snapshots.c.id == t.snapshot_id).join(shares, shares.c.id == snapshots.c.share_id)
    known = {row.id: row for row in tx.rows(joined)}
    held = {key: entry for one in drivers for key, entry in one.contents().get("snapshot", {}).items()}
    found = [
        f"stuck: snapshot {row.id} is {row.status}" for row in known.values() if row.status in SNAPSHOT_INSTANCE.busy
    ]
    found += [f"leaked: snapshot {key} on its back end" for key in held.keys() - known.keys()]
    r = snapshot_access_rules.c
    found += [
        f"stuck: snapshot rule {row.id} is {row.state}" for row in tx.rows(sa.select(r).where(r.state.in_(PENDING)))
    ]
    for key, row in known.items():
        entry = held.get(key)
        if row.status == "available" and entry:
            rules = tx.rows(rules_of(row))
            let_in = {to for _, to, _ in entry["rules"]}
            active = {rule.client for rule in rules if rule.state == "active"}
            unsure = {rule.client for rule in rules if rule.state == "error"}
            if not active <= let_in <= active | unsure:
                found.append(f"snapshot {key} shall let in {sorted(active)}, its back end lets in {sorted(let_in)}")
        if row.status == "error" and entry:
            found.append(f"snapshot {key} is in error, but its back end holds it")
        if row.status == "available" and (entry or {}).get("instance_id") != row.share_instance_id:
            found.append(f"snapshot {key} is available, but its back end has {entry}")
        if row.status == "available" and entry and entry["size_gib"] != row.size:
            found.append(f"snapshot {key} has {row.size} GiB, its back end says {entry['size_gib']}")
    return found


def rules_of(row):
    """What says who can mount a snapshot: its own rules, or those of its share."""
    if not row.inherits:
        r = snapshot_access_rules.c
        return sa.select(r.client, r.state).where(r.snapshot_id == row.snapshot_id)
    on = instance_access_rules.c
    of_share = sa.select(access_rules.c.client, on.state).join(access_rules, access_rules.c.id == on.access_rule_id)
    return of_share.where(on.share_instance_id == row.share_instance_id)


# A share server that was left in error by one of these is as it was before, or half gone.
CHANGES_OF_SERVERS = (
    "share-server-delete",
    "share-server-add-subnet",
    "share-server-join",
    "share-server-manage",
    "share-server-mend",
    "share-server-remove-subnet",
    "share-server-unmanage",
)


def share_servers_wrong(tx, drivers):
    """Share servers that are not so, and addresses that no share server has which serves."""
    known = {row.id: row for row in tx.rows(sa.select(share_servers))}
    held = {key: entry for one in drivers for key, entry in one.contents().get("server", {}).items()}
    has = [(row.share_server_id, row.ip_address) for row in tx.rows(sa.select(network_allocations))]
    has = [(server_id, address) for server_id, address in has if server_id is not None]
    found = server_takeover.addresses_wrong(tx, drivers)
    found += [
        f"stuck: share server {row.id} is {row.status}" for row in known.values() if row.status in SHARE_SERVER.busy
    ]
    serving = {row.id for row in known.values() if row.status == "active"}
    # the next deletion finds out
    t = rows.t
    failed = sa.select(t.c.resource_id).where(t.c.kind.in_(CHANGES_OF_SERVERS), t.c.state == "failed")
    unsure = {row.resource_id for row in tx.rows(failed)}
    found += [f"leaked: {address} of share server {one}" for one, address in has if one not in serving | unsure]
    found += [f"leaked: share server {one} on its back end" for one in held.keys() - serving - unsure]
    for one in sorted(serving):
        own = sorted(address for server_id, address in has if server_id == one)
        if sorted(held.get(one, {}).get("addresses", [])) != own:
            found.append(f"share server {one} has {own}, its back end says {held.get(one)}")
    used = {row.share_server_id for row in tx.rows(sa.select(share_instances))}
    found += [
        f"share server {row.id} does not say since when it is unused, or is used and says so"
        for row in known.values()
        if (row.id in used) is (row.unused_since is not None)
    ]
    return found
