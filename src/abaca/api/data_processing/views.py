# SPDX-License-Identifier: Apache-2.0
"""Clusters, their node groups and templates of both, as clients of data processing know them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import structs

from abaca.api.data_processing import plugins
from abaca.api.data_processing.versions import V1, V2
from abaca.domain.clusters.clusters import Cluster, NodeGroup, WantedShare
from abaca.domain.clusters.templates import Template
from abaca.http.wire import Renamed, Since, View

# What they are in, by the state of the cluster; a new one is validated until its first node is known.
STATUSES = {
    "creating": "Configuring",
    "changing": "Configuring",
    "active": "Active",
    "error": "Error",
    "deleting": "Deleting",
}
VALIDATING = "Validating"
# What no node group of ours has, since no server is made here: what clients read of it.
UNMADE: dict[str, object] = {
    "volumes_per_node": 0,
    "volumes_size": 0,
    "volume_type": None,
    "volumes_availability_zone": None,
    "volume_mount_prefix": None,
    "volume_local_to_instance": False,
    "floating_ip_pool": None,
    "security_groups": None,
    "auto_security_group": False,
    "is_proxy_gateway": False,
    "boot_from_volume": False,
    "boot_volume_type": None,
    "boot_volume_availability_zone": None,
    "boot_volume_local_to_instance": False,
}
_OF_GROUP: dict[str, object] = {
    "flavor_id": None,
    "image_id": None,
    "node_processes": [],
    "node_configs": {},
    "availability_zone": None,
    "node_group_template_id": None,
    "use_autoconfig": True,
    "shares": None,
}
_OF_CLUSTER: dict[str, object] = {
    "cluster_configs": {},
    "default_image_id": None,
    "neutron_management_network": None,
    "anti_affinity": [],
    "use_autoconfig": True,
    "domain_name": None,
    "shares": None,
    "node_groups": [],
}
_MADE_HERE: dict[str, object] = {
    "plugin_name": plugins.NAME,
    "plugin_version": plugins.VERSION,
    "is_public": False,
    "is_default": False,
}
_OF_NO_SERVER: dict[str, object] = {
    "cluster_template_id": None,
    "is_transient": False,
    "user_keypair_id": None,
    "management_public_key": None,
    "trust_id": None,
    "info": {},
}


class ShareView(View):
    """A share that is wanted on nodes."""

    id: str
    path: str | None
    access_level: str


class InstanceView(View):
    """A node: a server, and where it is reached."""

    id: str
    instance_id: str
    instance_name: str | None
    internal_ip: str | None
    management_ip: str | None
    volumes: list[str]
    created_at: str


class _GroupFields(View):
    """What node groups and templates of them have in common."""

    name: str
    flavor_id: str | None
    image_id: str | None
    node_processes: list[str]
    node_configs: dict[str, object]
    availability_zone: str | None
    use_autoconfig: bool
    shares: list[ShareView] | None
    volumes_per_node: int
    volumes_size: int
    volume_type: str | None
    volumes_availability_zone: str | None
    volume_mount_prefix: str | None
    volume_local_to_instance: bool
    floating_ip_pool: str | None
    security_groups: list[str] | None
    auto_security_group: bool
    is_proxy_gateway: bool
    boot_from_volume: Annotated[bool, Since(V2)]
    boot_volume_type: Annotated[str | None, Since(V2)]
    boot_volume_availability_zone: Annotated[str | None, Since(V2)]
    boot_volume_local_to_instance: Annotated[bool, Since(V2)]


class TemplateGroupView(_GroupFields):
    """A node group of a template: `count` nodes are wanted in it."""

    count: int
    node_group_template_id: str | None


class GroupView(TemplateGroupView):
    """A node group of a cluster, with its nodes where one cluster is shown."""

    id: str
    instances: list[InstanceView]


class _Common(View):
    """What clusters and templates have in common."""

    id: str
    name: str
    description: str | None
    project_id: Annotated[str, Renamed(V1, "tenant_id")]
    plugin_name: str
    plugin_version: Annotated[str, Renamed(V1, "hadoop_version")]
    is_public: bool
    is_protected: bool
    created_at: str
    updated_at: str | None


class NodeGroupTemplateView(_GroupFields, _Common):
    """A template of node groups."""

    is_default: bool


class _ClusterFields(_Common):
    """What clusters and templates of them have in common."""

    cluster_configs: dict[str, object]
    default_image_id: str | None
    neutron_management_network: str | None
    anti_affinity: list[str]
    use_autoconfig: bool
    domain_name: str | None
    shares: list[ShareView] | None


class ClusterTemplateView(_ClusterFields):
    """A template of clusters."""

    node_groups: list[TemplateGroupView]
    is_default: bool


class EventView(View):
    """What is wrong with a node."""

    id: str
    step_id: str
    node_group_id: str
    instance_id: str
    instance_name: str | None
    event_info: str | None
    successful: bool
    created_at: str
    updated_at: str | None


class StepView(View):
    """What is done for a cluster, for how many nodes it is done, and for how many it shall be."""

    id: str
    cluster_id: str
    project_id: Annotated[str, Renamed(V1, "tenant_id")]
    step_name: str
    step_type: str
    successful: bool | None
    completed: int
    total: int
    events: list[EventView]
    created_at: str
    updated_at: str | None


class ClusterView(_ClusterFields):
    """A cluster."""

    status: str
    status_description: str
    cluster_template_id: str | None
    is_transient: bool
    user_keypair_id: str | None
    management_public_key: str | None
    trust_id: str | None
    info: dict[str, object]
    verification: dict[str, object]
    node_groups: list[GroupView]
    provision_progress: list[StepView]


class MarkersView(View):
    """Where the pages before and after this one begin: behind the thing of that id."""

    prev: str | None
    next: str | None


def stamp(time: datetime.datetime) -> str:
    """A time, in whole seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S")


