# SPDX-License-Identifier: Apache-2.0
"""`abaca backend`: the back ends as the database knows them, from this host and from others."""

from __future__ import annotations

import datetime
import time
from typing import TYPE_CHECKING

import click
import msgspec

from abaca import app, errors
from abaca.cli import shown
from abaca.cli.options import Given, configured
from abaca.domain.administration.pools import Pool, parts
from abaca.domain.administration.services import NEVER, Service

if TYPE_CHECKING:
    from abaca.db.engine.database import Database, Tx
    from abaca.settings import Settings

COLUMNS = (
    "host",
    "state",
    "status",
    "seen",
    "pool",
    "total_gib",
    "free_gib",
    "promised_gib",
    "waiting",
    "running",
    "problem",
)

# Of what an ensuring found, so many are shown at its end.
SHOWN = 50


@click.group()
def backend() -> None:
    """See the back ends, and have their shares ensured."""


@backend.command("list")
@configured
@shown.listed
def list_backends(given: Given, *, output: shown.Output) -> None:
    """List back ends with their pools, and how many operations wait or run there.

    A back end that is configured on this host and has never been served yet is `new`. Where one cannot be served or
    does not answer, `problem` says why.
    """
    from abaca.db.engine import schema

    loaded = given.load().settings
    db = app.open_database(loaded)
    try:
        schema.check(db)
        with db.read() as tx:
            rows = _rows(tx, loaded)
    finally:
        db.close()
    shown.table(rows, output, brief=COLUMNS)


@backend.command("ensure")
@configured
@click.argument("host")
@click.option("--dry-run", is_flag=True, help="Change nothing, and find out what would change.")
@click.option("--watch", is_flag=True, help="Wait for the end, and show how far it is.")
def ensure(given: Given, host: str, *, dry_run: bool, watch: bool) -> None:
    """Make the shares of a back end what its configuration says, while it serves.

    HOST is host@backend, as `abaca backend list` shows it. Shares that are busy or broken are left out. If it is under
    way already, this joins it; if it is paused, it stays so until `abaca operation resume`.
    """
    from abaca.db.engine import schema
    from abaca.operations.administration import backend_ensure, backend_ensure_dry_run

    loaded = given.load().settings
    db = app.open_database(loaded)
    try:
        schema.check(db)
        with db.write() as tx:
            manner = backend_ensure.Manner(**loaded.ensure_manner)
            how = backend_ensure_dry_run if dry_run else backend_ensure
            asked = how.ask(tx, host, loaded.service_down_time, manner, None)
        does = "finds out what ensuring would change of" if dry_run else "ensures"
        click.echo(f"{asked.id} {does} the shares of {host}.")
        if asked.is_paused:
            click.echo(f"It is paused; `abaca operation resume {asked.id}` lets it go on.")
        if watch:
            _watch(db, asked.id)
    finally:
        db.close()


def _watch(db: Database, op_id: str) -> None:
    """Follow an operation to its end. Raises `BackendError` when it did not end well."""
    from abaca.db.journal import operations as rows

    told = ""
    while True:
        with db.read() as tx:
            row = rows.show(tx, op_id)
        if row is None:
            raise errors.NotFound(resource="Operation", id=op_id)
        problem = f": {row.error_text}" if row.error_text and row.state != "done" else ""
        line = f"{row.state}: {row.progress_done} of {row.progress_total}{problem}"
        if line != told:
            click.echo(line)
            told = line
        if row.state in rows.ENDED:
            break
        time.sleep(0.2)
    findings = msgspec.convert(row.data.get("findings", {}), dict[str, object])
    shown.one({name: value for name, value in findings.items() if not isinstance(value, list)}, shown.Output())
    _list_findings(db, op_id)
    if row.state != "done":
        raise errors.BackendError(reason=row.error_text or row.state)


def _list_findings(db: Database, op_id: str) -> None:
    """The first of those that need saying."""
    from abaca.db.engine.lists import Page
    from abaca.db.journal.findings import FINDINGS

    columns = ("kind", "share_id", "why")
    with db.read() as tx:
        found = FINDINGS.rows(tx, columns, {"operation_id": op_id}, Page(limit=SHOWN, descending=False))
    if found:
        shown.table([dict(row._mapping) for row in found], shown.Output("wide"), brief=columns)


def _rows(tx: Tx, loaded: Settings) -> list[dict[str, object]]:
    from abaca.db.administration import pools, services
    from abaca.db.journal import queue_figures

    live: dict[tuple[str, str], int] = {}
    for row in queue_figures.live(tx, tx.now.timestamp()):
        live[row.queue, row.state] = live.get((row.queue, row.state), 0) + row.number
    of_host: dict[str, list[Pool]] = {}
    for pool in pools.read_for_scheduling(tx, loaded.service_down_time):
        of_host.setdefault(pool.service_host, []).append(pool)
    alive_since = services.alive_since(tx, loaded.service_down_time)
    known: dict[str, dict[str, object]] = {}
    for service in services.of_back_ends(tx):
        known[service.host] = {
            "host": service.host,
            "state": _state(service, alive_since),
            "status": "disabled" if service.disabled else "enabled",
            "seen": shown.age(service.heartbeat_at, tx.now) if service.heartbeat_at > NEVER else None,
            "problem": service.problem,
        }
    for one in loaded.backends:
        host = f"{loaded.host}@{one.name}"
        known.setdefault(host, {"host": host, "state": "new"})
    found = []
    for host, fields in sorted(known.items()):
        work = {"waiting": live.get((host, "queued"), 0), "running": live.get((host, "running"), 0)}
        found += [{**fields, **work, **in_pool} for in_pool in [_pool(pool) for pool in of_host.get(host, ())] or [{}]]
    return found


def _state(service: Service, alive_since: datetime.datetime) -> str:
    state = service.state(alive_since)
    return "new" if service.heartbeat_at == NEVER and state != "stopped" else state


def _pool(pool: Pool) -> dict[str, object]:
    return {
        "pool": parts(pool.host)[2],
        "total_gib": pool.total_gib,
        "free_gib": pool.free_gib,
        "promised_gib": pool.provisioned_gib,
    }
