# SPDX-License-Identifier: Apache-2.0
"""`abaca service`: the services of all hosts, and those taken out that nobody will serve any more."""

from __future__ import annotations

import contextlib

import click

from abaca import app
from abaca.cli import shown
from abaca.cli.options import Given, configured
from abaca.domain.administration.services import NEVER


@click.group()
def service() -> None:
    """See the services of all hosts, and remove those of hosts that are gone."""


@service.command("list")
@configured
@shown.listed
def list_(given: Given, *, output: shown.Output) -> None:
    """List the services with their state, and how many share instances live there."""
    from abaca.db.administration import services
    from abaca.db.engine import schema

    loaded = given.load().settings
    with contextlib.closing(app.open_database(loaded)) as db:
        schema.check(db)
        with db.read() as tx:
            alive_since = services.alive_since(tx, loaded.service_down_time)
            held = services.instances_held(tx)
            rows = [
                {
                    "host": one.host,
                    "state": one.state(alive_since),
                    "zone": one.availability_zone,
                    "seen": None if one.heartbeat_at == NEVER else one.heartbeat_at,
                    "instances": held.get(one.host, 0),
                }
                for one in services.of_back_ends(tx)
            ]
    shown.table(rows, output, brief=("host", "state", "zone", "seen", "instances"))


@service.command()
@click.argument("host")
@configured
def remove(given: Given, *, host: str) -> None:
    """Remove the service of HOST (host@backend) with its pools, when no worker and no share is left there.

    A worker that serves it later makes it anew.
    """
    from abaca.db.administration import services
    from abaca.db.engine import schema

    loaded = given.load().settings
    with contextlib.closing(app.open_database(loaded)) as db:
        schema.check(db)
        with db.write() as tx:
            services.remove(tx, host, loaded.service_down_time)
    click.echo(f"The service {host} is removed.")
