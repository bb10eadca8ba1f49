# SPDX-License-Identifier: Apache-2.0
"""The journal of operations, and what these found."""

from __future__ import annotations

import sqlalchemy as sa

from abaca.db.tables.columns import ID, KEY, NAME, TIME, an_id, metadata

# The journal. `coalesce_key` is unique where set: one operation that nobody has begun for each. `queue` is where it is
# to be run next, `home` where it belongs. Children go before whatever came after `place`, their first ancestor's `seq`.
# Times are seconds since the epoch by the database's clock.
operations = sa.Table(
    "operations",
    metadata,
    sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("id", ID, nullable=False, unique=True),
    sa.Column("kind", sa.String(64), nullable=False),
    sa.Column("queue", KEY, nullable=False),
    sa.Column("home", KEY, nullable=False),
    sa.Column("keys", sa.JSON, nullable=False),
    sa.Column("coalesce_key", KEY, unique=True),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("step", sa.Integer, nullable=False, default=0),
    sa.Column("direction", sa.String(8), nullable=False, default="do"),
    sa.Column("attempt", sa.Integer, nullable=False, default=0),
    # of one that is `waiting`: when it looks again
    sa.Column("not_before", sa.Float, nullable=False, default=0),
    # what its step waits for (db/journal/waits.py), and how often somebody has said that something is so
    sa.Column("wait", sa.JSON),
    sa.Column("signals", sa.Integer, nullable=False, default=0),
    sa.Column("owner", KEY),
    sa.Column("token", sa.Integer, nullable=False, default=0),
    # the generation of its last claim, greater than that of every claim before (db/journal/claims.py)
    sa.Column("generation", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("lease_until", sa.Float),
    # since when its step takes longer than it may
    sa.Column("overdue_since", sa.Float),
    sa.Column("args", sa.JSON, nullable=False),
    sa.Column("data", sa.JSON, nullable=False),
    sa.Column("progress_done", sa.Integer, nullable=False, default=0),
    sa.Column("progress_total", sa.Integer, nullable=False, default=0),
    sa.Column("parent_id", ID),
    sa.Column("place", sa.BigInteger),
    # how many of its children have not ended
    sa.Column("children", sa.Integer, nullable=False, default=0),
    # it looks whenever one of them ends, not only at the last
    sa.Column("joins_each", sa.Boolean, nullable=False, default=False),
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
    sa.Index("ix_operations_state_lease_until", "state", "lease_until"),
    sa.Index("ix_operations_generation", "generation"),
    sa.Index("ix_operations_resource_id", "resource_id"),
    sa.Index("ix_operations_parent_id", "parent_id"),
    sa.Index("ix_operations_project_id_seq", "project_id", "seq"),
    sa.Index("ix_operations_state_finished_at", "state", "finished_at"),
    sa.Index("ix_operations_kind", "kind"),
    sa.Index("ix_operations_resource_type", "resource_type"),
)

# The keys of operations that have not ended. `held_key` is the key itself from the moment at which the operation has
# begun: it is unique, so that no two of a key are ever under way.
operation_keys = sa.Table(
    "operation_keys",
    metadata,
    sa.Column("operation_id", ID, sa.ForeignKey("operations.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("key", KEY, primary_key=True),
    sa.Column("place", sa.BigInteger, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("held_key", KEY, unique=True),
    sa.Index("ix_operation_keys_key_place_seq", "key", "place", "seq"),
)

# Which conditions operations wait for, by name.
operation_waits = sa.Table(
    "operation_waits",
    metadata,
    sa.Column("operation_id", ID, sa.ForeignKey("operations.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("condition", KEY, primary_key=True),
    sa.Index("ix_operation_waits_condition", "condition"),
)

# What an operation that goes through many things found of those that need saying; forgotten with it.
operation_findings = sa.Table(
    "operation_findings",
    metadata,
    an_id(),
    sa.Column("operation_id", ID, sa.ForeignKey("operations.id", ondelete="CASCADE"), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("share_id", ID, nullable=False),
    sa.Column("share_instance_id", ID, nullable=False),
    sa.Column("why", sa.Text, nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.Index("ix_operation_findings_operation_id_created_at_id", "operation_id", "created_at", "id"),
)
