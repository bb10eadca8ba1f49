# SPDX-License-Identifier: Apache-2.0
"""What clients of data processing say, made into what is kept: shares, node groups, and which servers these take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from abaca import errors
from abaca.api.clusters import reading
from abaca.api.data_processing import faults, plugins
from abaca.api.data_processing.said import ClusterFields, GroupBody, GroupFields, ShareBody
from abaca.db.clusters import clusters, templates
from abaca.domain.clusters import clusters as domain
from abaca.domain.clusters.clusters import Selector, WantedShare
from abaca.http import bodies
from abaca.http.bodies import UNSET, UnsetType
from abaca.http.pipeline import Call
from abaca.operations.clusters.cluster_accept import GroupChange

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.clusters.templates import Kind, Template

Said = dict[str, object]

# What node groups, and clusters, keep of what is said of them.
GROUP = ("flavor_id", "image_id", "node_processes", "node_configs", "availability_zone", "use_autoconfig")
CLUSTER = (
    "cluster_configs",
    "default_image_id",
    "neutron_management_network",
    "anti_affinity",
    "use_autoconfig",
    "domain_name",
)
# What configs are known, by target.
_CONFIGS = {target: tuple(name for of, name, _ in plugins.CONFIGS if of == target) for target in ("servers", "cluster")}
# A group is not more text than this.
_LONGEST = 16_384


def template(call: Call, tx: Tx, kind: Kind, template_id: str) -> Template:
    """A template of the caller's project that something is made of. Raises `InvalidReference`."""
    found = templates.show(tx, kind, template_id)
    if found is None or found.project_id != call.caller.project_id:
        raise faults.InvalidReference(f"There is no template of that kind with the id {template_id}.")
    return found


def shares(
    call: Call, tx: Tx, project_id: str, said: Sequence[ShareBody], where: str, *, now: bool
) -> list[WantedShare]:
    """The shares of one list, for nodes of a project.

    `now` they must be such that they can be mounted, and may become so later otherwise. Raises `NoFileService`,
    `InvalidReference` for a share that is not the project's or that nobody can mount, and `InvalidData` for a path.
    """
    if said and not call.caller.has_file_service:
        raise faults.NoFileService
    with faults.as_data():
        domain.check_number_of_shares(len(said), where)
        try:
            found = [
                reading.wanted_share(call, tx, project_id, (one.id, one.path, one.access_level), now=now)
                for one in said
            ]
        except (errors.NotFound, errors.Conflict, errors.Forbidden) as wrong:
            raise faults.InvalidReference(wrong.message) from None
        return domain.check_shares(found, where)


def sent_shares(said: Sequence[ShareBody]) -> list[Said]:
    """As templates keep them: without a path where none is said."""
    return [{"id": one.id, "path": one.path, "access_level": one.access_level} for one in said]


def kept_shares(content: Mapping[str, object]) -> list[ShareBody]:
    """The shares that a template keeps."""
    found = content.get("shares")
    return [ShareBody(**one) for one in found] if isinstance(found, list) else []


def kept_groups(content: Mapping[str, object]) -> list[Said]:
    """The node groups that a template keeps."""
    found = content.get("node_groups")
    return list(found) if isinstance(found, list) else []


def fields(said: GroupFields | ClusterFields, names: Sequence[str]) -> Said:
    """What is said of some fields."""
    return {name: value for name in names if (value := getattr(said, name)) is not UNSET}


def group(call: Call, tx: Tx, said: GroupBody) -> Said:
    """A node group as a template keeps it: what is not said is as its own template says now."""
    found: Said = {}
    if not isinstance(said.node_group_template_id, UnsetType):
        content = template(call, tx, "node_group", said.node_group_template_id).content
        found = {name: value for name, value in content.items() if name in (*GROUP, "shares")}
        found["node_group_template_id"] = said.node_group_template_id
    found |= {**fields(said, GROUP), "name": domain.check_name(said.name, "node group"), "count": said.count}
    if not isinstance(said.shares, UnsetType):
        found["shares"] = sent_shares(said.shares)
    if not 0 <= said.count <= domain.MOST_NODES:
        raise faults.InvalidData(f"'count' must be a number of nodes from 0 to {domain.MOST_NODES}.")
    configs(found.get("node_configs"), ("servers",), "node_configs")
    check_size(found)
    return found


