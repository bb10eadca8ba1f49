# SPDX-License-Identifier: Apache-2.0
"""The first schema, as it was released. It never changes: a change of a table is a revision of its own."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_SEQUENCE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _text(length: int) -> sa.String:
    """What only programs read: PostgreSQL compares it byte by byte."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def _where(condition: str) -> dict[str, Any]:
    """The condition of a partial index, on each database."""
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def upgrade() -> None:
    op.create_table(
        "availability_zones",
        sa.Column("id", _text(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_availability_zones"),
        sa.UniqueConstraint("name", name="uq_availability_zones_name"),
    )
    op.create_table(
        "event_targets",
        sa.Column("name", _text(255), nullable=False),
        sa.Column("owner", _text(255), nullable=True),
        sa.Column("lease_until", sa.Float(), nullable=False),
        sa.Column("not_before", sa.Float(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("failing_since", sa.DateTime(), nullable=True),
        sa.Column("delivered", sa.BigInteger(), nullable=False),
        sa.Column("delivered_at", sa.DateTime(), nullable=True),
        sa.Column("dropped", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_event_targets"),
    )
    op.create_table(
        "events",
        sa.Column("seq", _SEQUENCE, nullable=False, autoincrement=True),
        sa.Column("id", _text(36), nullable=False),
        sa.Column("event_type", sa.String(64), nullable=False),
        sa.Column("resource_type", sa.String(64), nullable=False),
        sa.Column("resource_id", _text(36), nullable=False),
        sa.Column("project_id", _text(255), nullable=True),
        sa.Column("user_id", _text(255), nullable=True),
        sa.Column("request_id", sa.String(255), nullable=True),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_events"),
        sa.UniqueConstraint("id", name="uq_events_id"),
    )
    op.create_index("ix_events_created_at", "events", ["created_at"])
    op.create_index("ix_events_resource_id_seq", "events", ["resource_id", "seq"])
    op.create_table(
        "export_location_history",
        sa.Column("id", _text(36), nullable=False),
        sa.Column("export_location_id", _text(36), nullable=False),
        sa.Column("share_id", _text(36), nullable=False),
        sa.Column("share_instance_id", _text(36), nullable=False),
        sa.Column("project_id", _text(255), nullable=False),
        sa.Column("path", sa.String(2000), nullable=False),
        sa.Column("is_admin_only", sa.Boolean(), nullable=False),
        sa.Column("preferred", sa.Boolean(), nullable=False),
        sa.Column("since", sa.DateTime(), nullable=False),
        sa.Column("until", sa.DateTime(), nullable=True),
        sa.Column("begun_by", _text(36), nullable=True),
        sa.Column("begun_by_kind", sa.String(64), nullable=True),
        sa.Column("ended_by", _text(36), nullable=True),
        sa.Column("ended_by_kind", sa.String(64), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_export_location_history"),
    )
    op.create_index("ix_export_location_history_export_location_id", "export_location_history", ["export_location_id"])
    op.create_index(
        "ix_export_location_history_share_id_since_id", "export_location_history", ["share_id", "since", "id"]
    )
    op.create_index("ix_export_location_history_share_instance_id", "export_location_history", ["share_instance_id"])
    op.create_index(
        "ix_export_location_history_until", "export_location_history", ["until"], **_where("until IS NOT NULL")
    )
    op.create_table(
        "left_mounts",
        sa.Column("id", _text(36), nullable=False),
        sa.Column("server_id", _text(255), nullable=False),
        sa.Column("machine_id", _text(255), nullable=False),
        sa.Column("qmp_socket", _text(107), nullable=True),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("tag", _text(255), nullable=False),
        sa.Column("mount_point", _text(255), nullable=False),
        sa.Column("protocol", sa.String(16), nullable=False),
        sa.Column("source", sa.String(2000), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("retry_at", sa.DateTime(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_left_mounts"),
    )
    op.create_index("ix_left_mounts_retry_at", "left_mounts", ["retry_at"])
    op.create_index("ix_left_mounts_server_id", "left_mounts", ["server_id"])
    op.create_table(
        "messages",
        sa.Column("id", _text(36), nullable=False),
        sa.Column("project_id", _text(255), nullable=False),
        sa.Column("request_id", sa.String(255), nullable=True),
        sa.Column("resource_type", sa.String(64), nullable=True),
        sa.Column("resource_id", _text(36), nullable=True),
        sa.Column("action_id", sa.String(3), nullable=False),
        sa.Column("detail_id", sa.String(3), nullable=False),
        sa.Column("message_level", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_messages"),
    )
    op.create_index("ix_messages_created_at_id", "messages", ["created_at", "id"])
    op.create_index("ix_messages_project_id_created_at_id", "messages", ["project_id", "created_at", "id"])
    op.create_index("ix_messages_resource_id", "messages", ["resource_id"])
    op.create_table(
        "operations",
        sa.Column("seq", _SEQUENCE, nullable=False, autoincrement=True),
        sa.Column("id", _text(36), nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("queue", _text(255), nullable=False),
        sa.Column("key", _text(255), nullable=False),
        sa.Column("running_key", _text(255), nullable=True),
        sa.Column("coalesce_key", _text(255), nullable=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("direction", sa.String(8), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("not_before", sa.Float(), nullable=False),
        sa.Column("owner", _text(255), nullable=True),
        sa.Column("token", sa.Integer(), nullable=False),
        sa.Column("lease_until", sa.Float(), nullable=True),
        sa.Column("args", sa.JSON(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("progress_done", sa.Integer(), nullable=False),
        sa.Column("progress_total", sa.Integer(), nullable=False),
        sa.Column("cancel", sa.Boolean(), nullable=False),
        sa.Column("pause", sa.Boolean(), nullable=False),
        sa.Column("error_code", sa.String(64), nullable=True),
        sa.Column("error_text", sa.Text(), nullable=True),
        sa.Column("request_id", sa.String(255), nullable=True),
        sa.Column("project_id", _text(255), nullable=True),
        sa.Column("user_id", _text(255), nullable=True),
        sa.Column("resource_type", sa.String(64), nullable=False),
        sa.Column("resource_id", _text(36), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("finished_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("seq", name="pk_operations"),
        sa.UniqueConstraint("id", name="uq_operations_id"),
        sa.UniqueConstraint("running_key", name="uq_operations_running_key"),
        sa.UniqueConstraint("coalesce_key", name="uq_operations_coalesce_key"),
    )
    op.create_index("ix_operations_key_state_seq", "operations", ["key", "state", "seq"])
    op.create_index("ix_operations_project_id_seq", "operations", ["project_id", "seq"])
    op.create_index("ix_operations_resource_id", "operations", ["resource_id"])
    op.create_index("ix_operations_state_finished_at", "operations", ["state", "finished_at"])
    op.create_index("ix_operations_state_lease_until", "operations", ["state", "lease_until"])
    op.create_index("ix_operations_state_queue_seq", "operations", ["state", "queue", "seq"])
    op.create_table(
        "pools",
        sa.Column("host", _text(255), nullable=False),
        sa.Column("service_host", _text(255), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("total_gib", sa.Float(), nullable=True),
        sa.Column("free_gib", sa.Float(), nullable=True),
        sa.Column("claimed_gib", sa.BigInteger(), nullable=False),
        sa.Column("provisioned_gib", sa.BigInteger(), nullable=False),
        sa.Column("capabilities", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("host", name="pk_pools"),
    )
    op.create_index("ix_pools_service_host", "pools", ["service_host"])
    op.create_table(
        "quota_usages",
        sa.Column("project_id", _text(255), nullable=False),
        sa.Column("scope", _text(255), nullable=False),
        sa.Column("shares", sa.Integer(), nullable=False),
        sa.Column("gigabytes", sa.BigInteger(), nullable=False),
        sa.Column("snapshots", sa.Integer(), nullable=False),
        sa.Column("snapshot_gigabytes", sa.BigInteger(), nullable=False),
        sa.Column("share_networks", sa.Integer(), nullable=False),
        sa.Column("share_groups", sa.Integer(), nullable=False),
        sa.Column("share_group_snapshots", sa.Integer(), nullable=False),
        sa.Column("share_replicas", sa.Integer(), nullable=False),
        sa.Column("replica_gigabytes", sa.BigInteger(), nullable=False),
        sa.Column("backups", sa.Integer(), nullable=False),
        sa.Column("backup_gigabytes", sa.BigInteger(), nullable=False),
        sa.Column("encryption_keys", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "scope", name="pk_quota_usages"),
    )
    op.create_table(
        "quotas",
        sa.Column("project_id", _text(255), nullable=False),
        sa.Column("scope", _text(255), nullable=False),
        sa.Column("resource", sa.String(64), nullable=False),
        sa.Column("hard_limit", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "scope", "resource", name="pk_quotas"),
    )
    op.create_table(
        "servers",
        sa.Column("id", _text(36), nullable=False),
        sa.Column("project_id", _text(255), nullable=False),
        sa.Column("user_id", _text(255), nullable=True),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("description", sa.String(255), nullable=True),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("availability_zone", sa.String(255), nullable=True),
        sa.Column("metadata", sa.JSON(), nullable=False),
        sa.Column("ssh_host", sa.String(255), nullable=True),
        sa.Column("ssh_port", sa.Integer(), nullable=False),
        sa.Column("ssh_user", sa.String(255), nullable=False),
        sa.Column("host_key", sa.Text(), nullable=True),
        sa.Column("key", sa.String(1100), nullable=True),
        sa.Column("hypervisor_id", _text(36), nullable=True),
        sa.Column("qmp_socket", _text(107), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_servers"),
        sa.UniqueConstraint("project_id", "name", name="uq_servers_project_id_name"),
        sa.ForeignKeyConstraint(["hypervisor_id"], ["servers.id"], name="fk_servers_hypervisor_id_servers"),
    )
    op.create_index("ix_servers_created_at_id", "servers", ["created_at", "id"])
    op.create_index("ix_servers_hypervisor_id", "servers", ["hypervisor_id"])
    op.create_index("ix_servers_project_id_created_at_id", "servers", ["project_id", "created_at", "id"])
    op.create_table(
        "services",
        sa.Column("id", sa.Integer(), nullable=False, autoincrement=True),
        sa.Column("binary", sa.String(255), nullable=False),
        sa.Column("host", _text(255), nullable=False),
        sa.Column("availability_zone", sa.String(255), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("disabled_reason", sa.String(255), nullable=True),
        sa.Column("ensuring", sa.Boolean(), nullable=False),
        sa.Column("stopped", sa.Boolean(), nullable=False),
        sa.Column("heartbeat_at", sa.DateTime(), nullable=False),
        sa.Column("backend_info", sa.String(64), nullable=True),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_services"),
        sa.UniqueConstraint("binary", "host", name="uq_services_binary_host"),
    )
    op.create_table(
        "share_types",
        sa.Column("id", _text(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("description", sa.String(255), nullable=True),
        sa.Column("is_public", sa.Boolean(), nullable=False),
        sa.Column("extra_specs", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_share_types"),
        sa.UniqueConstraint("name", name="uq_share_types_name"),
    )
    op.create_table(
        "shares",
        sa.Column("id", _text(36), nullable=False),
        sa.Column("project_id", _text(255), nullable=False),
        sa.Column("user_id", _text(255), nullable=True),
        sa.Column("name", sa.String(255), nullable=True),
        sa.Column("description", sa.String(255), nullable=True),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("share_proto", sa.String(32), nullable=False),
        sa.Column("is_public", sa.Boolean(), nullable=False),
        sa.Column("metadata", sa.JSON(), nullable=False),
        sa.Column("snapshot_id", _text(36), nullable=True),
        sa.Column("share_group_id", _text(36), nullable=True),
        sa.Column("source_share_group_snapshot_member_id", _text(36), nullable=True),
        sa.Column("source_backup_id", _text(36), nullable=True),
        sa.Column("task_state", sa.String(64), nullable=True),
        sa.Column("replication_type", sa.String(32), nullable=True),
        sa.Column("snapshot_support", sa.Boolean(), nullable=False),
        sa.Column("create_share_from_snapshot_support", sa.Boolean(), nullable=False),
        sa.Column("revert_to_snapshot_support", sa.Boolean(), nullable=False),
        sa.Column("mount_snapshot_support", sa.Boolean(), nullable=False),
        sa.Column("snapshot_inherit_share_access_support", sa.Boolean(), nullable=False),
        sa.Column("mount_point_name", sa.String(255), nullable=True),
        sa.Column("encryption_key_ref", _text(36), nullable=True),
        sa.Column("is_soft_deleted", sa.Boolean(), nullable=False),
        sa.Column("scheduled_to_be_deleted_at", sa.DateTime(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_shares"),
    )
    op.create_index("ix_shares_created_at_id", "shares", ["created_at", "id"], **_where("project_id > ''"))
    op.create_index("ix_shares_is_public_created_at_id", "shares", ["is_public", "created_at", "id"])
    op.create_index("ix_shares_project_id_created_at_id", "shares", ["project_id", "created_at", "id"])
    op.create_index("ix_shares_project_id_name", "shares", ["project_id", "name"])
    op.create_table(
        "access_rules",
        sa.Column("id", _text(36), nullable=False),
        sa.Column("share_id", _text(36), nullable=False),
        sa.Column("access_type", sa.String(16), nullable=False),
        sa.Column("access_to", sa.String(255), nullable=False),
        sa.Column("access_level", sa.String(2), nullable=False),
        sa.Column("access_key", sa.String(255), nullable=True),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("made_for", sa.String(32), nullable=True),
        sa.Column("metadata", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_access_rules"),
        sa.UniqueConstraint(
            "share_id", "access_type", "access_to", name="uq_access_rules_share_id_access_type_access_to"
        ),
        sa.ForeignKeyConstraint(
            ["share_id"], ["shares.id"], name="fk_access_rules_share_id_shares", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_access_rules_state", "access_rules", ["state"], **_where("state != 'active'"))
    op.create_table(
        "attachments",
        sa.Column("id", _text(36), nullable=False),
        sa.Column("share_id", _text(36), nullable=False),
        sa.Column("server_id", _text(255), nullable=False),
        sa.Column("project_id", _text(255), nullable=False),
        sa.Column("user_id", _text(255), nullable=True),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("mount_point", _text(255), nullable=False),
        sa.Column("tag", _text(255), nullable=False),
        sa.Column("access_level", sa.String(2), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("wanted", sa.String(16), nullable=False),
        sa.Column("is_forced", sa.Boolean(), nullable=False),
        sa.Column("addresses", sa.JSON(), nullable=False),
        sa.Column("source", sa.String(2000), nullable=True),
        sa.Column("made_directory", sa.Boolean(), nullable=False),
        sa.Column("last_verified_at", sa.DateTime(), nullable=True),
        sa.Column("error_code", sa.String(64), nullable=True),
        sa.Column("error_text", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("retry_at", sa.DateTime(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_attachments"),
        sa.UniqueConstraint("share_id", "server_id", name="uq_attachments_share_id_server_id"),
        sa.UniqueConstraint("server_id", "mount_point", name="uq_attachments_server_id_mount_point"),
        sa.UniqueConstraint("server_id", "tag", name="uq_attachments_server_id_tag"),
        sa.ForeignKeyConstraint(["share_id"], ["shares.id"], name="fk_attachments_share_id_shares"),
    )
    op.create_index("ix_attachments_project_id_created_at_id", "attachments", ["project_id", "created_at", "id"])
    op.create_index("ix_attachments_state_last_verified_at", "attachments", ["state", "last_verified_at"])
    op.create_index("ix_attachments_state_retry_at", "attachments", ["state", "retry_at"])
    op.create_table(
        "event_deliveries",
        sa.Column("seq", _SEQUENCE, nullable=False, autoincrement=True),
        sa.Column("target", _text(255), nullable=False),
        sa.Column("event_id", _text(36), nullable=False),
        sa.Column("resource_id", _text(36), nullable=False),
        sa.Column("not_before", sa.Float(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_event_deliveries"),
        sa.ForeignKeyConstraint(
            ["event_id"], ["events.id"], name="fk_event_deliveries_event_id_events", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_event_deliveries_event_id", "event_deliveries", ["event_id"])
    op.create_index("ix_event_deliveries_target_not_before", "event_deliveries", ["target", "not_before"])
    op.create_index("ix_event_deliveries_target_resource_id_seq", "event_deliveries", ["target", "resource_id", "seq"])
    op.create_index("ix_event_deliveries_target_seq", "event_deliveries", ["target", "seq"])
    op.create_table(
        "operation_findings",
        sa.Column("id", _text(36), nullable=False),
        sa.Column("operation_id", _text(36), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("share_id", _text(36), nullable=False),
        sa.Column("share_instance_id", _text(36), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_operation_findings"),
        sa.ForeignKeyConstraint(
            ["operation_id"],
            ["operations.id"],
            name="fk_operation_findings_operation_id_operations",
            ondelete="CASCADE",
        ),
    )
    op.create_index(
        "ix_operation_findings_operation_id_created_at_id", "operation_findings", ["operation_id", "created_at", "id"]
    )
    op.create_table(
        "server_addresses",
        sa.Column("server_id", _text(36), nullable=False),
        sa.Column("ip", _text(45), nullable=False),
        sa.Column("network", sa.String(255), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("server_id", "ip", name="pk_server_addresses"),
        sa.ForeignKeyConstraint(
            ["server_id"], ["servers.id"], name="fk_server_addresses_server_id_servers", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_server_addresses_ip", "server_addresses", ["ip"])
    op.create_table(
        "share_instances",
        sa.Column("id", _text(36), nullable=False),
        sa.Column("share_id", _text(36), nullable=False),
        sa.Column("status", sa.String(64), nullable=False),
        sa.Column("status_rank", sa.SmallInteger(), nullable=False),
        sa.Column("access_rules_status", sa.String(32), nullable=False),
        sa.Column("host", _text(255), nullable=True),
        sa.Column("availability_zone", sa.String(255), nullable=True),
        sa.Column("share_type_id", _text(36), nullable=True),
        sa.Column("share_network_id", _text(36), nullable=True),
        sa.Column("share_server_id", _text(36), nullable=True),
        sa.Column("replica_state", sa.String(32), nullable=True),
        sa.Column("cast_rules_to_readonly", sa.Boolean(), nullable=False),
        sa.Column("progress", sa.String(8), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_share_instances"),
        sa.ForeignKeyConstraint(["share_id"], ["shares.id"], name="fk_share_instances_share_id_shares"),
        sa.ForeignKeyConstraint(
            ["share_type_id"], ["share_types.id"], name="fk_share_instances_share_type_id_share_types"
        ),
    )
    op.create_index(
        "ix_share_instances_access_rules_status",
        "share_instances",
        ["access_rules_status"],
        **_where("access_rules_status = 'syncing'"),
    )
    op.create_index("ix_share_instances_host_id", "share_instances", ["host", "id"])
    op.create_index("ix_share_instances_share_id_status_rank_id", "share_instances", ["share_id", "status_rank", "id"])
    op.create_index("ix_share_instances_share_type_id", "share_instances", ["share_type_id"])
    op.create_index("ix_share_instances_status", "share_instances", ["status"])
    op.create_table(
        "share_type_projects",
        sa.Column("share_type_id", _text(36), nullable=False),
        sa.Column("project_id", _text(255), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("share_type_id", "project_id", name="pk_share_type_projects"),
        sa.ForeignKeyConstraint(
            ["share_type_id"],
            ["share_types.id"],
            name="fk_share_type_projects_share_type_id_share_types",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "export_locations",
        sa.Column("id", _text(36), nullable=False),
        sa.Column("share_instance_id", _text(36), nullable=False),
        sa.Column("path", sa.String(2000), nullable=False),
        sa.Column("is_admin_only", sa.Boolean(), nullable=False),
        sa.Column("preferred", sa.Boolean(), nullable=False),
        sa.Column("preferred_by_hand", sa.Boolean(), nullable=False),
        sa.Column("metadata", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_export_locations"),
        sa.ForeignKeyConstraint(
            ["share_instance_id"],
            ["share_instances.id"],
            name="fk_export_locations_share_instance_id_share_instances",
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_export_locations_path", "export_locations", ["path"])
    op.create_index("ix_export_locations_share_instance_id", "export_locations", ["share_instance_id"])
    op.create_table(
        "resource_locks",
        sa.Column("id", _text(36), nullable=False),
        sa.Column("project_id", _text(255), nullable=False),
        sa.Column("user_id", _text(255), nullable=False),
        sa.Column("lock_context", sa.String(16), nullable=False),
        sa.Column("share_id", _text(36), nullable=False),
        sa.Column("access_rule_id", _text(36), nullable=True),
        sa.Column("resource_type", sa.String(16), nullable=False),
        sa.Column("resource_id", _text(36), nullable=False),
        sa.Column("resource_action", sa.String(16), nullable=False),
        sa.Column("lock_reason", sa.String(1023), nullable=True),
        sa.Column("because_of", _text(36), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_resource_locks"),
        sa.ForeignKeyConstraint(
            ["share_id"], ["shares.id"], name="fk_resource_locks_share_id_shares", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["access_rule_id"],
            ["access_rules.id"],
            name="fk_resource_locks_access_rule_id_access_rules",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["because_of"],
            ["resource_locks.id"],
            name="fk_resource_locks_because_of_resource_locks",
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_resource_locks_access_rule_id", "resource_locks", ["access_rule_id"])
    op.create_index("ix_resource_locks_because_of", "resource_locks", ["because_of"])
    op.create_index(
        "ix_resource_locks_created_at_id", "resource_locks", ["created_at", "id"], **_where("project_id > ''")
    )
    op.create_index("ix_resource_locks_project_id_created_at_id", "resource_locks", ["project_id", "created_at", "id"])
    op.create_index("ix_resource_locks_resource_id", "resource_locks", ["resource_id"])
    op.create_index("ix_resource_locks_share_id", "resource_locks", ["share_id"])
    if op.get_context().dialect.name == "postgresql":
        for table in ("messages", "servers", "shares", "attachments", "resource_locks"):
            # As if each project had all rows, so that a page of a large one goes by the index of its order.
            op.execute(f"ALTER TABLE {table} ALTER COLUMN project_id SET (n_distinct = 1)")


def downgrade() -> None:
    for table in (
        "resource_locks",
        "export_locations",
        "share_type_projects",
        "share_instances",
        "server_addresses",
        "operation_findings",
        "event_deliveries",
        "attachments",
        "access_rules",
        "shares",
        "share_types",
        "services",
        "servers",
        "quotas",
        "quota_usages",
        "pools",
        "operations",
        "messages",
        "left_mounts",
        "export_location_history",
        "events",
        "event_targets",
        "availability_zones",
    ):
        op.drop_table(table)
