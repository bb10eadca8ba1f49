# SPDX-License-Identifier: Apache-2.0
"""What clients of data processing send: bodies that clusters, node groups and templates have in common."""

from __future__ import annotations

from typing import Annotated

from abaca.api.data_processing.versions import V1, V2
from abaca.http.bodies import (
    UNSET,
    Body,
    Filters,
    Flag,
    Name,
    Object,
    Scalar,
    Text,
    UnsetType,
    Uuid,
    Whole,
    among,
)
from abaca.http.wire import Renamed, Since, Until


def _nothing(value: object) -> bool:
    if value is None or value:
        raise ValueError
    return False


# Clients send these with a value that stands for none.
Unmade = Annotated[bool, Scalar(_nothing, "left out: no server is made here, so it decides on nothing", {})]
Private = Annotated[bool, Scalar(_nothing, "false: nothing is shown to other projects", {"const": False})]
Kept = Annotated[
    bool,
    Scalar(
        _nothing,
        "left out: the keys of servers are for those who make them, and a worker logs in with the one it was given",
        {},
    ),
]
Version = Annotated[str, Renamed(V1, "hadoop_version")]


class ShareBody(Body, unknown="refuse"):
    """A share by its id; without a path it is at /mnt/SHARE-ID, without a level nodes may write."""

    id: Uuid
    path: Text | None = None
    access_level: Annotated[str, among(("ro", "rw"))] = "rw"


class GroupFields(Body, unknown="refuse"):
    """What is said of a node group, and of a template of them; what is not sent is as it was."""

    flavor_id: Name | UnsetType | None = UNSET
    image_id: Name | UnsetType | None = UNSET
    node_processes: list[Name] | UnsetType = UNSET
    node_configs: Object | UnsetType = UNSET
    availability_zone: Name | UnsetType | None = UNSET
    use_autoconfig: Flag | UnsetType = UNSET
    shares: list[ShareBody] | UnsetType = UNSET
    volumes_per_node: Unmade = False
    volumes_size: Unmade = False
    volume_type: Unmade = False
    volumes_availability_zone: Unmade = False
    volume_mount_prefix: Unmade = False
    volume_local_to_instance: Unmade = False
    floating_ip_pool: Unmade = False
    security_groups: Unmade = False
    auto_security_group: Unmade = False
    is_proxy_gateway: Unmade = False
    boot_from_volume: Annotated[Unmade, Since(V2)] = False
    boot_volume_type: Annotated[Unmade, Since(V2)] = False
    boot_volume_availability_zone: Annotated[Unmade, Since(V2)] = False
    boot_volume_local_to_instance: Annotated[Unmade, Since(V2)] = False


class GroupBody(GroupFields, unknown="refuse"):
    """A node group, of a template or by itself: it takes `count` of the servers that its configs name."""

    name: Name
    count: Whole
    node_group_template_id: Uuid | UnsetType = UNSET


class ClusterFields(Body, unknown="refuse"):
    """What is said of a cluster, and of a template of them; what is not sent is as it was."""

    cluster_configs: Object | UnsetType = UNSET
    default_image_id: Name | UnsetType | None = UNSET
    neutron_management_network: Name | UnsetType | None = UNSET
    anti_affinity: list[Name] | UnsetType = UNSET
    use_autoconfig: Flag | UnsetType = UNSET
    domain_name: Name | UnsetType | None = UNSET
    node_groups: list[GroupBody] | UnsetType = UNSET
    shares: list[ShareBody] | UnsetType = UNSET


class CreateNodeGroupTemplate(GroupFields, unknown="refuse"):
    """A template of node groups."""

    name: Name
    plugin_name: Name
    plugin_version: Version
    description: Name | None = None
    is_public: Private = False
    is_protected: Flag = False


class CreateClusterTemplate(ClusterFields, unknown="refuse"):
    """A template of clusters. Its node groups keep what their templates say now."""

    name: Name
    plugin_name: Name
    plugin_version: Version
    description: Name | None = None
    is_public: Private = False
    is_protected: Flag = False


class UpdateNodeGroupTemplate(GroupFields, unknown="refuse"):
    """What shall be of a template of node groups."""

    name: Name | UnsetType = UNSET
    plugin_name: Name | UnsetType = UNSET
    plugin_version: Annotated[Name | UnsetType, Renamed(V1, "hadoop_version")] = UNSET
    description: Name | UnsetType | None = UNSET
    is_public: Private = False
    is_protected: Flag | UnsetType = UNSET


class UpdateClusterTemplate(ClusterFields, unknown="refuse"):
    """What shall be of a template of clusters."""

    name: Name | UnsetType = UNSET
    plugin_name: Name | UnsetType = UNSET
    plugin_version: Annotated[Name | UnsetType, Renamed(V1, "hadoop_version")] = UNSET
    description: Name | UnsetType | None = UNSET
    is_public: Private = False
    is_protected: Flag | UnsetType = UNSET


class CreateCluster(CreateClusterTemplate, unknown="refuse"):
    """A cluster: what is not sent is as its template says. With `count` so many alike are made, each with a number."""

    cluster_template_id: Uuid | UnsetType = UNSET
    is_transient: Unmade = False
    user_keypair_id: Name | UnsetType | None = UNSET
    count: Annotated[Whole, Since(V2)] = 1


class CreateClusters(CreateClusterTemplate, unknown="refuse"):
    """So many clusters as `count` says."""

    cluster_template_id: Uuid | UnsetType = UNSET
    is_transient: Unmade = False
    user_keypair_id: Name | UnsetType | None = UNSET
    count: Whole


class Resized(Body, unknown="refuse"):
    """How many nodes a group shall have, and which of its servers go where it shall have less."""

    name: Name
    count: Whole
    instances: Annotated[list[Text] | UnsetType, Since(V2)] = UNSET


class ScaleCluster(Body, unknown="refuse"):
    """Groups of another size, and new ones."""

    resize_node_groups: list[Resized] | UnsetType = UNSET
    add_node_groups: list[GroupBody] | UnsetType = UNSET


class VerificationBody(Body, unknown="refuse"):
    """That the nodes of a cluster shall be looked at now."""

    status: Annotated[str, among(("START",))]


class UpdateCluster(Body, unknown="refuse"):
    """What shall be of a cluster; `shares` are all that it shall have, none where the list is empty."""

    name: Name | UnsetType = UNSET
    description: Name | UnsetType | None = UNSET
    is_public: Private = False
    is_protected: Flag | UnsetType = UNSET
    shares: list[ShareBody] | UnsetType = UNSET
    verification: VerificationBody | UnsetType = UNSET
    update_keypair: Annotated[Kept, Since(V2)] = False


class DeleteCluster(Body, unknown="refuse"):
    """With `force` though files are open, or nodes do not answer."""

    force: Flag = False


class ListFilters(Filters, unknown="refuse"):
    """What lists may be asked for, and which page of them."""

    name: Text
    plugin_name: Text
    hadoop_version: Annotated[str, Until(V1)]
    plugin_version: Annotated[str, Since(V2)]
    limit: Whole
    marker: Text
    sort_by: Text
