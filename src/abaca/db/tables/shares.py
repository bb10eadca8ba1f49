# SPDX-License-Identifier: Apache-2.0
"""Shares, their instances, where these can be mounted from, and who may reach them."""

from __future__ import annotations

import sqlalchemy as sa

from abaca.db.tables.columns import (
    ID,
    KEY,
    NAME,
    TIME,
    TRIGRAMS,
    an_id,
    beside,
    indexes_of_the_few,
    known_together,
    metadata,
    partial_index,
    postgresql_index,
    retired_state,
    state,
    times,
)
from abaca.domain.shares import snapshots as snapshot_rules
from abaca.domain.shares.access_rules import ACCESS_RULE
from abaca.domain.shares.shares import REPLICA, RULES_STATUS, SHARE_INSTANCE, TASK, status_rank

shares = sa.Table(
    "shares",
    metadata,
    an_id(),
    sa.Column("project_id", KEY, nullable=False),
    sa.Column("user_id", KEY),
    sa.Column("name", NAME),
    sa.Column("description", NAME),
    sa.Column("size", sa.Integer, nullable=False),
    sa.Column("share_proto", sa.String(32), nullable=False),
    sa.Column("is_public", sa.Boolean, nullable=False, default=False),
    sa.Column("metadata", sa.JSON, nullable=False),
    sa.Column("snapshot_id", ID),
    sa.Column("share_group_id", ID),
    sa.Column("source_share_group_snapshot_member_id", ID),
    sa.Column("source_backup_id", ID),
    state("task_state", TASK, 64, nullable=True),
    sa.Column("replication_type", sa.String(32)),
    sa.Column("snapshot_support", sa.Boolean, nullable=False, default=False),
    sa.Column("create_share_from_snapshot_support", sa.Boolean, nullable=False, default=False),
    sa.Column("revert_to_snapshot_support", sa.Boolean, nullable=False, default=False),
    sa.Column("mount_snapshot_support", sa.Boolean, nullable=False, default=False),
    sa.Column("snapshot_inherit_share_access_support", sa.Boolean, nullable=False, default=False),
    sa.Column("mount_point_name", NAME),
    sa.Column("encryption_key_ref", ID),
    sa.Column("is_soft_deleted", sa.Boolean, nullable=False, default=False),
    sa.Column("scheduled_to_be_deleted_at", TIME),
    *times(),
    sa.Index("ix_shares_project_id_created_at_id", "project_id", "created_at", "id"),
    sa.Index("ix_shares_is_public_created_at_id", "is_public", "created_at", "id"),
    sa.Index("ix_shares_project_id_name_created_at_id", "project_id", "name", "created_at", "id"),
    sa.Index("ix_shares_name_created_at_id", "name", "created_at", "id"),
    sa.Index("ix_shares_user_id_created_at_id", "user_id", "created_at", "id"),
    sa.Index("ix_shares_share_proto_created_at_id", "share_proto", "created_at", "id"),
    sa.Index("ix_shares_project_id_size_id", "project_id", "size", "id"),
    sa.Index("ix_shares_size_id", "size", "id"),
    sa.Index("ix_shares_project_id_updated_at_id", "project_id", "updated_at", "id"),
    sa.Index("ix_shares_updated_at_id", "updated_at", "id"),
)
indexes_of_the_few(shares, "description", "snapshot_id", "share_group_id", "encryption_key_ref", "mount_point_name")
# the recycle bin
IS_SOFT_DELETED = shares.c.is_soft_deleted.is_(True)
partial_index("ix_shares_is_soft_deleted", IS_SOFT_DELETED, shares.c.project_id, shares.c.created_at, shares.c.id)
postgresql_index(shares, "metadata", "USING gin (CAST(metadata AS jsonb) jsonb_path_ops)")
for _name in ("name", "description"):
    postgresql_index(shares, f"{_name}_trigrams", f"USING gin (lower({_name}) {TRIGRAMS})")
known_together(shares, "project_id", "description")

# An index in one order over all projects is a trap for PostgreSQL: it walks that for a page of one project, whose
# shares may be at its far end. So this one can be used only where a statement says that it means all projects.
OF_ANY_PROJECT = shares.c.project_id > sa.literal_column("''")
partial_index("ix_shares_created_at_id", OF_ANY_PROJECT, shares.c.created_at, shares.c.id)

