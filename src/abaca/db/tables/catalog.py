# SPDX-License-Identifier: Apache-2.0
"""What operators offer: zones, share types, quotas."""

from __future__ import annotations

import sqlalchemy as sa

from abaca.db.tables.columns import ID, KEY, NAME, TIME, an_id, metadata, times

availability_zones = sa.Table(
    "availability_zones",
    metadata,
    an_id(),
    sa.Column("name", NAME, nullable=False, unique=True),
    *times(),
)

share_types = sa.Table(
    "share_types",
    metadata,
    an_id(),
    sa.Column("name", NAME, nullable=False, unique=True),
    sa.Column("description", NAME),
    sa.Column("is_public", sa.Boolean, nullable=False, default=True),
    sa.Column("extra_specs", sa.JSON, nullable=False),
    *times(),
)

share_type_projects = sa.Table(
    "share_type_projects",
    metadata,
    sa.Column("share_type_id", ID, sa.ForeignKey("share_types.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("project_id", KEY, primary_key=True),
    sa.Column("created_at", TIME, nullable=False),
)

# Share groups will be made of these: which share types their shares may have.
share_group_types = sa.Table(
    "share_group_types",
    metadata,
    an_id(),
    sa.Column("name", NAME, nullable=False, unique=True),
    sa.Column("is_public", sa.Boolean, nullable=False, default=True),
    sa.Column("group_specs", sa.JSON, nullable=False),
    *times(),
)

share_group_type_share_types = sa.Table(
    "share_group_type_share_types",
    metadata,
    sa.Column(
        "share_group_type_id",
        ID,
        sa.ForeignKey("share_group_types.id", name="fk_share_group_type_share_types_group_type", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Column(
        "share_type_id",
        ID,
        sa.ForeignKey("share_types.id", name="fk_share_group_type_share_types_share_type"),
        primary_key=True,
    ),
    sa.Index("ix_share_group_type_share_types_share_type_id", "share_type_id"),
)

share_group_type_projects = sa.Table(
    "share_group_type_projects",
    metadata,
    sa.Column(
        "share_group_type_id",
        ID,
        sa.ForeignKey("share_group_types.id", name="fk_share_group_type_projects_group_type", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Column("project_id", KEY, primary_key=True),
    sa.Column("created_at", TIME, nullable=False),
)

# `scope` says whose: a project, `user:<id>` or `type:<id>` in it. One row holds all counters, so one UPDATE counts.
# `metadata_characters` is counted of projects only, and is no quota of the API.
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
    sa.Column("metadata_characters", sa.BigInteger, nullable=False, server_default="0"),
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
