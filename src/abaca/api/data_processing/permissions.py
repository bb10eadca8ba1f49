# SPDX-License-Identifier: Apache-2.0
"""Who may do what at the data processing door: by the names that the policies of its versions 1.1 and 2 have."""

from __future__ import annotations

from abaca.policy import Rule, member, reader


def _reads(name: str, says: str) -> Rule:
    return reader(f"data-processing:{name}", says)


def _writes(name: str, says: str) -> Rule:
    return member(f"data-processing:{name}", says)


PLUGINS_V1 = _reads("plugins:get_all", "See the plugins of data processing, by version 1.1.")
PLUGINS_V2 = _reads("plugin:list", "See the plugins of data processing, by version 2.")
PLUGIN_V1 = _reads("plugins:get", "See one plugin, by version 1.1.")
PLUGIN_V2 = _reads("plugin:get", "See one plugin, by version 2.")
VERSION_V1 = _reads("plugins:get_version", "See a version of a plugin, by version 1.1.")
VERSION_V2 = _reads("plugin:get-version", "See a version of a plugin, by version 2.")
IMAGES_V1 = _reads("images:get_all", "See the images of data processing, by version 1.1.")
IMAGES_V2 = _reads("image:list", "See the images of data processing, by version 2.")
IMAGE_V1 = _reads("images:get", "See one image, by version 1.1.")
IMAGE_V2 = _reads("image:get", "See one image, by version 2.")
REGISTER_IMAGE_V1 = _writes("images:register", "Register an image, by version 1.1.")
REGISTER_IMAGE_V2 = _writes("image:register", "Register an image, by version 2.")
UNREGISTER_IMAGE_V1 = _writes("images:unregister", "Forget an image, by version 1.1.")
UNREGISTER_IMAGE_V2 = _writes("image:unregister", "Forget an image, by version 2.")
ADD_IMAGE_TAGS_V1 = _writes("images:add_tags", "Give an image tags, by version 1.1.")
REMOVE_IMAGE_TAGS_V1 = _writes("images:remove_tags", "Take tags from an image, by version 1.1.")
IMAGE_TAGS_V2 = _reads("image:get-tags", "See the tags of an image, by version 2.")
SET_IMAGE_TAGS_V2 = _writes("image:set-tags", "Say which tags an image has, by version 2.")
REMOVE_IMAGE_TAGS_V2 = _writes("image:remove-tags", "Take all tags from an image, by version 2.")
NODE_GROUP_TEMPLATES_V1 = _reads("node-group-templates:get_all", "List templates of node groups, by version 1.1.")
NODE_GROUP_TEMPLATES_V2 = _reads("node-group-template:list", "List templates of node groups, by version 2.")
NODE_GROUP_TEMPLATE_V1 = _reads("node-group-templates:get", "See a template of node groups, by version 1.1.")
NODE_GROUP_TEMPLATE_V2 = _reads("node-group-template:get", "See a template of node groups, by version 2.")
CREATE_NODE_GROUP_TEMPLATE_V1 = _writes(
    "node-group-templates:create", "Create a template of node groups, by version 1.1."
)
CREATE_NODE_GROUP_TEMPLATE_V2 = _writes("node-group-template:create", "Create a template of node groups, by version 2.")
UPDATE_NODE_GROUP_TEMPLATE_V1 = _writes(
    "node-group-templates:modify", "Change a template of node groups, by version 1.1."
)
UPDATE_NODE_GROUP_TEMPLATE_V2 = _writes("node-group-template:update", "Change a template of node groups, by version 2.")
DELETE_NODE_GROUP_TEMPLATE_V1 = _writes(
    "node-group-templates:delete", "Delete a template of node groups, by version 1.1."
)
DELETE_NODE_GROUP_TEMPLATE_V2 = _writes("node-group-template:delete", "Delete a template of node groups, by version 2.")
CLUSTER_TEMPLATES_V1 = _reads("cluster-templates:get_all", "List templates of clusters, by version 1.1.")
CLUSTER_TEMPLATES_V2 = _reads("cluster-template:list", "List templates of clusters, by version 2.")
CLUSTER_TEMPLATE_V1 = _reads("cluster-templates:get", "See a template of clusters, by version 1.1.")
CLUSTER_TEMPLATE_V2 = _reads("cluster-template:get", "See a template of clusters, by version 2.")
CREATE_CLUSTER_TEMPLATE_V1 = _writes("cluster-templates:create", "Create a template of clusters, by version 1.1.")
CREATE_CLUSTER_TEMPLATE_V2 = _writes("cluster-template:create", "Create a template of clusters, by version 2.")
UPDATE_CLUSTER_TEMPLATE_V1 = _writes("cluster-templates:modify", "Change a template of clusters, by version 1.1.")
UPDATE_CLUSTER_TEMPLATE_V2 = _writes("cluster-template:update", "Change a template of clusters, by version 2.")
DELETE_CLUSTER_TEMPLATE_V1 = _writes("cluster-templates:delete", "Delete a template of clusters, by version 1.1.")
DELETE_CLUSTER_TEMPLATE_V2 = _writes("cluster-template:delete", "Delete a template of clusters, by version 2.")
CLUSTERS_V1 = _reads("clusters:get_all", "List clusters as data processing shows them, by version 1.1.")
CLUSTERS_V2 = _reads("cluster:list", "List clusters as data processing shows them, by version 2.")
CLUSTER_V1 = _reads("clusters:get", "See such a cluster, by version 1.1.")
CLUSTER_V2 = _reads("cluster:get", "See such a cluster, by version 2.")
CREATE_CLUSTER_V1 = _writes("clusters:create", "Create a cluster by data processing, by version 1.1.")
CREATE_CLUSTER_V2 = _writes("cluster:create", "Create a cluster by data processing, by version 2.")
SCALE_CLUSTER_V1 = _writes("clusters:scale", "Change the node groups of a cluster, by version 1.1.")
SCALE_CLUSTER_V2 = _writes("cluster:scale", "Change the node groups of a cluster, by version 2.")
UPDATE_CLUSTER_V1 = _writes("clusters:modify", "Change a cluster and its shares, by version 1.1.")
UPDATE_CLUSTER_V2 = _writes("cluster:update", "Change a cluster and its shares, by version 2.")
DELETE_CLUSTER_V1 = _writes("clusters:delete", "Delete a cluster by data processing, by version 1.1.")
DELETE_CLUSTER_V2 = _writes("cluster:delete", "Delete a cluster by data processing, by version 2.")
