# SPDX-License-Identifier: Apache-2.0
"""Clusters: servers of a project, in groups, and the shares that are wanted on them."""

from __future__ import annotations

import sqlalchemy as sa

from abaca.db.tables.columns import (
    ID,
    KEY,
    NAME,
    TIME,
    an_id,
    indexes_of_the_few,
    metadata,
    partial_index,
    state,
    text,
    times,
)
from abaca.domain.clusters.clusters import CLUSTER

clusters = sa.Table(
    "clusters",
    metadata,
    an_id(),
    sa.Column("project_id", KEY, nullable=False),
    sa.Column("user_id", KEY),
    sa.Column("name", NAME, nullable=False),
    sa.Column("description", NAME),
    state("status", CLUSTER, 16),
    # `present` or `deleted`: where it goes from an error
    sa.Column("wanted", sa.String(16), nullable=False),
    sa.Column("shares", sa.JSON, nullable=False),
    sa.Column("tolerance", sa.Integer, nullable=False),
    # what its shares let in in the place of each node
    sa.Column("network", text(49)),
    sa.Column("is_protected", sa.Boolean, nullable=False),
    sa.Column("is_forced", sa.Boolean, nullable=False),
    # what the data processing door was told of it beside all this
    sa.Column("told", sa.JSON),
    # when its selectors, if it has any, were last compared with the servers there are
    sa.Column("looked_at", TIME),
    sa.Column("error_code", sa.String(64)),
    sa.Column("error_text", sa.Text),
    # tries that failed in a row, and when the next comes
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("retry_at", TIME),
    *times(),
    sa.UniqueConstraint("project_id", "name"),
    sa.Index("ix_clusters_project_id_created_at_id", "project_id", "created_at", "id"),
    sa.Index("ix_clusters_name_created_at_id", "name", "created_at", "id"),
    sa.Index("ix_clusters_status_created_at_id", "status", "created_at", "id"),
)
# As that of all shares.
CLUSTER_OF_ANY_PROJECT = clusters.c.project_id > sa.literal_column("''")
partial_index("ix_clusters_created_at_id", CLUSTER_OF_ANY_PROJECT, clusters.c.created_at, clusters.c.id)
indexes_of_the_few(clusters, "looked_at", "retry_at")

# `selector` is empty where its nodes are named.
cluster_node_groups = sa.Table(
    "cluster_node_groups",
    metadata,
    an_id(),
    sa.Column("cluster_id", ID, sa.ForeignKey("clusters.id", ondelete="CASCADE"), nullable=False),
    sa.Column("name", NAME, nullable=False),
    sa.Column("shares", sa.JSON, nullable=False),
    sa.Column("selector", sa.JSON, nullable=False),
    sa.Column("count", sa.Integer),
    # as of clusters
    sa.Column("told", sa.JSON),
    # it goes with the last of its nodes
    sa.Column("is_leaving", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("created_at", TIME, nullable=False),
    sa.UniqueConstraint("cluster_id", "name"),
)

# `refusals` say by share why nothing was attached; one that is leaving goes when nothing of the cluster is there.
cluster_nodes = sa.Table(
    "cluster_nodes",
    metadata,
    an_id(),
    sa.Column("cluster_id", ID, sa.ForeignKey("clusters.id", ondelete="CASCADE"), nullable=False),
    sa.Column("node_group_id", ID, sa.ForeignKey("cluster_node_groups.id", ondelete="CASCADE"), nullable=False),
    sa.Column("server_id", KEY, nullable=False),
    sa.Column("is_leaving", sa.Boolean, nullable=False),
    sa.Column("refusals", sa.JSON, nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.UniqueConstraint("cluster_id", "server_id"),
    sa.Index("ix_cluster_nodes_cluster_id_created_at_id", "cluster_id", "created_at", "id"),
    sa.Index("ix_cluster_nodes_node_group_id", "node_group_id"),
    sa.Index("ix_cluster_nodes_server_id", "server_id"),
)

# What clusters and their node groups may be made of, and images, named by their ids: `kind` says which. All that is
# said of one is in `content`.
cluster_templates = sa.Table(
    "cluster_templates",
    metadata,
    an_id(),
    sa.Column("project_id", KEY, nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("name", NAME, nullable=False),
    sa.Column("description", NAME),
    sa.Column("is_protected", sa.Boolean, nullable=False),
    sa.Column("content", sa.JSON, nullable=False),
    *times(),
    sa.UniqueConstraint("project_id", "kind", "name"),
    sa.Index("ix_cluster_templates_project_id_created_at_id", "project_id", "created_at", "id"),
)
