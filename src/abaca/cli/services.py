# SPDX-License-Identifier: Apache-2.0
"""`abaca service`: the services of all hosts, and those taken out that nobody will serve any more."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from abaca.cli import lookups, shown
from abaca.cli.options import Api, asking

if TYPE_CHECKING:
    from abaca.cli.client import Answer

PATH = "/services"
BRIEF = ("host", "state", "status", "zone", "seen", "instances")
WIDE = ("host", "state", "status", "zone", "last_seen_at", "instances")


@click.group()
def service() -> None:
    """See the services of all hosts, and remove those of hosts that are gone."""


@service.command("list")
@asking
@shown.listed
def list_(api: Api, *, output: shown.Output) -> None:
    """List the services with their state, and how many share instances live there."""
    with api.open() as client:
        shown.table(map(_brief, client.each(PATH, output.most)), output, brief=BRIEF, wide=WIDE)


@service.command()
@asking
@click.argument("host")
def remove(api: Api, *, host: str) -> None:
    """Remove the service of HOST (host@backend) with its pools, when no worker and no share is left there.

    A worker that serves it later makes it anew.
    """
    with api.open() as client:
        host = lookups.host(client, host)
        client.delete(f"{PATH}/{quote(host, safe='@')}")
    click.echo(f"The service {host} is removed.")


def _brief(row: Answer) -> dict[str, object]:
    return {**row, "seen": shown.age_of(row["last_seen_at"])}
