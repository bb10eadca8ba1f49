# SPDX-License-Identifier: Apache-2.0
"""What operators run: services, pools, messages, locks, events."""

from __future__ import annotations

import sqlalchemy as sa

from abaca.db.tables.columns import ID, KEY, NAME, TIME, an_id, metadata, partial_index, times

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
    *times(),
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
    *times(),
)

# What keeps a share or a rule from being deleted, or a rule from being seen. A row for a rule names its share too, so
# that it goes with either; one that a lock on a rule puts on the share (`because_of`) goes with that one. `resource_id`
# is one of the two ids: what users call it by.
resource_locks = sa.Table(
    "resource_locks",
    metadata,
    an_id(),
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
    *times(),
    sa.Index("ix_resource_locks_project_id_created_at_id", "project_id", "created_at", "id"),
    sa.Index("ix_resource_locks_resource_id", "resource_id"),
    sa.Index("ix_resource_locks_share_id", "share_id"),
    sa.Index("ix_resource_locks_access_rule_id", "access_rule_id"),
    sa.Index("ix_resource_locks_because_of", "because_of"),
    sa.Index("ix_resource_locks_user_id_created_at_id", "user_id", "created_at", "id"),
    sa.Index("ix_resource_locks_lock_context_created_at_id", "lock_context", "created_at", "id"),
    sa.Index("ix_resource_locks_resource_type_created_at_id", "resource_type", "created_at", "id"),
    sa.Index("ix_resource_locks_resource_action_created_at_id", "resource_action", "created_at", "id"),
)
LOCK_OF_ANY_PROJECT = resource_locks.c.project_id > sa.literal_column("''")
partial_index("ix_resource_locks_created_at_id", LOCK_OF_ANY_PROJECT, resource_locks.c.created_at, resource_locks.c.id)

messages = sa.Table(
    "messages",
    metadata,
    an_id(),
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
    sa.Index("ix_messages_request_id_created_at_id", "request_id", "created_at", "id"),
    sa.Index("ix_messages_resource_type_created_at_id", "resource_type", "created_at", "id"),
    sa.Index("ix_messages_action_id_created_at_id", "action_id", "created_at", "id"),
    sa.Index("ix_messages_detail_id_created_at_id", "detail_id", "created_at", "id"),
    sa.Index("ix_messages_message_level_created_at_id", "message_level", "created_at", "id"),
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
    sa.Index("ix_events_event_type_seq", "event_type", "seq"),
    sa.Index("ix_events_resource_type_seq", "resource_type", "seq"),
    sa.Index("ix_events_project_id_seq", "project_id", "seq"),
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
