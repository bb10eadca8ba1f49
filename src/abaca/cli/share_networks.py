# SPDX-License-Identifier: Apache-2.0
"""`abaca share-network`: share networks, and their subnets, which may come and go while share servers serve there."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from abaca import errors
from abaca.cli import shown
from abaca.cli.options import Api, asking

if TYPE_CHECKING:
    from abaca.cli.client import Answer, Client

PATH = "/share-networks"
BRIEF = ("id", "name", "project_id", "status", "subnets", "updates_subnets")
WIDE = (
    *("id", "name", "description", "project_id", "status", "network_allocation_update_support"),
    *("share_network_subnets", "share_servers_in_error", "created_at", "updated_at"),
)
SUBNET = ("id", "availability_zone", "cidr", "gateway", "neutron_net_id", "neutron_subnet_id")
LOOK_AGAIN_S = 0.2

dry = click.option("--dry-run", "is_dry", is_flag=True, help="Only show which share servers would change, and why not.")
waiting = click.option("--wait", is_flag=True, help="Until all share servers have changed.")


@click.group("share-network")
def share_network() -> None:
    """See share networks, and change their subnets while they serve."""


@share_network.command("list")
@asking
@click.option("--status", help="Only in this status.")
@click.option("--project-id", help="Only of this project.")
@shown.listed
def list_(api: Api, *, output: shown.Output, **equal: str | None) -> None:
    """List share networks, the newest first."""
    with api.open() as client:
        shown.table(map(_brief, client.each(PATH, output.most, **equal)), output, brief=BRIEF, wide=WIDE)


@share_network.command("show")
@asking
@click.argument("network")
@shown.listed
def show(api: Api, network: str, *, output: shown.Output) -> None:
    """Show the subnets of a share network, which is said by name or id."""
    with api.open() as client:
        found = _network(client, _id_of(client, network))
        shown.table(found["share_network_subnets"], output, brief=SUBNET)


@share_network.command("add-subnet")
@asking
@click.argument("network")
@click.option("--neutron-net-id", help="The network beneath it; without it what the operator has as default.")
@click.option("--neutron-subnet-id", help="The subnet beneath it; together with the network.")
@click.option("--availability-zone", help="Without it for all zones that have none of their own.")
@dry
@waiting
def add_subnet(api: Api, network: str, *, is_dry: bool, wait: bool, **said: str | None) -> None:
    """Give a share network another subnet, and to all its share servers, if all of them say that they could."""
    body = {"subnet": {name: value for name, value in said.items() if value is not None}}
    with api.open() as client:
        network_id = _id_of(client, network)
        if is_dry:
            _show(client.post(f"{PATH}/{network_id}/subnets/plan", body)["plan"])
            return
        subnet = client.post(f"{PATH}/{network_id}/subnets", body)["subnet"]
        click.echo(f"{subnet['id']} is added")
        if wait:
            _wait(client, network_id)


@share_network.command("remove-subnet")
@asking
@click.argument("network")
@click.argument("subnet")
@click.option("--force", is_flag=True, help="Though somebody uses it: files that are open there are lost.")
@dry
@waiting
def remove_subnet(api: Api, network: str, subnet: str, *, force: bool, is_dry: bool, wait: bool) -> None:
    """Take a subnet, said by its id, the beginning of that, or its CIDR, from a share network that serves.

    What is attached from there moves to other export locations first. It is refused while an attachment could not, and
    while a rule lets in clients from that subnet.
    """
    with api.open() as client:
        network_id = _id_of(client, network)
        subnet_id = _subnet_id(_network(client, network_id), subnet)
        if is_dry:
            _show(client.get(f"{PATH}/{network_id}/subnets/{subnet_id}/removal-plan")["plan"])
            return
        client.delete(f"{PATH}/{network_id}/subnets/{subnet_id}", force=force or None)
        click.echo(f"{subnet_id} is taken away")
        if wait:
            _wait(client, network_id)
            if any(one["id"] == subnet_id for one in _network(client, network_id)["share_network_subnets"]):
                raise errors.Conflict(f"Subnet {subnet_id} stays; see abaca operation list --all for the reason.")


def _show(plan: Answer) -> None:
    for one in plan["share_servers"]:
        click.echo(f"share server {one['id']}: {one['refusal'] or 'would change'}")
    for one in plan["attachments"]:
        click.echo(f"attachment {one['attachment_id']}: moves from {one['export_location']} to {one['to']}")
    for reason in plan["uses"]:
        click.echo(f"in use, passed over with --force: {reason}")
    for reason in plan["refusals"]:
        click.echo(f"refused: {reason}")
    if not plan["is_possible"]:
        raise errors.Conflict("It is not possible now; nothing has changed.")
    click.echo("It is possible; nothing has changed.")


def _wait(client: Client, network_id: str) -> None:
    while (found := _network(client, network_id))["status"] == "network_change":
        time.sleep(LOOK_AGAIN_S)
    broken = found["share_servers_in_error"]
    if broken:
        raise errors.Conflict(f"Share network {found['id']} has share servers in error: {', '.join(broken)}.")
    click.echo(f"{found['id']} is {found['status']}")


def _network(client: Client, network_id: str) -> Answer:
    found = next(client.each(PATH, 1, id_prefix=network_id), None)
    if found is None:
        raise errors.NotFound(resource="Share network", id=network_id)
    return found


def _subnet_id(network: Answer, said: str) -> str:
    its = network["share_network_subnets"]
    ids = [one["id"] for one in its if one["id"].startswith(said) or one["cidr"] == said]
    if len(ids) == 1:
        return str(ids[0])
    if ids:
        raise errors.Conflict(f"Subnet {said} could be any of {', '.join(ids)}; say which one by its id.")
    raise errors.NotFound(resource="Share network subnet", id=said)


def _id_of(client: Client, said: str) -> str:
    return client.id_of(PATH, "Share network", said)


def _brief(row: Answer) -> dict[str, object]:
    its = ", ".join(one["cidr"] or "not looked at yet" for one in row["share_network_subnets"])
    return {**row, "subnets": its, "updates_subnets": row["network_allocation_update_support"]}
