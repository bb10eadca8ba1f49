# SPDX-License-Identifier: Apache-2.0
"""`abaca attachment explain` and `abaca server check`: each step of the way tried from this host, and ticked.

They log in as a worker does, so they want a host that has the workers' keys, and a user who may read them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from abaca import app, errors
from abaca.cli import shown
from abaca.cli.options import Given, configured
from abaca.cli.server_names import find_server
from abaca.domain.attachments import attachments as domain
from abaca.domain.attachments import mount_instructions
from abaca.nodes.contract import Finding, NodeError

if TYPE_CHECKING:
    from abaca.compute.contract import Server
    from abaca.db.engine.database import Database
    from abaca.nodes.contract import Seen
    from abaca.operations.attachments.attachment_parts import AttachmentParts
    from abaca.settings import Settings

COLUMNS = ("result", "step", "says")
_RESULTS = {True: "ok", False: "FAILS", None: "?"}


@click.command("explain")
@configured
@click.argument("attachment_id")
@shown.detailed
def explain(given: Given, attachment_id: str, *, output: shown.Output) -> None:
    """Try each step that an attachment needs, from this host: key, SSH, sudo, route, port, rule, mount.

    It changes nothing, and ends with status 1 when a step fails.
    """
    from abaca.db.attachments import attachments

    with _parts(given) as (db, settings, parts):
        with db.read() as tx:
            row = attachments.show(tx, attachment_id)
        if row is None:
            raise errors.NotFound(resource="Attachment", id=attachment_id)
        found = [*_of_attachment(db, row), *_of_machine(db, settings, parts, row)]
    _tell(found, output)


@click.command("check")
@configured
@click.argument("name_or_id")
@shown.detailed
def check(given: Given, name_or_id: str, *, output: shown.Output) -> None:
    """Try from this host whether workers could mount shares on a server: key, SSH, host key, login, sudo, client.

    It changes nothing, and ends with status 1 when a step fails.
    """
    with _parts(given) as (db, settings, parts):
        server = find_server(app.compute(settings, db), name_or_id)
        if server is None:
            raise errors.NotFound(resource="Server", id=name_or_id)
        found = [_of_server(server)]
        try:
            found += parts.nodes.probe(parts.login(server.id))
        except errors.AbacaError as error:
            found.append(Finding("way in", False, error.message))
    _tell(found, output)


@contextlib.contextmanager
def _parts(given: Given) -> Iterator[tuple[Database, Settings, AttachmentParts]]:
    from abaca.db.engine import schema
    from abaca.operations.attachments.attachment_parts import AttachmentParts

    settings = given.load().settings
    db = app.open_database(settings)
    try:
        schema.check(db)
        parts = AttachmentParts(app.compute(settings, db), app.nodes(settings))
        try:
            yield db, settings, parts
        finally:
            parts.stop()
    finally:
        db.close()


def _of_attachment(db: Database, row: domain.Attachment) -> list[Finding]:
    """What the database says: its state, what is under way, and its access rules."""
    from abaca.db.attachments import attachments
    from abaca.db.journal import keys
    from abaca.db.shares import access_rules

    why = f": {row.error_text} {domain.mend(row.error_code)}" if row.error_code else ""
    found = [Finding("attachment", row.state == "active", f"{row.state}, wanted {row.wanted}{why}")]
    with db.read() as tx:
        for work in keys.holders(tx, attachments.key(row.id)):
            waits = work.wait["what"] if work.wait else work.error_text
            found.append(Finding("work", None, f"{work.kind} is {work.state}{f', for {waits}' if waits else ''}"))
        rules = {rule.client: rule for rule in access_rules.of_addresses(tx, row.share_id, row.addresses)}
    for address in row.addresses:
        rule = rules.get(address)
        if rule is None:
            found.append(Finding("rule", False, f"the share has no access rule for {address}"))
            continue
        is_enough = rule.mounted_state == "active" and row.access_level in (rule.access_level, "ro")
        found.append(Finding("rule", is_enough, f"{address} {rule.access_level}, {rule.mounted_state}"))
    return found


def _of_machine(db: Database, settings: Settings, parts: AttachmentParts, row: domain.Attachment) -> list[Finding]:
    """What its server and the machine that mounts for it say."""
    from abaca.operations.attachments import attachment_attach

    with db.read() as tx:
        plan = attachment_attach.plan_of(tx, row)
    source = row.source or plan.wanted_source
    if source is None:
        return [Finding("export", False, "the share has no export location")]
    found = [Finding("export", source == plan.wanted_source, source)]
    try:
        server = parts.servers.show(row.server_id)
        if server is None:
            return [*found, Finding("server", False, f"server {row.server_id} is not known any more")]
        found.append(_of_server(parts.mounting(server, row.mode)))
        login, guest = parts.way(row.server_id, row.mode, row.tag)
    except errors.AbacaError as error:
        return [*found, Finding("way in", False, error.message)]
    address = mount_instructions.split(source)[0]
    found += parts.nodes.probe(login, plan.protocol, address, settings.nodes.nfs_port)
    if any(
        step.is_well is False and step.name in ("key", "ssh", "host key", "login", "sudo", "shell") for step in found
    ):
        return found
    try:
        seen = parts.nodes.look(login, attachment_attach.mount_of(plan, source, guest))
    except NodeError as error:
        return [*found, Finding("mount", False, error.message)]
    where = f"{row.mount_point} on {login.host}"
    if seen is None:
        return [*found, Finding("mount", False, f"nothing of it is mounted at {where}")]
    return [*found, Finding("mount", True, where), *_of_options(seen, settings.nodes.mount_options)]


def _of_options(seen: Seen, wanted: Sequence[str]) -> list[Finding]:
    """What a mount lacks that was made before its options were asked for; nothing when it has all."""
    lacking = ",".join(one for one in wanted if one not in seen.options)
    if not lacking:
        return []
    mend = f"detach and attach it, or run there: mount -o remount,{lacking} {seen.mount_point}"
    return [Finding("options", None, f"mounted without {lacking}, and so until it is mounted anew: {mend}")]


def _of_server(server: Server) -> Finding:
    return Finding("server", server.status == "ACTIVE", f"{server.name} ({server.id}) is {server.status}")


def _tell(found: Sequence[Finding], output: shown.Output) -> None:
    rows = [{"result": _RESULTS[one.is_well], "step": one.name, "says": one.said} for one in found]
    if output.is_for_people:
        for row in rows:
            click.echo(f"{row['result']:<6}{row['step']:<12}{row['says']}")
    else:
        shown.table(rows, output, brief=COLUMNS)
    if any(one.is_well is False for one in found):
        raise click.exceptions.Exit(1)
