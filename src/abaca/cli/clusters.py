# SPDX-License-Identifier: Apache-2.0
"""`abaca cluster`: shares on all nodes of a cluster, and how each of these is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from abaca import errors
from abaca.cli import shown
from abaca.cli.options import Api, asking
from abaca.domain.clusters import clusters as domain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from abaca.cli.client import Answer, Client

PATH = "/clusters"
BRIEF = ("id", "name", "status", "nodes", "shares", "problem")
WIDE = (
    *("id", "name", "description", "project_id", "user_id", "status", "wanted", "shares", "tolerance", "network"),
    *("is_protected", "error", "nodes", "next_try_at", "created_at", "updated_at"),
)
NODES = ("server", "state", "shares", "problem")
WIDE_NODES = ("id", "server_id", "server_name", "node_group_id", "state", "shares", "created_at")
DOCUMENTS = ("cloud-init", "ansible", "kubernetes", "fstab")
LOOK_AGAIN_S = 0.5
BAR = 40

waiting = click.option("--wait", is_flag=True, help="Until it has ended, and show how it gets on.")
a_share = click.option(
    "--share",
    "shares",
    multiple=True,
    metavar="SHARE[:/PATH[:ro]]",
    help="A share by name or id, where it is mounted, and rw or ro; again for another.",
)
SERVERS = "By name, id or hostlist such as node[001-128]; again for others."


@click.group()
def cluster() -> None:
    """Have shares on all nodes of a cluster, and on those that come later."""


@cluster.command("create")
@asking
@click.argument("name")
@a_share
@click.option("--server", "servers", multiple=True, help=SERVERS)
@click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="Take servers with this pair; again for another.")
@click.option("--name-pattern", help="Take servers whose name fits, such as 'node*'.")
@click.option("--server-group", metavar="ID", help="Take servers that are in this server group of Nova.")
@click.option("--count", type=click.IntRange(min=0), help="Take at most so many servers.")
@click.option("--tolerance", type=click.IntRange(min=0), default=0, help="So many nodes may fail. Without it none.")
@click.option("--network", help="Let in this network, such as 10.0.0.0/16, in the place of each node.")
@click.option("--project", "project_id", help="Whose servers and shares; without it that of who asks.")
@click.option("--allow-empty", is_flag=True, help="Though no server fits yet.")
@waiting
def create(
    api: Api,
    name: str,
    *,
    shares: tuple[str, ...],
    servers: tuple[str, ...],
    metadata: tuple[str, ...],
    wait: bool,
    **said: object,
) -> None:
    """Have shares on servers that are named, or on those that metadata and name select, as these come and go."""
    group: dict[str, object] = {"name": domain.ONLY_GROUP}
    pattern, of_group, count = said.pop("name_pattern"), said.pop("server_group"), said.pop("count")
    if metadata or pattern or of_group:
        group["selector"] = {"metadata": _pairs(metadata), "name": pattern, "server_group": of_group}
    if servers or "selector" not in group:
        group["servers"] = list(servers)
    if count is not None:
        group["count"] = count
    wish = {name: value for name, value in said.items() if value is not None}
    with api.open() as client:
        body = {**wish, "name": name, "shares": [_share(one) for one in shares], "node_groups": [group]}
        made = client.post(PATH, {"cluster": body})["cluster"]
        click.echo(f"{made['id']} {made['status']}")
        _wait(client, made["id"], is_wanted=wait)


@cluster.command("list")
@asking
@click.option("--status", type=click.Choice(sorted(domain.CLUSTER.states)), help="Only in this status.")
@shown.listed
def list_clusters(api: Api, *, status: str | None, output: shown.Output) -> None:
    """List clusters, the newest first."""
    with api.open() as client:
        found = client.each(PATH, output.most, status=status)
        shown.table(map(_brief, found) if output.form == "table" else found, output, brief=BRIEF, wide=WIDE)


@cluster.command("show")
@asking
@click.argument("cluster_name", metavar="CLUSTER")
@shown.detailed
def show(api: Api, cluster_name: str, *, output: shown.Output) -> None:
    """Show everything about one cluster, and how many of its nodes are in which state."""
    with api.open() as client:
        shown.one(_get(client, _id_of(client, cluster_name)), output)


@cluster.command("nodes")
@asking
@click.argument("cluster_name", metavar="CLUSTER")
@shown.listed
def nodes(api: Api, cluster_name: str, *, output: shown.Output) -> None:
    """List the nodes of a cluster, with their states and what keeps them."""
    with api.open() as client:
        found = client.each(f"{PATH}/{_id_of(client, cluster_name)}/nodes", output.most)
        shown.table(map(_brief_node, found) if output.form == "table" else found, output, brief=NODES, wide=WIDE_NODES)


@cluster.command("find-file")
@asking
@click.argument("cluster_name", metavar="CLUSTER")
@click.argument("file_url", metavar="URL")
@click.option("--mount", is_flag=True, help="Where no node has its share: mount it on all, at /mnt/ and its id.")
@waiting
def find_file(api: Api, cluster_name: str, file_url: str, *, mount: bool, wait: bool) -> None:
    """Say where each node group has a file of a share, which manila://SHARE-ID/PATH names."""
    with api.open() as client:
        found = _id_of(client, cluster_name)
        path = f"{PATH}/{found}/files"
        if mount:
            places = client.post(path, {"file": {"url": file_url}})["places"]
            _wait(client, found, is_wanted=wait)
        else:
            places = client.get(f"{path}?url={quote(file_url, safe='')}")["places"]
        for one in places:
            click.echo(f"{one['node_group']} {one['path']}")
        if not places:
            raise errors.NotFound(f"No node of cluster {cluster_name} has that share; --mount has it mounted.")


