# SPDX-License-Identifier: Apache-2.0
"""The one plugin there is, which takes servers as they are, and the one image that clients need to name."""

from __future__ import annotations

from abaca import errors
from abaca.api.data_processing import faults, permissions
from abaca.api.data_processing.versions import V1, V2
from abaca.http.bodies import Filters, Text
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Plain, View

NAME, VERSION = "abaca", "1.0"
PROCESS = "node"
IMAGE, TAGS = "as-it-is", [NAME, VERSION]
IMAGE_ID = "0e5d8b1c-6a47-4d0e-9a39-5f1c7d3b2a10"

PLUGINS = Resource("plugins of data processing", "/plugins")
IMAGES = Resource("images of data processing", "/images")


class PluginView(View):
    """A plugin, and its versions."""

    name: str
    title: str
    description: str
    versions: list[str]
    plugin_labels: dict[str, object]
    version_labels: dict[str, object]


class ConfigView(View):
    """Something that can be said in node_configs, cluster_configs, or both."""

    name: str
    description: str
    config_type: str
    config_values: list[str] | None
    default_value: str | None
    is_optional: bool
    scope: str
    applicable_target: str
    priority: int


class VersionView(PluginView):
    """The same of one version: what a node does, and what can be configured."""

    node_processes: dict[str, list[str]]
    required_image_tags: list[str]
    configs: list[ConfigView]


class ImageView(View):
    """An image; no server is made here, so it stands for whatever a server has."""

    id: str
    name: str
    status: str
    username: str
    description: str
    tags: list[str]
    metadata: dict[str, str]


class ImageFilters(Filters):
    """What lists of images may be asked for."""

    name: Text
    tags: Text


_PLUGIN: dict[str, object] = {
    "name": NAME,
    "title": "Servers as they are",
    "description": "Takes servers that there are for nodes, and has shares on all of them. It makes no server.",
    "versions": [VERSION],
    "plugin_labels": {"enabled": {"status": True, "mutable": False, "description": "The plugin can be used."}},
    "version_labels": {VERSION: {"stable": {"status": True, "mutable": False, "description": "It is supported."}}},
}
# target, name, what it is: of node groups, or of clusters for all of theirs
CONFIGS = (
    ("servers", "name", "The servers that a node group takes have names that fit this pattern, such as worker-*."),
    ("servers", "metadata", "They have these pairs of metadata: an object, or text such as role=worker,rack=7."),
    ("servers", "server_group", "They are in the server group of Nova with this id."),
    ("cluster", "tolerance", "So many nodes may fail before the cluster is in error."),
    ("cluster", "network", "The shares let in this network, such as 10.0.0.0/16, and no node by itself."),
    ("cluster", "allow_empty", "Node groups may take no server yet: true or false."),
)
_IMAGE: dict[str, object] = {
    "id": IMAGE_ID,
    "name": IMAGE,
    "status": "ACTIVE",
    # clients look for a part of it
    "username": "",
    "description": "Whatever the servers have.",
    "tags": TAGS,
    "metadata": {},
}


def check(name: str, version: str) -> None:
    """Raises `InvalidReference` for another plugin, or version of it, than there is."""
    if (name, version) != (NAME, VERSION):
        raise faults.InvalidReference(
            f"There is no version {version[:64]!r} of a plugin {name[:64]!r}; there is {VERSION!r} of {NAME!r}."
        )


def _one(name: str) -> dict[str, object]:
    if name != NAME:
        raise errors.NotFound(resource="Plugin", id=name)
    return _PLUGIN


@PLUGINS.get(policy=permissions.PLUGINS_V1, until=V1, view=Plain("plugins", list[PluginView]))
@PLUGINS.get(policy=permissions.PLUGINS_V2, since=V2, view=Plain("plugins", list[PluginView]))
def plugins(_call: Call) -> list[dict[str, object]]:
    """The plugins there are."""
    return [_PLUGIN]


@PLUGINS.get("/{name}", policy=permissions.PLUGIN_V1, until=V1, view=Plain("plugin", PluginView))
@PLUGINS.get("/{name}", policy=permissions.PLUGIN_V2, since=V2, view=Plain("plugin", PluginView))
def plugin(_call: Call, name: str) -> dict[str, object]:
    """One plugin."""
    return _one(name)


@PLUGINS.get("/{name}/{release}", policy=permissions.VERSION_V1, until=V1, view=Plain("plugin", VersionView))
@PLUGINS.get("/{name}/{release}", policy=permissions.VERSION_V2, since=V2, view=Plain("plugin", VersionView))
def version(_call: Call, name: str, release: str) -> dict[str, object]:
    """One version of a plugin, and what can be configured there."""
    if release != VERSION:
        raise errors.NotFound(resource="Plugin version", id=release)
    configs = [
        {
            "name": config,
            "description": says,
            "config_type": "string",
            "config_values": None,
            "default_value": None,
            "is_optional": True,
            "scope": "cluster" if target == "cluster" else "node",
            "applicable_target": target,
            "priority": 1,
        }
        for target, config, says in CONFIGS
    ]
    more = {"node_processes": {"servers": [PROCESS]}, "required_image_tags": TAGS, "configs": configs}
    return {**_one(name), **more}


@IMAGES.get(policy=permissions.IMAGES_V1, until=V1, view=Plain("images", list[ImageView]), filters=ImageFilters)
@IMAGES.get(policy=permissions.IMAGES_V2, since=V2, view=Plain("images", list[ImageView]), filters=ImageFilters)
def images(_call: Call, filters: dict[str, object]) -> list[dict[str, object]]:
    """The one image, unless another name or tag is asked for."""
    is_asked_for = filters.get("name", IMAGE) == IMAGE and filters.get("tags", NAME) in TAGS
    return [_IMAGE] if is_asked_for else []


@IMAGES.get("/{id}", policy=permissions.IMAGE_V1, until=V1, view=Plain("image", ImageView))
@IMAGES.get("/{id}", policy=permissions.IMAGE_V2, since=V2, view=Plain("image", ImageView))
def image(_call: Call, id: str) -> dict[str, object]:
    """One image."""
    if id != IMAGE_ID:
        raise errors.NotFound(resource="Image", id=id)
    return _IMAGE
