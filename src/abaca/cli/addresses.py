# SPDX-License-Identifier: Apache-2.0
"""`abaca backend addresses`: who still mounts from an address that shall go."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from abaca import app, errors
from abaca.cli import shown
from abaca.cli.options import Given, configured

if TYPE_CHECKING:
    from abaca.db.engine.database import Database
    from abaca.domain.attachments.attachments import Attachment

COLUMNS = ("address", "exported", "shares", "attachments", "not_active")
# So many attachments are named.
SHOWN = 50


@click.command("addresses")
@configured
@click.argument("host")
@click.option("--wait", is_flag=True, help="Wait until nothing is mounted from an address that is no longer exported.")
@shown.listed
def addresses(given: Given, host: str, *, wait: bool, output: shown.Output) -> None:
    """Show from which addresses the shares of a back end can be mounted, and from which attachments are.

    HOST is host@backend. An address that is not exported any more must not be taken from the host before nothing is
    mounted from it: processes with open files would hang. Mounts by hand are not seen here.
    """
    from abaca.db.administration import services
    from abaca.db.attachments import addresses as db_addresses
    from abaca.db.engine import schema

    db = app.open_database(given.load().settings)
    try:
        schema.check(db)
        with db.read() as tx:
            if services.find(tx, host) is None:
                raise errors.NotFound(f"There is no service {services.SHARE_BINARY} on host {host}.")
        if wait:
            _wait(db, host)
        with db.read() as tx:
            rows = _rows(db_addresses.exported(tx, host), db_addresses.mounted(tx, host))
            left = db_addresses.left_behind(tx, host)
    finally:
        db.close()
    shown.table(rows, output, brief=COLUMNS)
    if output.is_for_people:
        tell_left(left)


def warn(given: Given, host: str) -> None:
    """Say which attachments are still mounted from addresses of a back end that are gone; nothing where none is."""
    from abaca.db.attachments import addresses as db_addresses

    db = app.open_database(given.load().settings)
    try:
        with db.read() as tx:
            tell_left(db_addresses.left_behind(tx, host))
    finally:
        db.close()


def tell_left(left: dict[str, list[Attachment]]) -> None:
    """One line for each, and what to do."""
    for address, rows in sorted(left.items()):
        click.echo(f"{address} is not exported any more, and {len(rows)} attachments are mounted from it:")
        for row in rows[:SHOWN]:
            why = f": {row.error_text}" if row.error_text else ""
            click.echo(f"  {row.id} on server {row.server_id} at {row.mount_point}, {row.state}{why}")
        if len(rows) > SHOWN:
            click.echo(f"  and {len(rows) - SHOWN} more")
    if left:
        click.echo(
            "Keep those addresses on the host until this is empty (--wait). Who has files open can close them, or "
            "lose them: abaca attachment verify --force ATTACHMENT"
        )


def _wait(db: Database, host: str) -> None:
    from abaca.db.attachments import addresses as db_addresses

    told = -1
    while True:
        with db.read() as tx:
            number = sum(map(len, db_addresses.left_behind(tx, host).values()))
        if number != told:
            click.echo(f"{number} attachments are mounted from addresses that are not exported any more", err=True)
            told = number
        if not number:
            return
        time.sleep(1)


def _rows(exported: dict[str, int], mounted: dict[str, list[Attachment]]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for address in sorted({*exported, *mounted}):
        there = mounted.get(address, [])
        found.append(
            {
                "address": address,
                "exported": address in exported,
                "shares": exported.get(address, 0),
                "attachments": len(there),
                "not_active": sum(row.state != "active" for row in there),
            }
        )
    return found