@cluster.command("connect")
@asking
@click.argument("cluster_name", metavar="CLUSTER")
@click.argument("document", type=click.Choice(DOCUMENTS))
@click.option("--group", help="What the nodes of this group have. Without it what all nodes have.")
@click.option("--os", "system", default="debian", show_default=True, help="The system of the machines.")
@click.option("--server", help="As this server would mount it: from the address that is nearest.")
def connect(api: Api, cluster_name: str, document: str, *, group: str | None, system: str, server: str | None) -> None:
    """Print what has machines mount the shares by themselves: a part of cloud-init, tasks of Ansible, volumes of
    Kubernetes, or lines of an fstab.
    """
    with api.open() as client:
        path = f"{PATH}/{_id_of(client, cluster_name)}/connect"
        said = client.get(path, node_group=group, os=system, server=server)["connect"]
    if document == "fstab":
        click.echo("\n".join(one["fstab"] for one in said["shares"]))
    else:
        click.echo(said[document.replace("-", "_")], nl=False)


@cluster.command("add-share")
@asking
@click.argument("cluster_name", metavar="CLUSTER")
@click.argument("shares", metavar="SHARE[:/PATH[:ro]]...", nargs=-1, required=True)
@waiting
def add_share(api: Api, cluster_name: str, shares: tuple[str, ...], *, wait: bool) -> None:
    """Have shares on all nodes too; one that is there already gets another path or level."""
    _change(api, cluster_name, {"add_shares": [_share(one) for one in shares]}, wait=wait)


@cluster.command("remove-share")
@asking
@click.argument("cluster_name", metavar="CLUSTER")
@click.argument("shares", metavar="SHARE...", nargs=-1, required=True)
@waiting
def remove_share(api: Api, cluster_name: str, shares: tuple[str, ...], *, wait: bool) -> None:
    """Take shares off all nodes."""
    _change(api, cluster_name, {"remove_shares": list(shares)}, wait=wait)


@cluster.command("scale")
@asking
@click.argument("cluster_name", metavar="CLUSTER")
@click.option("--group", default=domain.ONLY_GROUP, show_default=True, help="Which node group.")
@click.option("--add", multiple=True, metavar="SERVER", help=SERVERS)
@click.option("--remove", multiple=True, metavar="SERVER", help=SERVERS)
@click.option("--count", type=click.IntRange(min=0), help="So many servers a selector takes.")
@waiting
def scale(
    api: Api, cluster_name: str, *, group: str, count: int | None, wait: bool, **servers: tuple[str, ...]
) -> None:
    """Have more nodes, or fewer: shares are there before a node is ready, and off it before it goes."""
    said = {"add_servers": list(servers["add"]), "remove_servers": list(servers["remove"]), "count": count}
    told = {name: value for name, value in said.items() if value not in (None, [])}
    if not told:
        raise click.UsageError("Say --add, --remove or --count.")
    _change(api, cluster_name, {"node_groups": [{"name": group, **told}]}, wait=wait)


@cluster.command("remove-group")
@asking
@click.argument("cluster_name", metavar="CLUSTER")
@click.argument("groups", metavar="GROUP...", nargs=-1, required=True)
@waiting
def remove_group(api: Api, cluster_name: str, groups: tuple[str, ...], *, wait: bool) -> None:
    """Have node groups no more: all shares are taken off their nodes, and the servers stay."""
    _change(api, cluster_name, {"remove_node_groups": list(groups)}, wait=wait)


@cluster.command("wait")
@asking
@click.argument("cluster_name", metavar="CLUSTER")
def wait_for(api: Api, cluster_name: str) -> None:
    """Wait until nothing of a cluster is on its way; fails where it is in error."""
    with api.open() as client:
        _wait(client, _id_of(client, cluster_name), is_wanted=True)


