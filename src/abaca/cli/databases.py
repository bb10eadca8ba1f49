# SPDX-License-Identifier: Apache-2.0
"""`abaca db`: bring the database to the revision that this release needs, and its counts to what is there."""

from __future__ import annotations

import contextlib

import click

from abaca import app
from abaca.cli import shown
from abaca.cli.options import Given, configured
from abaca.cli.state_directory import StateDirectory


@click.group()
def db() -> None:
    """Upgrade the database, see where it is, and mend its counts."""


@db.command()
@configured
def upgrade(given: Given) -> None:
    """Bring the database to this release's revision, in one transaction.

    Programs work on the schema of their own release only, so stop all of them first, and start those of this release
    afterwards.
    """
    from abaca.db.engine import schema

    loaded = given.load().settings
    if loaded.uses_sqlite:
        state = StateDirectory(loaded.state_path)
        state.prepare()
        state.make_sqlite(loaded.sqlite_file)
    try:
        before, after = schema.upgrade(loaded.database_url)
    except ImportError as error:
        raise app.missing(error) from None
    click.echo(f"The database is at revision {after}." if before == after else f"{before or 'empty'} -> {after}")


@db.command()
@configured
def version(given: Given) -> None:
    """Say at which revision the database is, and which one this release needs."""
    from abaca.db import migrations
    from abaca.db.engine import schema

    database = app.open_database(given.load().settings)
    with contextlib.closing(database):
        found = schema.revision(database)
    click.echo(f"The database is at revision {found or 'none'}; this release needs {migrations.HEAD}.")


@db.command()
@configured
@click.option("--dry-run", "is_dry", is_flag=True, help="Only show what is wrong.")
@shown.listed
def recount(given: Given, *, is_dry: bool, output: shown.Output) -> None:
    """Make what is counted (use of quotas, room in pools, attachments) what is there; show what was wrong.

    They are kept exact by every change; this is for after a change by hand. It may run at any time, and leaves out what
    is being extended meanwhile. It takes some 20 s for a million shares; requests wait only for the counts of their own
    project or pool, where these are wrong.
    """
    from abaca.db.engine import schema
    from abaca.reconcile import recounting

    database = app.open_database(given.load().settings)
    with contextlib.closing(database):
        schema.check(database)
        found = recounting.recount(database, is_dry=is_dry)
    rows = [one._asdict() for one in found.quotas]
    rows += [
        {"pool": one.host, "resource": "gigabytes", "counted": one.counted, "real": one.real} for one in found.pools
    ]
    rows += [{"resource": "attachments", **found.attachments._asdict()}] if found.attachments is not None else []
    if rows or not output.is_for_people:
        shown.table(rows, output, brief=("project_id", "scope", "pool", "resource", "counted", "real"))
    else:
        click.echo("All counts are right.")
