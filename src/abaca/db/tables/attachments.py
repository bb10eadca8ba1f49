# SPDX-License-Identifier: Apache-2.0
"""Servers, and what is attached to them."""

from __future__ import annotations

import sqlalchemy as sa

from abaca.db.tables.columns import ID, KEY, NAME, TIME, an_id, metadata, partial_index, state, text, times
from abaca.domain.attachments.attachments import ATTACHMENT

# The inventory: servers that an operator registered. `key` says where a worker finds the private key for SSH.
servers = sa.Table(
    "servers",
    metadata,
    an_id(),
    sa.Column("project_id", KEY, nullable=False),
    sa.Column("user_id", KEY),
    sa.Column("name", NAME, nullable=False),
    sa.Column("description", NAME),
    sa.Column("status", sa.String(32), nullable=False),
    sa.Column("availability_zone", NAME),
    sa.Column("metadata", sa.JSON, nullable=False),
    sa.Column("ssh_host", NAME),
    sa.Column("ssh_port", sa.Integer, nullable=False, default=22),
    sa.Column("ssh_user", NAME, nullable=False),
    sa.Column("host_key", sa.Text),
    sa.Column("key", sa.String(1100)),
    sa.Column("hypervisor_id", ID, sa.ForeignKey("servers.id")),
    sa.Column("qmp_socket", text(107)),
    *times(),
    sa.UniqueConstraint("project_id", "name"),
    sa.Index("ix_servers_hypervisor_id", "hypervisor_id"),
    sa.Index("ix_servers_project_id_created_at_id", "project_id", "created_at", "id"),
    sa.Index("ix_servers_created_at_id", "created_at", "id"),
    sa.Index("ix_servers_name_project_id_id", "name", "project_id", "id"),
    sa.Index("ix_servers_user_id_created_at_id", "user_id", "created_at", "id"),
    sa.Index("ix_servers_status_created_at_id", "status", "created_at", "id"),
    sa.Index("ix_servers_availability_zone_created_at_id", "availability_zone", "created_at", "id"),
)

server_addresses = sa.Table(
    "server_addresses",
    metadata,
    sa.Column("server_id", ID, sa.ForeignKey("servers.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("ip", text(45), primary_key=True),
    sa.Column("network", NAME, nullable=False),
    # the order in which the operator gave them: the first is where SSH connects to
    sa.Column("place", sa.Integer, nullable=False),
    sa.Index("ix_server_addresses_ip", "ip"),
)

# A share on a server. `addresses` are those that its rules let in; `source` is the export location in use.
attachments = sa.Table(
    "attachments",
    metadata,
    an_id(),
    sa.Column("share_id", ID, sa.ForeignKey("shares.id"), nullable=False),
    sa.Column("server_id", KEY, nullable=False),
    sa.Column("project_id", KEY, nullable=False),
    sa.Column("user_id", KEY),
    sa.Column("mode", sa.String(16), nullable=False),
    sa.Column("mount_point", KEY, nullable=False),
    sa.Column("tag", KEY, nullable=False),
    sa.Column("access_level", sa.String(2), nullable=False),
    state("state", ATTACHMENT, 16),
    # `attached` or `detached`: where it goes from an error
    sa.Column("wanted", sa.String(16), nullable=False),
    # it is detached though files are open, and though its machine cannot be entered
    sa.Column("is_forced", sa.Boolean, nullable=False, default=False),
    sa.Column("addresses", sa.JSON, nullable=False),
    sa.Column("source", sa.String(2000)),
    # where it would be mounted from, but for files that are open
    sa.Column("awaited_source", sa.String(2000)),
    sa.Column("made_directory", sa.Boolean, nullable=False, default=False),
    sa.Column("last_verified_at", TIME),
    sa.Column("error_code", sa.String(64)),
    sa.Column("error_text", sa.Text),
    # tries that failed in a row, and when the next comes
    sa.Column("attempts", sa.Integer, nullable=False, default=0),
    sa.Column("retry_at", TIME),
    # the cluster that made it; and the network that is let in in the place of the server's addresses
    sa.Column("cluster_id", ID),
    sa.Column("network", text(49)),
    *times(),
    sa.UniqueConstraint("share_id", "server_id"),
    sa.UniqueConstraint("server_id", "mount_point"),
    sa.UniqueConstraint("server_id", "tag"),
    sa.Index("ix_attachments_project_id_created_at_id", "project_id", "created_at", "id"),
    sa.Index("ix_attachments_project_id_server_id_mount_point_id", "project_id", "server_id", "mount_point", "id"),
    sa.Index("ix_attachments_state_retry_at_id", "state", "retry_at", "id"),
    sa.Index("ix_attachments_state_last_verified_at_id", "state", "last_verified_at", "id"),
    sa.Index("ix_attachments_mode_created_at_id", "mode", "created_at", "id"),
)
# As that of all shares.
OF_ANY_PROJECT = attachments.c.project_id > sa.literal_column("''")
partial_index("ix_attachments_created_at_id", OF_ANY_PROJECT, attachments.c.created_at, attachments.c.id)
OF_A_CLUSTER = attachments.c.cluster_id.is_not(None)
partial_index(
    "ix_attachments_cluster_id_state", OF_A_CLUSTER, attachments.c.cluster_id, attachments.c.state, attachments.c.id
)
partial_index("ix_attachments_cluster_id_server_id", OF_A_CLUSTER, attachments.c.cluster_id, attachments.c.server_id)

# How many attachments there are is the sum of these (db/attachments/attachment_counts.py).
attachment_counts = sa.Table(
    "attachment_counts",
    metadata,
    an_id(),
    sa.Column("number", sa.BigInteger, nullable=False),
)

# What a forced detach gave up on a machine that could not be entered, until it can be. `id` was the attachment's;
# `machine_id` is the server that has it: the hypervisor of then, with the guest's `qmp_socket`, or the server itself.
orphaned_mounts = sa.Table(
    "orphaned_mounts",
    metadata,
    an_id(),
    sa.Column("server_id", KEY, nullable=False, index=True),
    sa.Column("machine_id", KEY, nullable=False),
    sa.Column("qmp_socket", text(107)),
    sa.Column("mode", sa.String(16), nullable=False),
    sa.Column("tag", KEY, nullable=False),
    sa.Column("mount_point", KEY, nullable=False),
    sa.Column("protocol", sa.String(16), nullable=False),
    sa.Column("source", sa.String(2000), nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("retry_at", TIME, nullable=False, index=True),
    sa.Column("created_at", TIME, nullable=False),
    sa.Index("ix_orphaned_mounts_created_at_id", "created_at", "id"),
    sa.Index("ix_orphaned_mounts_machine_id_created_at_id", "machine_id", "created_at", "id"),
)
