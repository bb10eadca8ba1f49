# SPDX-License-Identifier: Apache-2.0
"""`abaca attachment`: which shares are on which servers, and why one is not there yet."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
import msgspec

from abaca import app, errors
from abaca.cli import shown
from abaca.cli.options import Given, configured
from abaca.domain.attachments import attachments as domain
from abaca.domain.attachments import mount_points

if TYPE_CHECKING:
    from abaca.compute.contract import Compute, Server
    from abaca.db.engine.database import Database, Tx
    from abaca.settings import Settings

COLUMNS = ("id", "share_id", "server_id", "mode", "mount_point", "tag", "state", "last_verified_at", "error_text")
SHOWN = (
    *("id", "share_id", "server_id", "project_id", "mode", "mount_point", "tag", "access_level", "state", "wanted"),
    *("addresses", "source", "last_verified_at", "is_forced", "error_code", "error_text", "attempts", "retry_at"),
    *("created_at", "updated_at"),
)
ORPHANED = ("id", "server_id", "machine_id", "mount_point", "source", "attempts", "retry_at")
MOST = 100_000


@click.group()
def attachment() -> None:
    """Attach shares to servers, and see how that stands."""


@attachment.command("list")
@configured
@click.option("--share", "share_id", help="Only of this share.")
@click.option("--server", "server_id", help="Only on this server, by name or id.")
@click.option("--mode", type=click.Choice(domain.MODES), help="Only those attached this way.")
@click.option("--state", type=click.Choice(sorted(domain.ATTACHMENT.states)), help="Only in this state.")
@shown.listed
def list_attachments(given: Given, *, output: shown.Output, **equal: str | None) -> None:
    """List attachments, the newest first."""
    from abaca.db.attachments import attachments as rows
    from abaca.db.engine.lists import Page

    asked = {name: value for name, value in equal.items() if value is not None}
    with _open(given) as (db, settings):
        if "server_id" in asked and (server := _server(app.compute(settings, db), asked["server_id"])) is not None:
            asked["server_id"] = server.id
        with db.read() as tx:
            found = rows.ATTACHMENTS.entities(tx, domain.Attachment, asked, Page(MOST))
    shown.table([msgspec.structs.asdict(one) for one in found], output, brief=COLUMNS, wide=SHOWN)


@attachment.command("show")
@configured
@click.argument("attachment_id")
@shown.detailed
def show(given: Given, attachment_id: str, *, output: shown.Output) -> None:
    """Show everything about one attachment, and what to do about its error."""
    with _open(given) as (db, _), db.read() as tx:
        row = _found(tx, attachment_id)
    fields = {name: getattr(row, name) for name in SHOWN} | {"mend": domain.mend(row.error_code)}
    shown.one({name: value for name, value in fields.items() if value is not None}, output)


@attachment.command("add")
@configured
@click.argument("share_id")
@click.argument("servers", metavar="SERVER...", nargs=-1, required=True)
@click.option("--mount-point", help="Where it is mounted. Without it /mnt/ and the share's id.")
@click.option("--mode", type=click.Choice(domain.MODES), help="Without it network; virtiofs is by its hypervisor.")
@click.option("--tag", help="What a guest mounts it by, if its hypervisor hands it in. Without it the share's id.")
@click.option("--level", "access_level", type=click.Choice(["rw", "ro"]), help="Without it rw.")
def add(given: Given, share_id: str, servers: tuple[str, ...], **said: str | None) -> None:
    """Attach a share to servers, by name or id; a worker does it, `abaca attachment list` shows how it went."""
    from abaca.db.shares import shares
    from abaca.operations.attachments import attachment_accept as accepting
    from abaca.operations.attachments.attachment_parts import hosts_of

    with _open(given) as (db, settings):
        compute = app.compute(settings, db)
        asked = {one: _server(compute, one) for one in servers}
        found = [*{server.id: server for server in asked.values() if server is not None}.values()]
        hosts, without = hosts_of(compute, found, said["mode"])
        lacking = dict(without)
        known = [server for server in found if server.id not in lacking]
        with db.write() as tx:
            shares.lock(tx, share_id)
            share = shares.find(tx, share_id)
            if share is None:
                raise errors.NotFound(resource="Share", id=share_id)
            request = accepting.AttachmentRequest(**said, roots=mount_points.ANYWHERE)
            done = accepting.accept(tx, share, known, request, None, hosts=hosts)
    for one in done.ids:
        click.echo(f"{one} attaching")
    missing = [f"Server {one} could not be found." for one, server in asked.items() if server is None]
    refused = [*missing, *(error.message for _, error in [*without, *done.refused])]
    if refused:
        raise errors.Conflict("\n".join(refused))


@attachment.command("remove")
@configured
@click.argument("attachment_id")
@click.option("--force", is_flag=True, help="Though files are open, or the machine cannot be entered.")
def remove(given: Given, attachment_id: str, *, force: bool) -> None:
    """Detach a share from a server; if that is off, when it is on again, or with --force at once."""
    from abaca.operations.attachments import attachment_detach

    with _open(given) as (db, _), db.write() as tx:
        attachment_detach.start(tx, _locked(tx, attachment_id), None, force=force)
    click.echo(f"{attachment_id} detaching")


@attachment.command("verify")
@configured
@click.argument("attachment_id")
def verify(given: Given, attachment_id: str) -> None:
    """Have the machine looked at now, and the attachment made true where it is not."""
    from abaca.operations.attachments import attachment_attach

    with _open(given) as (db, _), db.write() as tx:
        row = _locked(tx, attachment_id)
        if row.wanted == "detached":
            raise errors.Conflict(f"Attachment {attachment_id} is to be detached; there is nothing to verify.")
        if row.state not in domain.ATTACHMENT.busy:
            attachment_attach.start(tx, row, None)
    click.echo(f"{attachment_id} is looked at")


@attachment.command("orphaned")
@configured
@shown.listed
def orphaned(given: Given, *, output: shown.Output) -> None:
    """List what forced detaching left on machines that could not be entered; it goes by itself when they can."""
    from abaca.db.attachments import orphaned_mounts

    with _open(given) as (db, _), db.read() as tx:
        found = orphaned_mounts.every(tx)
    shown.table([msgspec.structs.asdict(orphan) for orphan in found], output, brief=ORPHANED)


@contextlib.contextmanager
def _open(given: Given) -> Iterator[tuple[Database, Settings]]:
    from abaca.db.engine import schema

    settings = given.load().settings
    db = app.open_database(settings)
    try:
        schema.check(db)
        yield db, settings
    finally:
        db.close()


def _server(compute: Compute, name_or_id: str) -> Server | None:
    """The server that an operator means. Raises `Conflict` when several are called so."""
    from abaca.compute.contract import Wanted

    by_id = compute.show(name_or_id)
    if by_id is not None:
        return by_id
    called = Wanted(name=f"^{re.escape(name_or_id)}$", only=lambda one: one.name == name_or_id, limit=3)
    named = compute.list(called)
    if len(named) > 1:
        ids = ", ".join(one.id for one in named)
        raise errors.Conflict(f"Several servers are called {name_or_id}; say which one by its id: {ids}")
    return named[0] if named else None


def _found(tx: Tx, attachment_id: str) -> domain.Attachment:
    from abaca.db.attachments import attachments as rows

    row = rows.show(tx, attachment_id)
    if row is None:
        raise errors.NotFound(resource="Attachment", id=attachment_id)
    return row


def _locked(tx: Tx, attachment_id: str) -> domain.Attachment:
    from abaca.db.shares import shares

    shares.lock(tx, _found(tx, attachment_id).share_id)
    return _found(tx, attachment_id)