def node_group_template(template: Template) -> dict[str, object]:
    """As it is shown."""
    return {**UNMADE, **_OF_GROUP, **template.content, **_own(template)}


def cluster_template(template: Template) -> dict[str, object]:
    """As it is shown."""
    found = {**_OF_CLUSTER, **template.content, **_own(template)}
    said = template.content.get("node_groups")
    groups = said if isinstance(said, list) else []
    found["node_groups"] = [{**UNMADE, **_OF_GROUP, **one} for one in groups]
    return found


def cluster(
    found: Cluster, groups: Sequence[Mapping[str, object]], verification: Mapping[str, object], *, is_begun: bool
) -> dict[str, object]:
    """As it is shown, with node groups that `group` made; `is_begun` where a new one has something attached."""
    waits = found.status == "creating" and not is_begun
    return {
        **_OF_NO_SERVER,
        **_OF_CLUSTER,
        **(found.told or {}),
        **_own(found),
        "verification": verification,
        "shares": shares(found.shares),
        "status": VALIDATING if waits else STATUSES[found.status],
        "status_description": found.error_text or "",
        "node_groups": list(groups),
        "provision_progress": [],
    }


def group(found: NodeGroup, number: int, instances: Sequence[Mapping[str, object]] = ()) -> dict[str, object]:
    """As it is shown; `number` is how many nodes it has."""
    return {
        **UNMADE,
        **_OF_GROUP,
        **(found.told or {}),
        "id": found.id,
        "name": found.name,
        "count": number if found.count is None else found.count,
        "shares": shares(found.shares),
        "instances": list(instances),
    }


def shares(found: Sequence[WantedShare]) -> list[dict[str, object]]:
    """As they are shown."""
    return [structs.asdict(one) for one in found]


def _own(found: Template | Cluster) -> dict[str, object]:
    return {
        **_MADE_HERE,
        "id": found.id,
        "name": found.name,
        "description": found.description,
        "project_id": found.project_id,
        "is_protected": found.is_protected,
        "created_at": stamp(found.created_at),
        "updated_at": None if found.updated_at is None else stamp(found.updated_at),
    }
