# SPDX-License-Identifier: Apache-2.0
"""`abaca attachment`: which shares are on which servers, and why one is not there yet."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from abaca import errors
from abaca.cli import lookups, shown
from abaca.cli.explaining import explain
from abaca.cli.options import Api, asking
from abaca.domain.attachments import attachments as domain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from abaca.cli.client import Answer, Client

PATH = "/attachments"
BRIEF = ("id", "share", "server", "mount_point", "state", "verified", "problem")
WIDE = (
    *("id", "share_id", "share_name", "server_id", "server_name", "project_id", "mode", "mount_point", "tag"),
    *("access_level", "state", "wanted", "addresses", "export_location", "last_verified_at", "error", "attempts"),
    *("next_try_at", "created_at", "updated_at"),
)
ORPHANED = ("id", "server_id", "machine_id", "mount_point", "export_location", "attempts", "next_try_at")
LOOK_AGAIN_S = 0.2

waiting = click.option("--wait", is_flag=True, help="Until it has ended, and show how it gets on.")


@click.group()
def attachment() -> None:
    """Attach shares to servers, and see how that stands."""


attachment.add_command(explain)


@attachment.command("list")
@asking
@click.option("--share", help="Only of this share, by name or id.")
@click.option("--server", help="Only on this server, by name or id.")
@click.option("--mode", type=click.Choice(domain.MODES), help="Only those attached this way.")
@click.option("--state", type=click.Choice(sorted(domain.ATTACHMENT.states)), help="Only in this state.")
@shown.listed
def list_attachments(
    api: Api, *, share: str | None, server: str | None, output: shown.Output, **equal: str | None
) -> None:
    """List attachments, the newest first."""
    with api.open() as client:
        share_id = lookups.share_id(client, share) if share else None
        server_id = lookups.server_id(client, server) if server else None
        found = client.each(PATH, output.most, share_id=share_id, server_id=server_id, **equal)
        shown.table(map(_brief, found), output, brief=BRIEF, wide=WIDE)


@attachment.command("show")
@asking
@click.argument("attachment_id")
@shown.detailed
def show(api: Api, attachment_id: str, *, output: shown.Output) -> None:
    """Show everything about one attachment, and what to do about its error."""
    with api.open() as client:
        found = client.get(f"{PATH}/{_id_of(client, attachment_id)}")["attachment"]
    if output.is_for_people:
        error = found["error"] or {}
        named = {"error_code": error.get("code"), "error_text": error.get("message"), "mend": error.get("mend")}
        found = {**found, "error": None, **named}
    shown.one(found, output)


@attachment.command("add")
@asking
@click.argument("share")
@click.argument("servers", metavar="SERVER...", nargs=-1, required=True)
@click.option("--mount-point", help="Where it is mounted. Without it /mnt/ and the share's id.")
@click.option("--mode", type=click.Choice(domain.MODES), help="Without it network; virtiofs is by its hypervisor.")
@click.option("--tag", help="What a guest mounts it by, if its hypervisor hands it in. Without it the share's id.")
@click.option("--level", "access_level", type=click.Choice(["rw", "ro"]), help="Without it rw.")
@waiting
def add(api: Api, share: str, servers: tuple[str, ...], *, wait: bool, **said: str | None) -> None:
    """Attach a share to servers, each by name or id; a worker does it, `abaca attachment list` shows how it went."""
    with api.open() as client:
        ids, refused = lookups.server_ids(client, servers)
        done: Answer = {"attachments": [], "refused": []}
        if ids:
            body: dict[str, object] = {name: value for name, value in said.items() if value is not None}
            body |= {"share_id": lookups.share_id(client, share), "server_ids": ids}
            done = client.post(PATH, {"attachment": body})
        for one in done["attachments"]:
            click.echo(f"{one['id']} attaching")
        refused += [one["message"] for one in done["refused"]]
        if wait:
            refused += _wait(client, [one["id"] for one in done["attachments"]])
    if refused:
        raise errors.Conflict("\n".join(refused))


@attachment.command("remove")
@asking
@click.argument("attachment_id")
@click.option("--force", is_flag=True, help="Though files are open, or the machine cannot be entered.")
@waiting
def remove(api: Api, attachment_id: str, *, force: bool, wait: bool) -> None:
    """Detach a share from a server; if that is off, when it is on again, or with --force at once."""
    with api.open() as client:
        found = _id_of(client, attachment_id)
        client.delete(f"{PATH}/{found}", force=force or None)
        click.echo(f"{found} detaching")
        if wait and (problems := _wait(client, [found])):
            raise errors.Conflict("\n".join(problems))


@attachment.command("verify")
@asking
@click.argument("attachment_id")
@click.option("--force", is_flag=True, help="Where its export has moved: follow it though files are open, and lost.")
@waiting
def verify(api: Api, attachment_id: str, *, force: bool, wait: bool) -> None:
    """Have the machine looked at now, and the attachment made true where it is not."""
    with api.open() as client:
        found = _id_of(client, attachment_id)
        before = client.get(f"{PATH}/{found}")["attachment"]["last_verified_at"]
        client.post(f"{PATH}/{found}/verify", force=force or None)
        click.echo(f"{found} is looked at")
        if wait and (problems := _wait(client, [found], {found: before})):
            raise errors.Conflict("\n".join(problems))


@attachment.command("orphaned")
@asking
@shown.listed
def orphaned(api: Api, *, output: shown.Output) -> None:
    """List what forced detaching left on machines that could not be entered; it goes by itself when they can."""
    with api.open() as client:
        shown.table(client.each("/orphaned-mounts", output.most), output, brief=ORPHANED)


def _id_of(client: Client, said: str) -> str:
    return client.id_of(PATH, "Attachment", said, named=False)


def _wait(client: Client, ids: Sequence[str], looked_at: Mapping[str, str | None] | None = None) -> list[str]:
    """Follow attachments until none is on its way, with a line for each step; what went wrong.

    With `looked_at`, when each was last looked at, until they were again, or are active no more.
    """
    told: dict[str, str] = {}
    problems: list[str] = []
    busy = set(ids)
    while busy:
        for attachment_id in sorted(busy):
            found = next(client.each(PATH, 1, id=attachment_id), None)
            state = str(found["state"]) if found else "gone"
            if told.get(attachment_id) != state:
                click.echo(f"{attachment_id} {state}")
                told[attachment_id] = state
            if state not in domain.ATTACHMENT.busy and not _is_awaited(found, looked_at or {}):
                busy.discard(attachment_id)
                problems += _problem(found)
        if busy:
            time.sleep(LOOK_AGAIN_S)
    return problems


def _is_awaited(found: Answer | None, looked_at: Mapping[str, str | None]) -> bool:
    if found is None or found["state"] != "active" or found["id"] not in looked_at:
        return False
    return bool(found["last_verified_at"] == looked_at[found["id"]])


def _problem(found: Answer | None) -> list[str]:
    error = found["error"] if found else None
    return [f"{error['message']} {error['mend']}".strip()] if error else []


def _brief(row: Answer) -> dict[str, object]:
    return {
        **row,
        "share": row["share_name"] or row["share_id"],
        "server": row["server_name"] or row["server_id"],
        "verified": shown.age_of(row["last_verified_at"]),
        "problem": row["error"]["message"] if row["error"] else None,
    }
