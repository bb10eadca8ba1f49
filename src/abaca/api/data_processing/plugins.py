# SPDX-License-Identifier: Apache-2.0
"""The one plugin there is, which takes servers as they are."""

from __future__ import annotations

from abaca import errors
from abaca.api.data_processing import faults, permissions
from abaca.api.data_processing.versions import V1, V2
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Plain, View

NAME, VERSION = "abaca", "1.0"
PROCESS = "node"
# What images are to have, as clients filter them.
TAGS = [NAME, VERSION]

PLUGINS = Resource("plugins of data processing", "/plugins")


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