# The recycle bin holds few of them, and each minute it is looked for those whose time is over.
IN_RECYCLE_BIN = shares.c.is_soft_deleted.is_(sa.true())
partial_index("ix_shares_scheduled_to_be_deleted_at", IN_RECYCLE_BIN, shares.c.scheduled_to_be_deleted_at)

share_instances = sa.Table(
    "share_instances",
    metadata,
    an_id(),
    sa.Column("share_id", ID, sa.ForeignKey("shares.id"), nullable=False),
    state("status", SHARE_INSTANCE, 64),
    # of a share's instances the one with the lowest rank speaks for it
    beside("status_rank", ("status", "replica_state"), status_rank),
    state("access_rules_status", RULES_STATUS),
    sa.Column("host", KEY),
    sa.Column("availability_zone", NAME),
    sa.Column("share_type_id", ID, sa.ForeignKey("share_types.id")),
    sa.Column("share_network_id", ID),
    sa.Column("share_server_id", ID),
    state("replica_state", REPLICA, nullable=True),
    sa.Column("cast_rules_to_readonly", sa.Boolean, nullable=False, default=False),
    sa.Column("progress", sa.String(8)),
    *times(),
    sa.Index("ix_share_instances_share_id_status_rank_id", "share_id", "status_rank", "id"),
    sa.Index("ix_share_instances_host_id", "host", "id"),
    sa.Index("ix_share_instances_status_id", "status", "id"),
    sa.Index("ix_share_instances_updated_at", "updated_at"),
    sa.Index("ix_share_instances_share_type_id", "share_type_id"),
    sa.Index("ix_share_instances_share_network_id", "share_network_id"),
    sa.Index("ix_share_instances_availability_zone", "availability_zone"),
    sa.Index("ix_share_instances_created_at_id", "created_at", "id"),
)
indexes_of_the_few(share_instances, "share_server_id")

# What drivers want kept for a resource, under names of their own; a resource of which nothing is kept has no row.
driver_data = sa.Table(
    "driver_data",
    metadata,
    sa.Column("resource_id", ID, primary_key=True),
    sa.Column("data", sa.JSON, nullable=False),
    sa.Column("updated_at", TIME, nullable=False),
)

export_locations = sa.Table(
    "export_locations",
    metadata,
    an_id(),
    sa.Column("share_instance_id", ID, sa.ForeignKey("share_instances.id", ondelete="CASCADE"), nullable=False),
    sa.Column("path", sa.String(2000), nullable=False),
    sa.Column("is_admin_only", sa.Boolean, nullable=False, default=False),
    sa.Column("preferred", sa.Boolean, nullable=False, default=False),
    # whether somebody has said by hand what `preferred` is: then the back end does not
    sa.Column("preferred_by_hand", sa.Boolean, nullable=False, default=False),
    sa.Column("metadata", sa.JSON, nullable=False),
    *times(),
    sa.Index("ix_export_locations_share_instance_id", "share_instance_id"),
    sa.Index("ix_export_locations_path", "path"),
)

# Where a share could be mounted from, and from when to when; it outlives the share. `since` and `until` are times,
# `begun_by` and `ended_by` operations, which are forgotten sooner than this.
export_location_history = sa.Table(
    "export_location_history",
    metadata,
    an_id(),
    sa.Column("export_location_id", ID, nullable=False),
    sa.Column("share_id", ID, nullable=False),
    sa.Column("share_instance_id", ID, nullable=False),
    sa.Column("project_id", KEY, nullable=False),
    sa.Column("path", sa.String(2000), nullable=False),
    sa.Column("is_admin_only", sa.Boolean, nullable=False),
    sa.Column("preferred", sa.Boolean, nullable=False),
    sa.Column("since", TIME, nullable=False),
    sa.Column("until", TIME),
    sa.Column("begun_by", ID),
    sa.Column("begun_by_kind", sa.String(64)),
    sa.Column("ended_by", ID),
    sa.Column("ended_by_kind", sa.String(64)),
    sa.Index("ix_export_location_history_share_id_since_id", "share_id", "since", "id"),
    sa.Index("ix_export_location_history_export_location_id", "export_location_id"),
    sa.Index("ix_export_location_history_share_instance_id", "share_instance_id"),
)
# only of those that have ended: most go on, and the index would lead to all of them
ENDED_LOCATION = export_location_history.c.until.is_not(None)
partial_index("ix_export_location_history_until", ENDED_LOCATION, export_location_history.c.until)

