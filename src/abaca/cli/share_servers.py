# SPDX-License-Identifier: Apache-2.0
"""`abaca share-server`: what share servers can, shown and set; and those in error made to serve again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from abaca.cli import shown
from abaca.cli.options import Api, asking
from abaca.domain.networks.share_servers import CAPABILITIES

if TYPE_CHECKING:
    from abaca.cli.client import Answer

PATH = "/share-servers"
BRIEF = ("id", "host", "status", "share_network", "subnets", "updates_directories", "updates_subnets", "many_subnets")
WIDE = (
    *("id", "project_id", "host", "status", "share_network_id", "share_network_name", "share_network_subnet_ids"),
    *(*CAPABILITIES, "unused_since", "created_at", "updated_at"),
)


@click.group("share-server")
def share_server() -> None:
    """See what share servers can, set it, and make those serve again that failed."""


@share_server.command("list")
@asking
@click.option("--host", help="Only of this back end, host@backend.")
@click.option("--status", help="Only in this status.")
@shown.listed
def list_(api: Api, *, output: shown.Output, **equal: str | None) -> None:
    """List share servers with what they can, the newest first."""
    with api.open() as client:
        found = client.each(PATH, output.most, **equal)
        shown.table((_brief(row) for row in found), output, brief=BRIEF, wide=WIDE)


@share_server.command("update-capabilities")
@asking
@click.argument("share_servers", metavar="SHARE_SERVER...", nargs=-1, required=True)
@click.option(
    "--capability",
    "names",
    multiple=True,
    required=True,
    type=click.Choice(CAPABILITIES),
    help="What they can; may be repeated.",
)
@click.option("--value", type=bool, required=True, help="true or false.")
def update_capabilities(api: Api, *, share_servers: tuple[str, ...], names: tuple[str, ...], value: bool) -> None:
    """Say what share servers can, each by its id or the beginning of that.

    A share server keeps what its back end could when the server was made. Say it anew for those that are older than
    what the back end can today. Back ends are not asked.
    """
    with api.open() as client:
        ids = [client.id_of(PATH, "Share server", one, named=False) for one in share_servers]
        for server_id in ids:
            client.put(f"{PATH}/{server_id}", {"share_server": dict.fromkeys(names, value)})
            click.echo(f"{server_id}: {', '.join(f'{name} is {str(value).lower()}' for name in names)}")


@share_server.command("mend")
@asking
@click.argument("share_servers", metavar="SHARE_SERVER...", nargs=-1, required=True)
def mend(api: Api, *, share_servers: tuple[str, ...]) -> None:
    """Make share servers on their back ends what the database says, each by its id or the beginning of that.

    One in error, to which a subnet could not be added say, is set up again on all subnets of its share network, and
    its shares that the back end serves are available again. One that is active is looked after while it serves.
    """
    with api.open() as client:
        ids = [client.id_of(PATH, "Share server", one, named=False) for one in share_servers]
        for server_id in ids:
            asked = client.post(f"{PATH}/{server_id}/mend", {})["share_server"]
            click.echo(
                f"{server_id}: {asked['status']}; `abaca operation list --resource {server_id}` shows how it goes on"
            )


def _brief(row: Answer) -> dict[str, object]:
    security, allocations, several = (row[name] for name in CAPABILITIES)
    return {
        **row,
        "share_network": row["share_network_name"] or row["share_network_id"],
        "subnets": len(row["share_network_subnet_ids"]),
        "updates_directories": security,
        "updates_subnets": allocations,
        "many_subnets": several,
    }
