# SPDX-License-Identifier: Apache-2.0
"""A database that is filled in a minute is as one that was used for a year: nothing in it needs mending."""

import datetime

import pytest
import sqlalchemy as sa

from abaca.db import tables
from abaca.db.administration import pools
from abaca.db.attachments import attachment_counts, attachments, orphaned_mounts
from abaca.db.catalog import quotas
from abaca.db.clusters import clusters
from abaca.db.engine.lists import Page
from abaca.db.networks import share_servers
from abaca.db.shares import instance_access_rules, share_instances, share_transfers, shares
from abaca.domain.shares.shares import Share
from benchmarks import population

# What grows with the shares; what operators and failures add besides is not there.
FILLED = {
    "access_rules", "attachment_counts", "attachments", "availability_zones", "cluster_node_groups", "cluster_nodes",
    "cluster_templates", "clusters", "events", "export_location_history", "export_locations", "instance_access_rules",
    "messages", "network_allocations", "operation_findings", "operation_keys", "operations", "orphaned_mounts",
    "pools", "quota_usages", "resource_locks", "security_services", "server_addresses", "servers", "share_instances",
    "share_network_security_services", "share_network_subnets", "share_networks", "share_server_subnets",
    "share_servers", "share_transfers", "share_types", "shares", "snapshot_instances", "snapshots",
}  # fmt: skip


@pytest.fixture
def db(database):
    population.fill(database.url, 1000)
    return database.open()


def test_a_year_is_whole_and_nothing_in_it_needs_mending(db):
    with db.read() as tx:
        there = {
            table.name: tx.scalar(sa.select(sa.func.count()).select_from(table))
            for table in tables.metadata.sorted_tables
        }
        assert {name for name, number in there.items() if number} == FILLED
        assert (quotas.differences(tx), pools.differences(tx)) == ([], [])
        assert attachment_counts.difference(tx) is None
        if db.is_sqlite:
            assert tx.connection.exec_driver_sql("PRAGMA foreign_key_check").all() == []
        for host in (f"{population.HOST}@{name}" for name in population.BACKENDS):
            assert share_instances.count_on_backend(tx, host) > 0
            assert (
                share_instances.busy_without_operation(tx, host),
                share_instances.rules_without_operation(tx, host),
            ) == ([], [])
            assert shares.expired(tx, host, 1) == []
            assert (share_servers.busy_without_operation(tx, host, 1), share_servers.unused(tx, host, tx.now, 1)) == (
                [],
                [],
            )
        assert instance_access_rules.failed(tx, "", 1) == []
        assert (share_transfers.expired(tx, 1), orphaned_mounts.due(tx, 1)) == ([], [])
        assert (clusters.due(tx, 1), clusters.unexplained(tx, 1), clusters.to_look_at(tx, tx.now, 1)) == ([], [], [])
        hour = tx.now - datetime.timedelta(hours=1)
        assert (attachments.unexplained(tx, 1), attachments.due(tx, 1)) == ([], [])
        ids = {row.share_id for row in tx.rows(sa.select(tables.metadata.tables["attachments"].c.share_id))}
        assert attachments.moved(tx, ids) == []
        assert (attachments.unverified(tx, hour, 1), attachments.inactive(tx, "", 1)) == ([], [])


def test_what_is_rare_is_so_at_every_size_behind_all_others(db):
    with db.read() as tx:
        of_large = {"project_id": population.LARGE, "is_soft_deleted": False}
        for asked in (
            {"status": "error"},
            {"host": population.RARE_HOST},
            {"user_id": population.RARE},
            {"metadata": {"rare": "yes"}},
            {"extra_specs": {"rare": "yes"}},
            {"share_type_id": population.RARE_TYPE},
            {"name_like": "rare"},
        ):
            found = shares.SHARES.entities(tx, Share, {**of_large, **asked})
            assert len(found) == population.RARE_SHARES, asked
        oldest = shares.SHARES.rows(tx, ("id",), of_large, Page(population.RARE_SHARES, descending=False))
        assert {row.id for row in oldest} == {one.id for one in found}


def test_only_whole_units_are_filled(database):
    with pytest.raises(ValueError, match="multiple of 1000"):
        population.fill(database.url, 1001)
