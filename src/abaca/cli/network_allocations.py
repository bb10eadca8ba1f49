# SPDX-License-Identifier: Apache-2.0
"""`abaca network-allocation`: what a network plug-in keeps elsewhere, beside what the database says."""

from __future__ import annotations

import contextlib

import click

from abaca import app
from abaca.cli import shown
from abaca.cli.options import Given, configured

_DONE = {True: "removed", False: "kept"}


@click.group(name="network-allocation")
def network_allocation() -> None:
    """Find addresses that share servers have left behind."""


@network_allocation.command()
@configured
@click.option("--dry-run", "is_dry", is_flag=True, help="Only show what differs.")
@click.option("--unknown", "with_unknown", is_flag=True, help="Remove also those of servers that nobody remembers.")
@shown.listed
def sweep(given: Given, *, is_dry: bool, with_unknown: bool, output: shown.Output) -> None:
    """Compare ports of the Neutron with the share servers, and remove those of servers that are deleted.

    Workers do so by themselves every hour. `leaked` is of a server that was deleted here; `unknown` of one that the
    journal does not remember; `spare` goes with its server; the port of a `lost` one was deleted by somebody else,
    and its address may be given to another. `left` is kept for a share server that was released from management and
    still answers there, until it is taken over again, or `abaca network-allocation release` says that it is gone.
    """
    from abaca.db.engine import schema
    from abaca.reconcile.network_allocations import NetworkAllocations

    settings = given.load().settings
    database = app.open_database(settings)
    with contextlib.closing(database):
        schema.check(database)
        allocations = NetworkAllocations(database, app.network_plugin(settings, database))
        found = list(allocations.sweep(is_dry=is_dry, with_unknown=with_unknown))
    rows = [
        {
            "kind": one.kind,
            "share_server_id": one.share_server_id,
            "ip_addresses": one.addresses,
            "port_id": one.id,
            "done": _DONE[one.is_removed],
        }
        for one in found
    ]
    if rows or not output.is_for_people:
        shown.table(rows, output, brief=("kind", "share_server_id", "ip_addresses", "port_id", "done"))
    else:
        click.echo("All addresses are those of share servers.")


@network_allocation.command()
@configured
@click.argument("allocation_id", metavar="ID")
def release(given: Given, allocation_id: str) -> None:
    """Give an address to others again that a share server has left which is gone from its back end.

    The ID is the `port_id` that `abaca network-allocation sweep` shows beside `left`.
    """
    from abaca.db.engine import schema

    settings = given.load().settings
    database = app.open_database(settings)
    with contextlib.closing(database):
        schema.check(database)
        if not app.network_plugin(settings, database).let_go(allocation_id):
            raise click.ClickException(
                f"No share server has left an address {allocation_id}; "
                "`abaca network-allocation sweep --dry-run` shows those that were."
            )
    click.echo("Other share servers may have it now.")
