# SPDX-License-Identifier: Apache-2.0
"""`abaca db`: bring the database to the revision that this release needs."""

from __future__ import annotations

import contextlib

import click

from abaca import app
from abaca.cli.options import Given, configured
from abaca.cli.state_directory import StateDirectory


@click.group()
def db() -> None:
    """Upgrade the database, and see where it is."""


@db.command()
@configured
def upgrade(given: Given) -> None:
    """Bring the database to this release's revision, in one transaction.

    Programs of this release and of the one before work on the new schema, so upgrade first and restart them afterwards.
    """
    from sqlalchemy import exc, make_url

    from abaca.db import schema

    loaded = given.load().settings
    if loaded.uses_sqlite:
        StateDirectory(loaded.state_path).prepare()
    try:
        before, after = schema.upgrade(loaded.database_url)
    except exc.OperationalError as error:
        raise schema.away(make_url(loaded.database_url), error) from None
    except ImportError as error:
        raise app.missing(error) from None
    click.echo(f"The database is at revision {after}." if before == after else f"{before or 'empty'} -> {after}")


@db.command()
@configured
def version(given: Given) -> None:
    """Say at which revision the database is, and which one this release needs."""
    from abaca.db import migrations, schema

    database = app.open_database(given.load().settings)
    with contextlib.closing(database):
        found = schema.revision(database)
    click.echo(f"The database is at revision {found or 'none'}; this release needs {migrations.HEAD}.")
