# SPDX-License-Identifier: Apache-2.0
"""Every table. Portable types only: the same chain of migrations builds SQLite, PostgreSQL and, later, MariaDB.

Rows are deleted for real when the thing is gone: history is in `operations`. Times are naive UTC with microseconds.
"""

from __future__ import annotations

import sqlalchemy as sa

from abaca.db.tables import columns, server_tables
from abaca.db.tables.columns import ID, KEY, NAME, TIME
from abaca.db.tables.columns import an_id as _id
from abaca.db.tables.columns import times as _times

metadata = columns.metadata

servers = server_tables.servers
server_addresses = server_tables.server_addresses
attachments = server_tables.attachments
left_mounts = server_tables.left_mounts

availability_zones = sa.Table(
    "availability_zones",
    metadata,
    _id(),
    sa.Column("name", NAME, nullable=False, unique=True),
    *_times(),
)

# One row per worker back end. `state` is computed from `heartbeat_at` and `stopped` when it is read, never stored.
services = sa.Table(
    "services",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("binary", NAME, nullable=False),
    sa.Column("host", KEY, nullable=False),
    sa.Column("availability_zone", NAME, nullable=False),
    sa.Column("disabled", sa.Boolean, nullable=False, default=False),
    sa.Column("disabled_reason", NAME),
    sa.Column("ensuring", sa.Boolean, nullable=False, default=False),
    sa.Column("stopped", sa.Boolean, nullable=False, default=False),
    sa.Column("heartbeat_at", TIME, nullable=False),
    sa.Column("backend_info", sa.String(64)),
    sa.Column("problem", sa.Text),
    *_times(),
    sa.UniqueConstraint("binary", "host"),
)

# `host` is host@backend#pool. Sizes in GiB. `provisioned_gib` is the sum of the sizes of the pool's instances, kept by
# the transactions that add, resize and remove them; the rest is what the driver reported at `updated_at`.
pools = sa.Table(
    "pools",
    metadata,
    sa.Column("host", KEY, primary_key=True),
    sa.Column("service_host", KEY, nullable=False, index=True),
    sa.Column("name", NAME, nullable=False),
    sa.Column("total_gib", sa.Float),
    sa.Column("free_gib", sa.Float),
    # what creates have taken since the driver last reported `free_gib`
    sa.Column("claimed_gib", sa.BigInteger, nullable=False, default=0),
    sa.Column("provisioned_gib", sa.BigInteger, nullable=False, default=0),
    sa.Column("capabilities", sa.JSON, nullable=False),
    *_times(),
)

share_types = sa.Table(
    "share_types",
    metadata,
    _id(),
    sa.Column("name", NAME, nullable=False, unique=True),
    sa.Column("description", NAME),
    sa.Column("is_public", sa.Boolean, nullable=False, default=True),
    sa.Column("extra_specs", sa.JSON, nullable=False),
    *_times(),
)

