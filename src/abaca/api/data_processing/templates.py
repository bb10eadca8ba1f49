# SPDX-License-Identifier: Apache-2.0
"""Templates of node groups and of clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from abaca import errors
from abaca.api.data_processing import faults, pages, permissions, plugins, reading, views
from abaca.api.data_processing.said import (
    CreateClusterTemplate,
    CreateNodeGroupTemplate,
    ListFilters,
    UpdateClusterTemplate,
    UpdateNodeGroupTemplate,
)
from abaca.api.data_processing.versions import V1, V2
from abaca.api.data_processing.views import ClusterTemplateView, MarkersView, NodeGroupTemplateView
from abaca.db.clusters import templates
from abaca.domain.clusters import clusters as domain
from abaca.http.bodies import UNSET, UnsetType
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Plain, View

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.clusters.templates import Kind, Template

NODE_GROUPS = Resource("templates of node groups", "/node-group-templates")
CLUSTERS = Resource("templates of clusters", "/cluster-templates")
_NODE_GROUP = Plain("node_group_template", NodeGroupTemplateView)
_CLUSTER = Plain("cluster_template", ClusterTemplateView)


class NodeGroupTemplatesView(View):
    """A page of them."""

    node_group_templates: list[NodeGroupTemplateView]
    markers: MarkersView | UnsetType


class ClusterTemplatesView(View):
    """A page of them."""

    cluster_templates: list[ClusterTemplateView]
    markers: MarkersView | UnsetType


_GROUPS_PAGE = Plain(None, NodeGroupTemplatesView)
_CLUSTERS_PAGE = Plain(None, ClusterTemplatesView)


@NODE_GROUPS.get(policy=permissions.NODE_GROUP_TEMPLATES_V1, until=V1, view=_GROUPS_PAGE, filters=ListFilters)
@NODE_GROUPS.get(policy=permissions.NODE_GROUP_TEMPLATES_V2, since=V2, view=_GROUPS_PAGE, filters=ListFilters)
def node_group_templates(call: Call, filters: dict[str, object]) -> dict[str, object]:
    """Templates of node groups, the oldest first."""
    found, markers = _page(call, "node_group", filters)
    return {"node_group_templates": [views.node_group_template(one) for one in found], "markers": UNSET, **markers}


@CLUSTERS.get(policy=permissions.CLUSTER_TEMPLATES_V1, until=V1, view=_CLUSTERS_PAGE, filters=ListFilters)
@CLUSTERS.get(policy=permissions.CLUSTER_TEMPLATES_V2, since=V2, view=_CLUSTERS_PAGE, filters=ListFilters)
def cluster_templates(call: Call, filters: dict[str, object]) -> dict[str, object]:
    """Templates of clusters, the oldest first."""
    found, markers = _page(call, "cluster", filters)
    return {"cluster_templates": [views.cluster_template(one) for one in found], "markers": UNSET, **markers}


@NODE_GROUPS.get("/{id}", policy=permissions.NODE_GROUP_TEMPLATE_V1, until=V1, view=_NODE_GROUP)
@NODE_GROUPS.get("/{id}", policy=permissions.NODE_GROUP_TEMPLATE_V2, since=V2, view=_NODE_GROUP)
def node_group_template(call: Call, id: str) -> dict[str, object]:
    """One template of node groups."""
    with call.db.read() as tx:
        return views.node_group_template(_found(call, tx, "node_group", id))


@CLUSTERS.get("/{id}", policy=permissions.CLUSTER_TEMPLATE_V1, until=V1, view=_CLUSTER)
@CLUSTERS.get("/{id}", policy=permissions.CLUSTER_TEMPLATE_V2, since=V2, view=_CLUSTER)
def cluster_template(call: Call, id: str) -> dict[str, object]:
    """One template of clusters."""
    with call.db.read() as tx:
        return views.cluster_template(_found(call, tx, "cluster", id))


@NODE_GROUPS.get("/{id}/export", policy=permissions.NODE_GROUP_TEMPLATE_V1, until=V1, view=_NODE_GROUP)
@NODE_GROUPS.get("/{id}/export", policy=permissions.NODE_GROUP_TEMPLATE_V2, since=V2, view=_NODE_GROUP)
def export_node_group_template(call: Call, id: str) -> dict[str, object]:
    """One template of node groups, to be kept elsewhere."""
    return node_group_template(call, id)


@CLUSTERS.get("/{id}/export", policy=permissions.CLUSTER_TEMPLATE_V1, until=V1, view=_CLUSTER)
@CLUSTERS.get("/{id}/export", policy=permissions.CLUSTER_TEMPLATE_V2, since=V2, view=_CLUSTER)
def export_cluster_template(call: Call, id: str) -> dict[str, object]:
    """One template of clusters, to be kept elsewhere."""
    return cluster_template(call, id)


@NODE_GROUPS.post(
    policy=permissions.CREATE_NODE_GROUP_TEMPLATE_V1,
    until=V1,
    body=CreateNodeGroupTemplate,
    view=_NODE_GROUP,
    status=202,
)
@NODE_GROUPS.post(
    policy=permissions.CREATE_NODE_GROUP_TEMPLATE_V2,
    since=V2,
    body=CreateNodeGroupTemplate,
    view=_NODE_GROUP,
    status=202,
)
def create_node_group_template(call: Call, body: CreateNodeGroupTemplate) -> dict[str, object]:
    """Keep what node groups can be made of."""
    with call.db.read() as tx:
        content = _node_group_content(call, tx, call.caller.project_id, body)
    return views.node_group_template(_create(call, "node_group", body, content))


@CLUSTERS.post(
    policy=permissions.CREATE_CLUSTER_TEMPLATE_V1, until=V1, body=CreateClusterTemplate, view=_CLUSTER, status=202
)
@CLUSTERS.post(
    policy=permissions.CREATE_CLUSTER_TEMPLATE_V2, since=V2, body=CreateClusterTemplate, view=_CLUSTER, status=202
)
def create_cluster_template(call: Call, body: CreateClusterTemplate) -> dict[str, object]:
    """Keep what clusters can be made of."""
    with call.db.read() as tx:
        content = _cluster_content(call, tx, call.caller.project_id, body, {})
    return views.cluster_template(_create(call, "cluster", body, content))


@NODE_GROUPS.put(
    "/{id}",
    policy=permissions.UPDATE_NODE_GROUP_TEMPLATE_V1,
    until=V1,
    body=UpdateNodeGroupTemplate,
    view=_NODE_GROUP,
    status=202,
)
@NODE_GROUPS.patch(
    "/{id}",
    policy=permissions.UPDATE_NODE_GROUP_TEMPLATE_V2,
    since=V2,
    body=UpdateNodeGroupTemplate,
    view=_NODE_GROUP,
    status=202,
)
def update_node_group_template(call: Call, id: str, body: UpdateNodeGroupTemplate) -> dict[str, object]:
    """Change a template of node groups; what was made of it stays as it is."""
    with call.db.write() as tx:
        found = _held(call, tx, "node_group", id, body)
        content = {**found.content, **_node_group_content(call, tx, found.project_id, body)}
        return views.node_group_template(_update(call, tx, found, body, content))


@CLUSTERS.put(
    "/{id}",
    policy=permissions.UPDATE_CLUSTER_TEMPLATE_V1,
    until=V1,
    body=UpdateClusterTemplate,
    view=_CLUSTER,
    status=202,
)
@CLUSTERS.patch(
    "/{id}",
    policy=permissions.UPDATE_CLUSTER_TEMPLATE_V2,
    since=V2,
    body=UpdateClusterTemplate,
    view=_CLUSTER,
    status=202,
)
def update_cluster_template(call: Call, id: str, body: UpdateClusterTemplate) -> dict[str, object]:
    """Change a template of clusters; what was made of it stays as it is."""
    with call.db.write() as tx:
        found = _held(call, tx, "cluster", id, body)
        return views.cluster_template(
            _update(call, tx, found, body, _cluster_content(call, tx, found.project_id, body, found.content))
        )


@NODE_GROUPS.delete("/{id}", policy=permissions.DELETE_NODE_GROUP_TEMPLATE_V1, until=V1, status=204)
@NODE_GROUPS.delete("/{id}", policy=permissions.DELETE_NODE_GROUP_TEMPLATE_V2, since=V2, status=204)
def delete_node_group_template(call: Call, id: str) -> None:
    """Forget a template of node groups; what was made of it stays as it is."""
    _delete(call, "node_group", id)


@CLUSTERS.delete("/{id}", policy=permissions.DELETE_CLUSTER_TEMPLATE_V1, until=V1, status=204)
@CLUSTERS.delete("/{id}", policy=permissions.DELETE_CLUSTER_TEMPLATE_V2, since=V2, status=204)
def delete_cluster_template(call: Call, id: str) -> None:
    """Forget a template of clusters; what was made of it stays as it is."""
    _delete(call, "cluster", id)


# ---------------------------------------------------------------- of both kinds


def _page(call: Call, kind: Kind, filters: dict[str, object]) -> tuple[list[Template], dict[str, object]]:
    asked = pages.read(call, filters)
    with call.db.read() as tx:
        found, markers = pages.one(lambda page: templates.page(tx, {**asked.conditions, "kind": kind}, page), asked)
    return list(found), markers


def _found(call: Call, tx: Tx, kind: Kind, template_id: str) -> Template:
    found = templates.show(tx, kind, template_id)
    if found is None:
        raise errors.NotFound(resource="Template", id=template_id)
    call.visible(found.project_id, "Template", template_id)
    return found


def _held(
    call: Call, tx: Tx, kind: Kind, template_id: str, body: UpdateNodeGroupTemplate | UpdateClusterTemplate
) -> Template:
    """A template that is to be changed, locked. Raises `NotFound`, and `Protected` unless that is what changes."""
    _found(call, tx, kind, template_id)
    found = templates.hold(tx, kind, template_id)
    if found is None:
        raise errors.NotFound(resource="Template", id=template_id)
    if found.is_protected and body.is_protected is not False:
        raise faults.Protected(what=f"Template {template_id}")
    return found


def _node_group_content(
    call: Call, tx: Tx, project_id: str, body: CreateNodeGroupTemplate | UpdateNodeGroupTemplate
) -> dict[str, object]:
    content = reading.fields(body, reading.GROUP)
    reading.configs(content.get("node_configs"), ("servers",), "node_configs")
    if not isinstance(body.shares, UnsetType):
        reading.shares(call, tx, project_id, body.shares, "the template", now=False)
        content["shares"] = reading.sent_shares(body.shares)
    reading.check_size(content)
    return content


def _cluster_content(
    call: Call,
    tx: Tx,
    project_id: str,
    body: CreateClusterTemplate | UpdateClusterTemplate,
    before: dict[str, object],
) -> dict[str, object]:
    said = reading.fields(body, reading.CLUSTER)
    reading.check_size(said)
    content = {**before, **said}
    reading.cluster_values(content.get("cluster_configs"))
    if not isinstance(body.node_groups, UnsetType):
        content["node_groups"] = reading.groups(call, tx, body.node_groups)
    if not isinstance(body.shares, UnsetType):
        content["shares"] = reading.sent_shares(body.shares)
    if body.shares is not UNSET or body.node_groups is not UNSET:
        of_cluster = reading.shares(call, tx, project_id, reading.kept_shares(content), "the template", now=False)
        reading.check_together(call, tx, project_id, of_cluster, reading.kept_groups(content), now=False)
    return content


def _create(
    call: Call, kind: Kind, body: CreateNodeGroupTemplate | CreateClusterTemplate, content: dict[str, object]
) -> Template:
    plugins.check(body.plugin_name, body.plugin_version)
    values = {
        "project_id": call.caller.project_id,
        "kind": kind,
        "name": domain.check_name(body.name, "template"),
        "description": body.description,
        "is_protected": body.is_protected,
        "content": content,
    }
    with call.db.write() as tx:
        return _found(call, tx, kind, templates.add(tx, values))


def _update(
    call: Call,
    tx: Tx,
    found: Template,
    body: UpdateNodeGroupTemplate | UpdateClusterTemplate,
    content: dict[str, object],
) -> Template:
    if body == type(body)():
        raise faults.InvalidData("Send something to change, such as name, description, shares or node_configs.")
    named = (body.plugin_name, body.plugin_version)
    plugins.check(*(there if said is UNSET else str(said) for said, there in zip(named, _PLUGIN, strict=True)))
    values: dict[str, object] = {"content": content}
    if not isinstance(body.name, UnsetType):
        values["name"] = domain.check_name(body.name, "template")
    values |= {name: said for name in ("description", "is_protected") if (said := getattr(body, name)) is not UNSET}
    templates.update(tx, found.id, values)
    return _found(call, tx, found.kind, found.id)


_PLUGIN = (plugins.NAME, plugins.VERSION)


def _delete(call: Call, kind: Kind, template_id: str) -> None:
    with call.db.write() as tx:
        _found(call, tx, kind, template_id)
        found = templates.hold(tx, kind, template_id)
        if found is None:
            raise errors.NotFound(resource="Template", id=template_id)
        if found.is_protected:
            raise faults.NotDeleted(what=f"Template {template_id}")
        templates.remove(tx, template_id)
