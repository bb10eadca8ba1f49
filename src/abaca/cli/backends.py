# SPDX-License-Identifier: Apache-2.0
"""`abaca backend`: the back ends as the database knows them, from this host and from others."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from abaca import errors
from abaca.cli import lookups, shown, watching
from abaca.cli.addresses import addresses, warn
from abaca.cli.options import Api, asking

if TYPE_CHECKING:
    from abaca.cli.client import Answer, Client

BRIEF = (
    *("host", "state", "status", "seen", "pool", "total_gib", "free_gib", "promised_gib", "waiting", "running"),
    "problem",
)
# As the API has them, for programs.
NAMES = ("host", "state", "status", "disabled_reason", "ensuring", "last_seen_at", "problem", "pools", "operations")
# Of what was found, so many are shown at the end.
SHOWN = 50


@click.group()
def backend() -> None:
    """See the back ends, have their shares ensured, and compare them with the database."""


backend.add_command(addresses)


@backend.command("list")
@asking
@shown.listed
def list_backends(api: Api, *, output: shown.Output) -> None:
    """List back ends with their pools, and how many operations wait or run there.

    A back end that is configured on this host and has never been served yet is `new`. Where one cannot be served or
    does not answer, `problem` says why.
    """
    with api.open() as client:
        new = _configured(api, client) if api.is_here else []
        found = heapq.merge(client.each("/backends", output.most), new, key=lambda one: str(one["host"]))
        if output.is_for_people:
            shown.table((row for one in found for row in _rows(one)), output, brief=BRIEF)
        else:
            shown.table(found, output, brief=NAMES)


@backend.command("ensure")
@asking
@click.argument("host")
@click.option("--dry-run", is_flag=True, help="Change nothing, and find out what would change.")
@click.option("--watch", "--wait", "watch", is_flag=True, help="Wait for the end, and show how far it is.")
def ensure(api: Api, host: str, *, dry_run: bool, watch: bool) -> None:
    """Make the shares of a back end what its configuration says, while it serves.

    HOST is host@backend, as `abaca backend list` shows it, or the name of either. Shares that are busy or broken are
    left out. If it is under way already, this joins it; if it is paused, it stays so until `abaca operation resume`.
    """
    with api.open() as client:
        host = lookups.host(client, host)
        asked = client.post("/services/ensure-shares", {"host": host, "dry_run": dry_run})["operation"]
        does = "finds out what ensuring would change of" if dry_run else "ensures"
        _tell(asked, f"{does} the shares of {host}")
        if watch:
            _watch(client, asked["id"])
            warn(client, host)


@backend.command("reconcile")
@asking
@click.argument("host")
@click.option("--dry-run", is_flag=True, help="Mend nothing, and find out what differs.")
@click.option("--watch", "--wait", "watch", is_flag=True, help="Wait for the end, and show how far it is.")
def reconcile(api: Api, host: str, *, dry_run: bool, watch: bool) -> None:
    """Compare a back end with the database now, at full speed, and have mended what differs.

    HOST is host@backend, as `abaca backend list` shows it, or the name of either. Workers do the same slowly, all the
    time. What only the back end knows is named and left alone. If somebody has asked for it already, this joins it.
    """
    with api.open() as client:
        host = lookups.host(client, host)
        asked = client.post("/services/reconcile", {"host": host, "dry_run": dry_run})["operation"]
        _tell(asked, f"compares {host} with the database, and mends {'nothing' if dry_run else 'what differs'}")
        if watch:
            found = _watch(client, asked["id"])
            if found["repaired"] and not dry_run:
                mending = f"abaca operation list --all --kind instance-mend --queue {host}"
                click.echo(f"Each that differs has an operation of its own, which mends it: `{mending}`.")


def _tell(asked: Answer, does: str) -> None:
    """Which operation does it, and whether it stands still."""
    click.echo(f"{asked['id']} {does}.")
    if asked["state"] == "paused" or asked["pause"]:
        click.echo(f"It is paused; `abaca operation resume {asked['id']}` lets it go on.")


def _watch(client: Client, operation_id: str) -> Mapping[str, int]:
    """Follow an operation to its end, and show what it found; the counts. Raises `BackendError` when it went wrong."""
    ended = watching.to_the_end(client, operation_id)
    counts = {name: value for name, value in (ended["findings"] or {}).items() if not isinstance(value, list)}
    shown.one(counts, shown.Output())
    findings = list(client.each(f"/operations/{operation_id}/findings", SHOWN, sort_dir="asc"))
    if findings:
        shown.table(findings, shown.Output("wide"), brief=("kind", "share_id", "why"))
    if ended["state"] != "done":
        raise errors.BackendError(reason=ended["error_text"] or ended["state"])
    return counts


def _rows(backend: Answer) -> list[dict[str, object]]:
    """A row for each pool of a back end; one for the back end where there is no pool."""
    live = backend["operations"]
    waiting = sum(live.get(state, 0) for state in ("queued", "waiting"))
    fields = {
        **{name: backend[name] for name in ("host", "state", "status", "problem")},
        "seen": shown.age_of(backend["last_seen_at"]) or None,
        "waiting": waiting,
        "running": live.get("running", 0),
    }
    pools: Sequence[Answer] = backend["pools"] or [{}]
    return [{**fields, **_pool(pool)} for pool in pools]


def _pool(pool: Answer) -> dict[str, object]:
    return {
        "pool": pool.get("name"),
        "total_gib": pool.get("total_gib"),
        "free_gib": pool.get("free_gib"),
        "promised_gib": pool.get("provisioned_gib"),
    }


def _configured(api: Api, client: Client) -> list[dict[str, object]]:
    """The back ends of this host's configuration that no worker has served yet, in the order of their hosts."""
    loaded = api.given.load().settings
    found: list[dict[str, object]] = []
    for host in sorted(f"{loaded.host}@{one.name}" for one in loaded.backends):
        if next(client.each("/backends", 1, host=host), None) is None:
            asked = {"queue": host, "live": True, "all_projects": client.sees_all or None}
            queued = client.get("/operations", **asked, limit=1, with_count=True)["count"]
            known = {"host": host, "state": "new", "ensuring": False, "pools": [], "operations": {"queued": queued}}
            found.append({name: known.get(name) for name in NAMES})
    return found