share_type_projects = sa.Table(
    "share_type_projects",
    metadata,
    sa.Column("share_type_id", ID, sa.ForeignKey("share_types.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("project_id", KEY, primary_key=True),
    sa.Column("created_at", TIME, nullable=False),
)

shares = sa.Table(
    "shares",
    metadata,
    _id(),
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
    sa.Column("task_state", sa.String(64)),
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
    *_times(),
    sa.Index("ix_shares_project_id_created_at_id", "project_id", "created_at", "id"),
    sa.Index("ix_shares_is_public_created_at_id", "is_public", "created_at", "id"),
    sa.Index("ix_shares_project_id_name", "project_id", "name"),
)

# An index in one order over all projects is a trap for PostgreSQL: it walks that for a page of one project, whose
# shares may be at its far end. So this one can be used only where a statement says that it means all projects.
OF_ANY_PROJECT = shares.c.project_id > sa.literal_column("''")
_PARTIAL = [
    (sa.Index("ix_shares_created_at_id", shares.c.created_at, shares.c.id, sqlite_where=OF_ANY_PROJECT), OF_ANY_PROJECT)
]


@sa.event.listens_for(metadata, "before_create")
def _limit_them_there_too(_metadata: sa.MetaData, connection: sa.Connection, **_: object) -> None:
    """Said here, because to say it above would load PostgreSQL's dialect in processes that run on SQLite."""
    if connection.dialect.name == "postgresql":
        for index, where in _PARTIAL:
            index.dialect_options["postgresql"]["where"] = where


share_instances = sa.Table(
    "share_instances",
    metadata,
    _id(),
    sa.Column("share_id", ID, sa.ForeignKey("shares.id"), nullable=False),
    sa.Column("status", sa.String(64), nullable=False),
    # domain.shares.status_rank of the status: of a share's instances the one with the lowest rank speaks for it
    sa.Column("status_rank", sa.SmallInteger, nullable=False),
    sa.Column("access_rules_status", sa.String(32), nullable=False, default="active"),
    sa.Column("host", KEY),
    sa.Column("availability_zone", NAME),
    sa.Column("share_type_id", ID, sa.ForeignKey("share_types.id")),
    sa.Column("share_network_id", ID),
    sa.Column("share_server_id", ID),
    sa.Column("replica_state", sa.String(32)),
    sa.Column("cast_rules_to_readonly", sa.Boolean, nullable=False, default=False),
    sa.Column("progress", sa.String(8)),
    *_times(),
    sa.Index("ix_share_instances_share_id_status_rank_id", "share_id", "status_rank", "id"),
    sa.Index("ix_share_instances_host_id", "host", "id"),
    sa.Index("ix_share_instances_status", "status"),
    sa.Index("ix_share_instances_share_type_id", "share_type_id"),
)

export_locations = sa.Table(
    "export_locations",
    metadata,
    _id(),
    sa.Column("share_instance_id", ID, sa.ForeignKey("share_instances.id", ondelete="CASCADE"), nullable=False),
    sa.Column("path", sa.String(2000), nullable=False),
    sa.Column("is_admin_only", sa.Boolean, nullable=False, default=False),
    sa.Column("preferred", sa.Boolean, nullable=False, default=False),
    # whether somebody has said by hand what `preferred` is: then the back end does not
    sa.Column("preferred_by_hand", sa.Boolean, nullable=False, default=False),
    sa.Column("metadata", sa.JSON, nullable=False),
    *_times(),
    sa.Index("ix_export_locations_share_instance_id", "share_instance_id"),
    sa.Index("ix_export_locations_path", "path"),
)

# Where a share could be mounted from, and from when to when; it outlives the share. `since` and `until` are times,
# `begun_by` and `ended_by` operations, which are forgotten sooner than this.
export_location_history = sa.Table(
    "export_location_history",
    metadata,
    _id(),
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
_PARTIAL.append(
    (
        sa.Index("ix_export_location_history_until", export_location_history.c.until, sqlite_where=ENDED_LOCATION),
        ENDED_LOCATION,
    )
)

# A rule belongs to the share; `state` is what the back ends have made of it.
access_rules = sa.Table(
    "access_rules",
    metadata,
    _id(),
    sa.Column("share_id", ID, sa.ForeignKey("shares.id", ondelete="CASCADE"), nullable=False),
    sa.Column("access_type", sa.String(16), nullable=False),
    sa.Column("access_to", NAME, nullable=False),
    sa.Column("access_level", sa.String(2), nullable=False),
    sa.Column("access_key", NAME),
    sa.Column("state", sa.String(32), nullable=False),
    # `attachments` where Abaca made it for those, and takes it away with the last that needs it; users' own have none
    sa.Column("made_for", sa.String(32)),
    sa.Column("metadata", sa.JSON, nullable=False),
    *_times(),
    sa.UniqueConstraint("share_id", "access_type", "access_to"),
)

# What keeps a share or a rule from being deleted, or a rule from being seen. A row for a rule names its share too, so
# that it goes with either; one that a lock on a rule puts on the share (`because_of`) goes with that one. `resource_id`
# is one of the two ids: what users call it by.
resource_locks = sa.Table(
    "resource_locks",
    metadata,
    _id(),
    sa.Column("project_id", KEY, nullable=False),
    sa.Column("user_id", KEY, nullable=False),
    sa.Column("lock_context", sa.String(16), nullable=False),
    sa.Column("share_id", ID, sa.ForeignKey("shares.id", ondelete="CASCADE"), nullable=False),
    sa.Column("access_rule_id", ID, sa.ForeignKey("access_rules.id", ondelete="CASCADE")),
    sa.Column("resource_type", sa.String(16), nullable=False),
    sa.Column("resource_id", ID, nullable=False),
    sa.Column("resource_action", sa.String(16), nullable=False),
    sa.Column("lock_reason", sa.String(1023)),
    sa.Column("because_of", ID, sa.ForeignKey("resource_locks.id", ondelete="CASCADE")),
    *_times(),
    sa.Index("ix_resource_locks_project_id_created_at_id", "project_id", "created_at", "id"),
    sa.Index("ix_resource_locks_resource_id", "resource_id"),
    sa.Index("ix_resource_locks_share_id", "share_id"),
    sa.Index("ix_resource_locks_access_rule_id", "access_rule_id"),
    sa.Index("ix_resource_locks_because_of", "because_of"),
)
LOCK_OF_ANY_PROJECT = resource_locks.c.project_id > sa.literal_column("''")

# What is on its way is little among very much, and is looked for each minute.
RULES_SYNCING = share_instances.c.access_rules_status == sa.literal_column("'syncing'")
RULE_NOT_ACTIVE = access_rules.c.state != sa.literal_column("'active'")
_PARTIAL += [
    (
        sa.Index(
            "ix_share_instances_access_rules_status", share_instances.c.access_rules_status, sqlite_where=RULES_SYNCING
        ),
        RULES_SYNCING,
    ),
    (sa.Index("ix_access_rules_state", access_rules.c.state, sqlite_where=RULE_NOT_ACTIVE), RULE_NOT_ACTIVE),
    (
        sa.Index(
            "ix_resource_locks_created_at_id",
            resource_locks.c.created_at,
            resource_locks.c.id,
            sqlite_where=LOCK_OF_ANY_PROJECT,
        ),
        LOCK_OF_ANY_PROJECT,
    ),
]

# `scope` says whose: a project, `user:<id>` or `type:<id>` in it. One row holds all counters, so one UPDATE counts.
quota_usages = sa.Table(
    "quota_usages",
    metadata,
    sa.Column("project_id", KEY, primary_key=True),
    sa.Column("scope", KEY, primary_key=True),
    sa.Column("shares", sa.Integer, nullable=False, default=0),
    sa.Column("gigabytes", sa.BigInteger, nullable=False, default=0),
    sa.Column("snapshots", sa.Integer, nullable=False, default=0),
    sa.Column("snapshot_gigabytes", sa.BigInteger, nullable=False, default=0),
    sa.Column("share_networks", sa.Integer, nullable=False, default=0),
    sa.Column("share_groups", sa.Integer, nullable=False, default=0),
    sa.Column("share_group_snapshots", sa.Integer, nullable=False, default=0),
    sa.Column("share_replicas", sa.Integer, nullable=False, default=0),
    sa.Column("replica_gigabytes", sa.BigInteger, nullable=False, default=0),
    sa.Column("backups", sa.Integer, nullable=False, default=0),
    sa.Column("backup_gigabytes", sa.BigInteger, nullable=False, default=0),
    sa.Column("encryption_keys", sa.Integer, nullable=False, default=0),
)

# Limits set by an operator. `project_id` is empty for a quota class, then `scope` is `class:<name>`.
quotas = sa.Table(
    "quotas",
    metadata,
    sa.Column("project_id", KEY, primary_key=True),
    sa.Column("scope", KEY, primary_key=True),
    sa.Column("resource", sa.String(64), primary_key=True),
    sa.Column("hard_limit", sa.BigInteger, nullable=False),
    sa.Column("updated_at", TIME, nullable=False),
)

messages = sa.Table(
    "messages",
    metadata,
    _id(),
    sa.Column("project_id", KEY, nullable=False),
    sa.Column("request_id", NAME),
    sa.Column("resource_type", sa.String(64)),
    sa.Column("resource_id", ID),
    sa.Column("action_id", sa.String(3), nullable=False),
    sa.Column("detail_id", sa.String(3), nullable=False),
    sa.Column("message_level", sa.String(16), nullable=False),
    # what happened in this case, beyond the fixed text of the detail
    sa.Column("reason", sa.Text),
    sa.Column("created_at", TIME, nullable=False),
    sa.Index("ix_messages_project_id_created_at_id", "project_id", "created_at", "id"),
    sa.Index("ix_messages_resource_id", "resource_id"),
    sa.Index("ix_messages_created_at_id", "created_at", "id"),
)

# The journal (journal/journal.py). `running_key` and `coalesce_key` are unique where set: one running operation
# a key, one queued operation a coalescing key. Times are seconds since the epoch by the database's clock.
operations = sa.Table(
    "operations",
    metadata,
    sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("id", ID, nullable=False, unique=True),
    sa.Column("kind", sa.String(64), nullable=False),
    sa.Column("queue", KEY, nullable=False),
    sa.Column("key", KEY, nullable=False),
    sa.Column("running_key", KEY, unique=True),
    sa.Column("coalesce_key", KEY, unique=True),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("step", sa.Integer, nullable=False, default=0),
    sa.Column("direction", sa.String(8), nullable=False, default="do"),
    sa.Column("attempt", sa.Integer, nullable=False, default=0),
    sa.Column("not_before", sa.Float, nullable=False, default=0),
    sa.Column("owner", KEY),
    sa.Column("token", sa.Integer, nullable=False, default=0),
    sa.Column("lease_until", sa.Float),
    sa.Column("args", sa.JSON, nullable=False),
    sa.Column("data", sa.JSON, nullable=False),
    sa.Column("progress_done", sa.Integer, nullable=False, default=0),
    sa.Column("progress_total", sa.Integer, nullable=False, default=0),
    sa.Column("cancel", sa.Boolean, nullable=False, default=False),
    sa.Column("pause", sa.Boolean, nullable=False, default=False),
    sa.Column("error_code", sa.String(64)),
    sa.Column("error_text", sa.Text),
    sa.Column("request_id", NAME),
    sa.Column("project_id", KEY),
    sa.Column("user_id", KEY),
    sa.Column("resource_type", sa.String(64), nullable=False),
    sa.Column("resource_id", ID, nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.Column("updated_at", TIME, nullable=False),
    sa.Column("finished_at", TIME),
    sa.Index("ix_operations_state_queue_seq", "state", "queue", "seq"),
    sa.Index("ix_operations_key_state_seq", "key", "state", "seq"),
    sa.Index("ix_operations_state_lease_until", "state", "lease_until"),
    sa.Index("ix_operations_resource_id", "resource_id"),
    sa.Index("ix_operations_project_id_seq", "project_id", "seq"),
    sa.Index("ix_operations_state_finished_at", "state", "finished_at"),
)

# What happened, for those whom an operator wants to be told (db/administration). `seq` is the order of writing.
events = sa.Table(
    "events",
    metadata,
    sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("id", ID, nullable=False, unique=True),
    sa.Column("event_type", sa.String(64), nullable=False),
    sa.Column("resource_type", sa.String(64), nullable=False),
    sa.Column("resource_id", ID, nullable=False),
    sa.Column("project_id", KEY),
    sa.Column("user_id", KEY),
    sa.Column("request_id", NAME),
    sa.Column("payload", sa.JSON, nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.Index("ix_events_created_at", "created_at"),
    sa.Index("ix_events_resource_id_seq", "resource_id", "seq"),
)

# What a target does not have yet. A row goes when it has it. Times in seconds as in the journal.
event_deliveries = sa.Table(
    "event_deliveries",
    metadata,
    sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("target", KEY, nullable=False),
    sa.Column("event_id", ID, sa.ForeignKey("events.id", ondelete="CASCADE"), nullable=False),
    sa.Column("resource_id", ID, nullable=False),
    sa.Column("not_before", sa.Float, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("error", sa.Text),
    sa.Column("created_at", TIME, nullable=False),
    sa.Index("ix_event_deliveries_target_seq", "target", "seq"),
    sa.Index("ix_event_deliveries_target_resource_id_seq", "target", "resource_id", "seq"),
    sa.Index("ix_event_deliveries_target_not_before", "target", "not_before"),
    sa.Index("ix_event_deliveries_event_id", "event_id"),
)

# One row a target: who serves it, and since when it cannot be reached.
event_targets = sa.Table(
    "event_targets",
    metadata,
    sa.Column("name", KEY, primary_key=True),
    sa.Column("owner", KEY),
    sa.Column("lease_until", sa.Float, nullable=False),
    sa.Column("not_before", sa.Float, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("error", sa.Text),
    sa.Column("failing_since", TIME),
    sa.Column("delivered", sa.BigInteger, nullable=False),
    sa.Column("delivered_at", TIME),
    sa.Column("dropped", sa.BigInteger, nullable=False),
    sa.Column("created_at", TIME, nullable=False),
)

# What an operation that goes through many things found of those that need saying; forgotten with it.
operation_findings = sa.Table(
    "operation_findings",
    metadata,
    _id(),
    sa.Column("operation_id", ID, sa.ForeignKey("operations.id", ondelete="CASCADE"), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("share_id", ID, nullable=False),
    sa.Column("share_instance_id", ID, nullable=False),
    sa.Column("why", sa.Text, nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.Index("ix_operation_findings_operation_id_created_at_id", "operation_id", "created_at", "id"),
)


def _expect_large_projects(table: sa.Table) -> None:
    """PostgreSQL plans a page once for all projects: as if each had all rows, it goes by their order.

    Otherwise it would think it cheaper to sort all of an average project's, which for a large one it is not.
    """
    told = f"ALTER TABLE {table.name} ALTER COLUMN project_id SET (n_distinct = 1)"
    sa.event.listen(table, "after_create", sa.DDL(told).execute_if(dialect="postgresql"))  # type: ignore[no-untyped-call]


for _table in metadata.sorted_tables:
    if any(index.name == f"ix_{_table.name}_project_id_created_at_id" for index in _table.indexes):
        _expect_large_projects(_table)