@cluster.command("watch")
@asking
@click.argument("cluster_name", metavar="CLUSTER")
def watch(api: Api, cluster_name: str) -> None:
    """Show a line for each node as its state changes, and how many are ready, until nothing is on its way."""
    with api.open() as client:
        cluster_id = _id_of(client, cluster_name)
        told: dict[str, str] = {}
        while True:
            found = _get(client, cluster_id)
            for node in client.each(f"{PATH}/{cluster_id}/nodes"):
                line = _line(node)
                if told.get(node["id"]) != line:
                    click.echo(line)
                    told[node["id"]] = line
            click.echo(_bar(found))
            if found["status"] not in domain.CLUSTER.busy:
                return
            time.sleep(LOOK_AGAIN_S)


@cluster.command("delete")
@asking
@click.argument("cluster_name", metavar="CLUSTER")
@click.option("--force", is_flag=True, help="Though files are open, or nodes do not answer.")
@waiting
def delete(api: Api, cluster_name: str, *, force: bool, wait: bool) -> None:
    """Take all shares of a cluster off its nodes; these stay."""
    with api.open() as client:
        found = _id_of(client, cluster_name)
        client.delete(f"{PATH}/{found}", force=force or None)
        click.echo(f"{found} deleting")
        _wait(client, found, is_wanted=wait)


def _id_of(client: Client, said: str) -> str:
    return client.id_of(PATH, "Cluster", said)


def _get(client: Client, cluster_id: str) -> Answer:
    found: Answer = client.get(f"{PATH}/{cluster_id}")["cluster"]
    return found


def _change(api: Api, said: str, body: dict[str, object], *, wait: bool) -> None:
    with api.open() as client:
        changed = client.patch(f"{PATH}/{_id_of(client, said)}", {"cluster": body})["cluster"]
        click.echo(f"{changed['id']} {changed['status']}")
        _wait(client, changed["id"], is_wanted=wait)


def _wait(client: Client, cluster_id: str, *, is_wanted: bool) -> None:
    """Follow a cluster until nothing of it is on its way. Raises `Conflict` with what is wrong."""
    told = ""
    while is_wanted:
        try:
            found = _get(client, cluster_id)
        except errors.AbacaError as error:
            if error.status != errors.NotFound.status:
                raise
            click.echo(f"{cluster_id} gone")
            return
        line = _bar(found)
        if line != told:
            click.echo(line)
            told = line
        if found["status"] not in domain.CLUSTER.busy:
            if found["status"] == "error":
                raise errors.Conflict(f"{found['error']['message']} {found['error']['mend']}".strip())
            return
        time.sleep(LOOK_AGAIN_S)


def _bar(found: Answer) -> str:
    """`[######......] 6 of 12 ready, 1 error: active`."""
    states, total = found["node_states"], found["nodes"]
    ready = states.get("ready", 0)
    full = BAR * ready // total if total else 0
    others = [f"{number} {state}" for state, number in sorted(states.items()) if state != "ready"]
    return f"[{'#' * full}{'.' * (BAR - full)}] {', '.join([f'{ready} of {total} ready', *others])}: {found['status']}"


def _line(node: Answer) -> str:
    problem = _problem(node)
    return f"{node['server_name'] or node['server_id']} {node['state']}" + (f": {problem}" if problem else "")


def _problem(node: Answer) -> str:
    return "; ".join(one["message"] for one in node["shares"] if one["message"])


def _share(said: str) -> dict[str, object]:
    """`docs:/data:ro` as the API takes it."""
    name, *more = said.split(":")
    if len(more) > 2:
        raise click.UsageError(f"{said} is not SHARE[:/PATH[:ro]].")
    found: dict[str, object] = {"id": name}
    if more and more[0]:
        found["path"] = more[0]
    if len(more) == 2:
        found["access_level"] = more[1]
    return found


def _pairs(said: Sequence[str]) -> dict[str, str]:
    found = {}
    for one in said:
        key, equals, value = one.partition("=")
        if not equals:
            raise click.UsageError(f"{one} is not KEY=VALUE.")
        found[key] = value
    return found


def _brief(row: Answer) -> dict[str, object]:
    problem = row["error"]["message"] if row["error"] else None
    return {**row, "shares": len(row["shares"]), "problem": problem}


def _brief_node(row: Answer) -> dict[str, object]:
    shares = ", ".join(f"{one['path']} {one['state']}" for one in row["shares"])
    return {**row, "server": row["server_name"] or row["server_id"], "shares": shares, "problem": _problem(row)}