def check_size(said: Said) -> None:
    """Raises `InvalidData` for more than is kept."""
    if len(msgspec.json.encode(said)) > _LONGEST:
        raise faults.InvalidData(f"A node group, or what is beside those, has at most {_LONGEST} bytes.")


def groups(call: Call, tx: Tx, said: Sequence[GroupBody]) -> list[Said]:
    """Some node groups, with names of their own."""
    with faults.as_data():
        domain.check_number_of_groups(len(said))
    found = [group(call, tx, one) for one in said]
    if len({one["name"] for one in found}) < len(found):
        raise faults.InvalidData("Two node groups have one name; each needs a name of its own.")
    return found


def check_together(
    call: Call, tx: Tx, project_id: str, of_cluster: Sequence[WantedShare], said: Sequence[Said], *, now: bool
) -> dict[str, list[WantedShare]]:
    """The shares of node groups by name. Raises `InvalidData` for what would meet on a node, and all that `shares`
    does.
    """
    found = {
        str(one["name"]): shares(call, tx, project_id, kept_shares(one), f"node group {one['name']!r}", now=now)
        for one in said
    }
    with faults.as_data():
        domain.check_together(of_cluster, found)
    return found


def change(said: Said, wanted: Sequence[WantedShare], cluster_configs: object) -> GroupChange:
    """A new node group of a cluster. Raises `InvalidData` where nothing says which servers it takes."""
    of_cluster = configs(cluster_configs, ("servers", "cluster"), "cluster_configs").get("servers", {})
    of_group = configs(said.get("node_configs"), ("servers",), "node_configs").get("servers", {})
    selector = _selector(str(said["name"]), {**of_cluster, **of_group})
    count = said["count"]
    made = clusters.new_group(str(said["name"]), wanted, selector, count if isinstance(count, int) else None)
    told = {name: value for name, value in said.items() if name in (*GROUP, "node_group_template_id")}
    return GroupChange(group=structs.replace(made, told=told), is_new=True)


def _selector(name: str, said: Mapping[str, object]) -> Selector:
    if not said:
        raise faults.InvalidData(
            f"Node group {name!r} does not say which servers it takes: send node_configs such as "
            '{"servers": {"name": "worker-*"}} or {"servers": {"metadata": {"role": "worker"}}}.'
        )
    pattern, pairs = said.get("name"), said.get("metadata")
    if isinstance(pairs, str):
        pairs = dict(one.strip().partition("=")[::2] for one in pairs.split(",") if one.strip())
    of_group = said.get("server_group")
    wrong = faults.InvalidData(
        "Of servers 'name' is a pattern of text, 'server_group' an id, 'metadata' an object or role=worker."
    )
    if (
        not isinstance(pattern, str | None)
        or not isinstance(of_group, str | None)
        or not isinstance(pairs, dict | None)
    ):
        raise wrong
    if max(len(pattern or ""), len(of_group or "")) > 255:
        raise wrong
    with faults.as_data():
        return reading.selector(pairs, pattern, of_group)


def configs(said: object, targets: Sequence[str], what: str) -> dict[str, dict[str, object]]:
    """Configs by target and name. Raises `InvalidData` for what nobody knows."""
    found: dict[str, dict[str, object]] = {}
    for target, values in (said if isinstance(said, dict) else {}).items():
        if target not in targets or not isinstance(values, dict) or not values.keys() <= set(_CONFIGS[target]):
            known = " and ".join(f"{{{one!r}: {{{', '.join(_CONFIGS[one])}}}}}" for one in targets)
            raise faults.InvalidData(f"{what} knows {known}, and no {str(target)[:64]!r} of another kind.")
        found[target] = values
    return found


def cluster_values(cluster_configs: object) -> tuple[Said, bool]:
    """What configs say of a cluster itself, and whether its groups may take nothing yet."""
    said = configs(cluster_configs, ("servers", "cluster"), "cluster_configs").get("cluster", {})
    values: Said = {"tolerance": 0, "network": None}
    with faults.as_data():
        if "tolerance" in said:
            values["tolerance"] = _number(said["tolerance"])
        if "network" in said:
            values["network"] = reading.network(str(said["network"]))
        return values, bodies.flag("allow_empty", said.get("allow_empty", False))


def _number(said: object) -> int:
    if not str(said).isascii() or not str(said).isdigit() or not int(str(said)[:9]) <= domain.MOST_NODES:
        raise faults.InvalidData(f"'tolerance' must be a number of nodes from 0 to {domain.MOST_NODES}.")
    return int(str(said)[:9])
