# SPDX-License-Identifier: Apache-2.0
"""`abaca backend addresses`: who still mounts from an address that shall go."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from abaca.cli import lookups, shown
from abaca.cli.options import Api, asking

if TYPE_CHECKING:
    from abaca.cli.client import Answer, Client

COLUMNS = ("address", "exported", "shares", "attachments", "not_active")
LOOK_AGAIN_S = 1.0


@click.command("addresses")
@asking
@click.argument("host")
@click.option("--wait", is_flag=True, help="Wait until nothing is mounted from an address that is no longer exported.")
@shown.listed
def addresses(api: Api, host: str, *, wait: bool, output: shown.Output) -> None:
    """Show from which addresses the shares of a back end can be mounted, and from which attachments are.

    HOST is host@backend, or the name of either where one alone has that. An address that is not exported any more must
    not be taken from the host before nothing is mounted from it: processes with open files would hang. Mounts by hand
    are not seen here.
    """
    with api.open() as client:
        host = lookups.host(client, host)
        if wait:
            _wait(client, host)
        shown.table(client.each(_path(host), output.most), output, brief=COLUMNS)
        if output.is_for_people:
            warn(client, host)


def warn(client: Client, host: str) -> None:
    """Say which attachments are still mounted from addresses of a back end that are gone; nothing where none is."""
    _tell_left(client.each(_path(host)))


def _path(host: str) -> str:
    return f"/backends/{quote(host, safe='@')}/addresses"


def _tell_left(rows: Iterable[Answer]) -> None:
    """One line for each, and what to do."""
    is_any = False
    for row in rows:
        left = row["left_behind"]
        if not left:
            continue
        is_any = True
        number = row["attachments"]
        are = "1 attachment is" if number == 1 else f"{number} attachments are"
        click.echo(f"{row['address']} is not exported any more, and {are} mounted from it:")
        for one in left:
            why = f": {one['problem']}" if one["problem"] else ""
            click.echo(f"  {one['id']} on server {one['server_id']} at {one['mount_point']}, {one['state']}{why}")
        if number > len(left):
            click.echo(f"  and {number - len(left)} more")
    if is_any:
        click.echo(
            "Keep those addresses on the host until this is empty (--wait). Who has files open can close them, or "
            "lose them: abaca attachment verify --force ATTACHMENT"
        )


def _wait(client: Client, host: str) -> None:
    told = -1
    while True:
        number = sum(row["attachments"] for row in client.each(_path(host)) if not row["exported"])
        if number != told:
            click.echo(f"{number} attachments are mounted from addresses that are not exported any more", err=True)
            told = number
        if not number:
            return
        time.sleep(LOOK_AGAIN_S)