# A rule belongs to the share; what has become of it says the table below. One that `is_denied` goes when no instance
# has it any more. `access_to` is what a user wrote and sees again, `client` the one form of it by which rules are
# compared and drivers are told; the release before, whose rules have none, wrote that form as `access_to`.
access_rules = sa.Table(
    "access_rules",
    metadata,
    an_id(),
    sa.Column("share_id", ID, sa.ForeignKey("shares.id", ondelete="CASCADE"), nullable=False),
    sa.Column("access_type", sa.String(16), nullable=False),
    sa.Column("access_to", NAME, nullable=False),
    sa.Column("access_level", sa.String(2), nullable=False),
    sa.Column("access_key", NAME),
    retired_state("state"),
    # `attachments` where Abaca made it for those, and takes it away with the last that needs it; users' own have none
    sa.Column("made_for", sa.String(32)),
    sa.Column("metadata", sa.JSON, nullable=False),
    *times(),
    sa.Column("is_denied", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("client", NAME),
    sa.UniqueConstraint("share_id", "access_type", "access_to"),
    sa.Index("ix_access_rules_share_id_access_type_client", "share_id", "access_type", "client", unique=True),
)

# What the back end of each instance has made of each rule of its share. A row goes when it has dropped the rule.
instance_access_rules = sa.Table(
    "instance_access_rules",
    metadata,
    sa.Column("access_rule_id", ID, sa.ForeignKey("access_rules.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("share_instance_id", ID, sa.ForeignKey("share_instances.id", ondelete="CASCADE"), primary_key=True),
    state("state", ACCESS_RULE),
    *times(),
    sa.Index("ix_instance_access_rules_share_instance_id", "share_instance_id"),
)

# What is on its way is little among very much, and is looked for each minute.
RULES_SYNCING = share_instances.c.access_rules_status == sa.literal_column("'syncing'")
partial_index("ix_share_instances_access_rules_status", RULES_SYNCING, share_instances.c.access_rules_status)
RULE_NOT_ACTIVE = instance_access_rules.c.state != sa.literal_column("'active'")
partial_index("ix_instance_access_rules_state", RULE_NOT_ACTIVE, instance_access_rules.c.state)

# `size` and `share_size` are what its share had when it was taken, in GiB.
snapshots = sa.Table(
    "snapshots",
    metadata,
    an_id(),
    sa.Column("share_id", ID, sa.ForeignKey("shares.id"), nullable=False),
    sa.Column("project_id", KEY, nullable=False),
    sa.Column("user_id", KEY),
    sa.Column("name", NAME),
    sa.Column("description", NAME),
    sa.Column("size", sa.Integer, nullable=False),
    sa.Column("share_size", sa.Integer, nullable=False),
    sa.Column("share_proto", sa.String(32), nullable=False),
    sa.Column("metadata", sa.JSON, nullable=False),
    *times(),
    sa.Index("ix_snapshots_share_id_created_at_id", "share_id", "created_at", "id"),
    sa.Index("ix_snapshots_project_id_created_at_id", "project_id", "created_at", "id"),
    sa.Index("ix_snapshots_project_id_name_created_at_id", "project_id", "name", "created_at", "id"),
    sa.Index("ix_snapshots_name_created_at_id", "name", "created_at", "id"),
    sa.Index("ix_snapshots_project_id_size_created_at_id", "project_id", "size", "created_at", "id"),
    sa.Index("ix_snapshots_size_created_at_id", "size", "created_at", "id"),
    sa.Index("ix_snapshots_project_id_updated_at_id", "project_id", "updated_at", "id"),
    sa.Index("ix_snapshots_updated_at_id", "updated_at", "id"),
)
indexes_of_the_few(snapshots, "description")
postgresql_index(snapshots, "metadata", "USING gin (CAST(metadata AS jsonb) jsonb_path_ops)")
for _name in ("name", "description"):
    postgresql_index(snapshots, f"{_name}_trigrams", f"USING gin (lower({_name}) {TRIGRAMS})")
SNAPSHOT_OF_ANY_PROJECT = snapshots.c.project_id > sa.literal_column("''")
partial_index("ix_snapshots_created_at_id", SNAPSHOT_OF_ANY_PROJECT, snapshots.c.created_at, snapshots.c.id)

# Shares that their projects have offered to whoever has the key, of which only a hash is known.
share_transfers = sa.Table(
    "share_transfers",
    metadata,
    an_id(),
    sa.Column("project_id", KEY, nullable=False),
    sa.Column("user_id", KEY, nullable=False),
    sa.Column("share_id", ID, sa.ForeignKey("shares.id", ondelete="CASCADE"), nullable=False),
    sa.Column("name", NAME),
    sa.Column("salt", sa.String(32), nullable=False),
    sa.Column("key_hash", sa.String(64), nullable=False),
    sa.Column("expires_at", TIME, nullable=False),
    *times(),
    sa.Index("ix_share_transfers_share_id", "share_id", unique=True),
    sa.Index("ix_share_transfers_project_id_created_at_id", "project_id", "created_at", "id"),
    sa.Index("ix_share_transfers_expires_at", "expires_at"),
)
TRANSFER_OF_ANY_PROJECT = share_transfers.c.project_id > sa.literal_column("''")
partial_index(
    "ix_share_transfers_created_at_id", TRANSFER_OF_ANY_PROJECT, share_transfers.c.created_at, share_transfers.c.id
)

snapshot_instances = sa.Table(
    "snapshot_instances",
    metadata,
    an_id(),
    sa.Column("snapshot_id", ID, sa.ForeignKey("snapshots.id"), nullable=False),
    sa.Column("share_instance_id", ID, sa.ForeignKey("share_instances.id"), nullable=False),
    state("status", snapshot_rules.SNAPSHOT_INSTANCE, 64),
    # of a snapshot's instances the one with the lowest rank speaks for it
    beside("status_rank", ("status",), snapshot_rules.status_rank),
    sa.Column("progress", sa.String(8)),
    sa.Column("provider_location", sa.String(255)),
    *times(),
    sa.Index("ix_snapshot_instances_snapshot_id_status_rank_id", "snapshot_id", "status_rank", "id"),
    sa.Index("ix_snapshot_instances_share_instance_id", "share_instance_id"),
    sa.Index("ix_snapshot_instances_status_id", "status", "id"),
    sa.Index("ix_snapshot_instances_created_at_id", "created_at", "id"),
)

# Where a snapshot can be mounted from.
snapshot_export_locations = sa.Table(
    "snapshot_export_locations",
    metadata,
    an_id(),
    sa.Column(
        "snapshot_instance_id",
        ID,
        sa.ForeignKey("snapshot_instances.id", name="fk_snapshot_export_locations_instance", ondelete="CASCADE"),
        nullable=False,
    ),
    sa.Column("path", sa.String(2000), nullable=False),
    sa.Column("is_admin_only", sa.Boolean, nullable=False, default=False),
    sa.Column("preferred", sa.Boolean, nullable=False, default=False),
    *times(),
    sa.Index("ix_snapshot_export_locations_snapshot_instance_id", "snapshot_instance_id"),
)

# A rule belongs to the snapshot and lets its client read. One that `is_denied` goes when the back end has dropped it.
snapshot_access_rules = sa.Table(
    "snapshot_access_rules",
    metadata,
    an_id(),
    sa.Column("snapshot_id", ID, sa.ForeignKey("snapshots.id", ondelete="CASCADE"), nullable=False),
    sa.Column("access_type", sa.String(16), nullable=False),
    sa.Column("access_to", NAME, nullable=False),
    sa.Column("client", NAME, nullable=False),
    sa.Column("is_denied", sa.Boolean, nullable=False, default=False),
    state("state", ACCESS_RULE),
    *times(),
    sa.UniqueConstraint("snapshot_id", "access_type", "client"),
)
SNAPSHOT_RULE_NOT_ACTIVE = snapshot_access_rules.c.state != sa.literal_column("'active'")
partial_index("ix_snapshot_access_rules_state", SNAPSHOT_RULE_NOT_ACTIVE, snapshot_access_rules.c.state)
