# SPDX-License-Identifier: Apache-2.0
"""`abaca attachment explain` and `abaca server check`: each step of the way tried, and ticked.

Beside the database they are tried from this host, as a worker here would, so that wants a host that has the workers'
keys, and a user who may read them. Of a service elsewhere one of its workers tries them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from abaca import app
from abaca.cli import lookups, shown
from abaca.cli.options import Api, asking

if TYPE_CHECKING:
    from abaca.cli.client import Answer
    from abaca.db.engine.database import Database
    from abaca.nodes.contract import Finding
    from abaca.operations.attachments.attachment_parts import AttachmentParts

COLUMNS = ("result", "step", "says")
_RESULTS = {True: "ok", False: "FAILS", None: "?"}


@click.command("explain")
@asking
@click.argument("attachment_id")
@shown.detailed
def explain(api: Api, attachment_id: str, *, output: shown.Output) -> None:
    """Try each step that an attachment needs: key, SSH, sudo, route, port, rule, mount.

    It is tried from this host, or with --url and --os-cloud by a worker there. It changes nothing, and ends with
    status 1 when a step fails.
    """
    from abaca.operations.attachments import way_findings

    with api.open() as client:
        found = client.id_of("/attachments", "Attachment", attachment_id, named=False)
        if not api.is_here:
            _tell_examined(client.post(f"/attachments/{found}/explain"), output)
            return
    with _parts(api) as (db, parts):
        _tell(_plain(way_findings.of_attachment(db, parts, found)), output)


@click.command("check")
@asking
@click.argument("name_or_id")
@shown.detailed
def check(api: Api, name_or_id: str, *, output: shown.Output) -> None:
    """Try whether workers could mount shares on a server: key, SSH, host key, login, sudo, client.

    It is tried from this host, or with --url and --os-cloud by a worker there. It changes nothing, and ends with
    status 1 when a step fails.
    """
    from abaca.operations.attachments import way_findings

    with api.open() as client:
        found = lookups.server_id(client, name_or_id)
        if not api.is_here:
            _tell_examined(client.post(f"/servers/{found}/check"), output)
            return
    with _parts(api) as (_, parts):
        _tell(_plain(way_findings.of_server(parts, found)), output)


@contextlib.contextmanager
def _parts(api: Api) -> Iterator[tuple[Database, AttachmentParts]]:
    settings = api.given.load().settings
    with contextlib.closing(app.open_database(settings)) as db:
        queue = app.serve_nodes(settings, db)
        try:
            yield db, queue.parts
        finally:
            queue.parts.stop()


def _plain(found: Sequence[Finding]) -> list[Answer]:
    return [{"step": one.name, "is_well": one.is_well, "says": one.said} for one in found]


def _tell_examined(answer: Answer, output: shown.Output) -> None:
    examined: Mapping[str, Sequence[Answer]] = answer["examined"]
    if output.is_for_people:
        click.echo(f"Tried by the worker on {examined['host']}:", err=True)
    _tell(examined["findings"], output)


def _tell(found: Sequence[Answer], output: shown.Output) -> None:
    rows = [{"result": _RESULTS[one["is_well"]], "step": one["step"], "says": one["says"]} for one in found]
    if output.is_for_people:
        for row in rows:
            click.echo(f"{row['result']:<6}{row['step']:<12}{row['says']}")
    else:
        shown.table(rows, output, brief=COLUMNS)
    if any(one["is_well"] is False for one in found):
        raise click.exceptions.Exit(1)
