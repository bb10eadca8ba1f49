# SPDX-License-Identifier: Apache-2.0
"""`abaca server`: register the machines that shares are attached to, one by one or from a file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from abaca import app, errors
from abaca.cli import shown
from abaca.cli.explaining import check
from abaca.cli.options import Api, Given, asking, configured
from abaca.domain.attachments import servers as rules
from abaca.domain.attachments.servers import RegisteredServer

if TYPE_CHECKING:
    from abaca.cli.client import Answer
    from abaca.db.engine.database import Database, Tx
    from abaca.settings import Settings

BRIEF = ("id", "name", "project_id", "status", "addresses", "ssh_user", "ssh_port")
WIDE = (
    *("id", "name", "project_id", "user_id", "description", "status", "availability_zone", "metadata", "addresses"),
    *("ssh_host", "ssh_port", "ssh_user", "host_key", "key", "hypervisor_id", "qmp_socket", "created_at", "updated_at"),
)

in_project = click.option("--project", "project_id", help="Of this project, where several have a server of that name.")


@click.group()
def server() -> None:
    """Register the machines that shares are attached to."""


server.add_command(check)


@server.command("add")
@configured
@click.argument("name")
@click.option("--project", "project_id", required=True, help="Id of the project whose server it is.")
@click.option("--address", "addresses", multiple=True, required=True, help="IPv4 or IPv6; may be repeated.")
@click.option("--ssh-host", help="Where workers connect to. Without it the first address.")
@click.option("--ssh-port", type=int, help="Its port. Without it 22.")
@click.option("--ssh-user", help="Login. Without it root.")
@click.option("--host-key", help="Public host key: 'ssh-ed25519 AAAA...'.")
@click.option("--key", help="Where workers find the private key: 'file:/etc/abaca/keys/id_ed25519'.")
@click.option("--hypervisor-id", help="Of a guest: the id of the registered server on which its QEMU runs.")
@click.option("--qmp-socket", help="Of a guest: where its QEMU takes orders on that server, such as /run/web.qmp.")
@click.option("--description", help="A sentence about it.")
@click.option("--availability-zone", help="Where it stands.")
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="Metadata; may be repeated.")
def add(given: Given, *, properties: tuple[str, ...], addresses: tuple[str, ...], **said: str | int | None) -> None:
    """Register a server, or change the one that its project has by that name."""
    wanted: dict[str, object] = {name: value for name, value in said.items() if value is not None}
    wanted["addresses"] = list(addresses)
    if properties:
        wanted["metadata"] = dict(pair.partition("=")[::2] for pair in properties)
    with _inventory(given, changes=True) as (db, settings), db.write() as tx:
        server_id, what = _register(tx, settings, wanted)
        doubts = [*_of_key(said.get("key")), *_of_addresses(tx, server_id)]
    click.echo(f"{server_id} {what}")
    for doubt in doubts:
        click.echo(f"abaca: {doubt}", err=True)


@server.command("list")
@asking
@click.option("--project", "project_id", help="Only of this project.")
@click.option("--name", help="Only with this name.")
@click.option("--limit", default=1000, show_default=True, help="At most so many, by their names.")
@shown.listed
def list_servers(api: Api, *, limit: int, output: shown.Output, **equal: str | None) -> None:
    """List registered servers."""
    with api.open() as client:
        found = list(client.each("/servers", limit, sort_key="name", sort_dir="asc", **equal))
    shown.table([_fields(row, output) for row in found], output, brief=BRIEF, wide=WIDE)


@server.command("show")
@asking
@click.argument("name_or_id")
@in_project
@shown.detailed
def show_server(api: Api, name_or_id: str, project_id: str | None, *, output: shown.Output) -> None:
    """Show everything about one server."""
    with api.open() as client:
        server_id = client.id_of("/servers", "Server", name_or_id, project_id=project_id)
        found = client.get(f"/servers/{server_id}")["server"]
    shown.one(_fields(found, output), output)


@server.command("remove")
@configured
@click.argument("name_or_id")
@in_project
@click.option("--yes", is_flag=True, help="Do not ask, however many attachments end.")
def remove(given: Given, name_or_id: str, project_id: str | None, *, yes: bool) -> None:
    """Forget a server; its attachments and their access end, and what is on it stays."""
    from abaca.db.attachments import attachments
    from abaca.db.attachments import servers as rows
    from abaca.operations.attachments import attachment_detach

    with _inventory(given) as (db, _):
        with db.read() as tx:
            row = _find(tx, name_or_id, project_id)
            number = len(attachments.of_servers(tx, [row.id]))
        if number and not yes:
            ends = "1 attachment of it ends" if number == 1 else f"{number} attachments of it end"
            click.confirm(f"{ends} with server {row.name} ({row.id}), and so does access. Remove it?", abort=True)
        with db.write() as tx:
            attachment_detach.forget_server(tx, row.id, None)
            rows.delete(tx, row.id)
    click.echo(f"{row.id} is forgotten.")


def _of_key(reference: object) -> list[str]:
    """What is doubtful of a reference to a private key, as it looks from this host."""
    if not isinstance(reference, str):
        return []
    file = Path(reference.removeprefix(rules.KEY_SCHEME))
    try:
        if file.is_file():
            return []
    except OSError as error:
        return [f"whether {file} is there cannot be seen from here: {error.strerror}"]
    return [f"there is no file {file} on this host; workers can log in only where they have it"]


def _of_addresses(tx: Tx, server_id: str) -> list[str]:
    """Which of a server's addresses are another's as well: whoever lets one in lets in both."""
    from abaca.db.attachments import servers as rows

    found = rows.with_the_same_address(tx, server_id)
    return [
        f"{ip} is an address of server {name} ({other}) of project {project} too" for ip, other, name, project in found
    ]


@server.command("import")
@configured
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def import_servers(given: Given, file: Path) -> None:
    """Register all servers of a YAML, JSON or TOML file, or none; may be repeated at will.

    The file holds a list `servers`, and `defaults` for all of them if need be. A server is known by its project and
    name; one that is not in the file is left alone.
    """
    wanted = _read(file)
    counts: dict[str, int] = {}
    with _inventory(given, changes=True) as (db, settings), db.write() as tx:
        for number, said in enumerate(wanted, 1):
            try:
                _, what = _register(tx, settings, said)
            except errors.AbacaError as error:
                named = said.get("name", "without a name")
                raise errors.Invalid(
                    f"{file}: server {number} ({named}): {error.message} Nothing is changed."
                ) from None
            counts[what] = counts.get(what, 0) + 1
    click.echo(", ".join(f"{counts[what]} {what}" for what in sorted(counts)) or "The file names no servers.")


@contextlib.contextmanager
def _inventory(given: Given, *, changes: bool = False) -> Iterator[tuple[Database, Settings]]:
    from abaca.db.engine import schema

    settings = given.load().settings
    plugin = settings.compute.plugin
    if changes and plugin != "inventory":
        raise errors.Conflict(f"Servers come from {plugin} here ([compute] plugin): nothing can be registered.")
    db = app.open_database(settings)
    try:
        schema.check(db)
        yield db, settings
    finally:
        db.close()


def _register(tx: Tx, settings: Settings, said: Mapping[str, object]) -> tuple[str, str]:
    """The id of the server that is now as `said`, and whether it is new, changed or was so. Raises AbacaError."""
    from abaca.db.attachments import servers as rows

    values, at = rules.check(said, str(settings.compute.key_directory))
    missing = [name for name in ("name", "project_id", "addresses") if name not in said]
    if missing or at is None:
        raise errors.Invalid(f"'{(missing or ['addresses'])[0]}' is required.")
    wanted = {"project_id": values["project_id"], "name": values["name"]}
    row = rows.SERVERS.entity(tx, RegisteredServer, wanted)
    if row is None:
        return rows.create(tx, {**rules.DEFAULTS, **values}, at), "registered"
    is_so = all(getattr(row, name) == value for name, value in values.items())
    if is_so and tuple(rows.addresses(tx, [row.id])[row.id]) == at:
        return row.id, "unchanged"
    rows.update(tx, row.id, values, at)
    return row.id, "changed"


def _find(tx: Tx, name_or_id: str, project_id: str | None) -> RegisteredServer:
    from abaca.db.attachments import servers as rows

    within = {"project_id": project_id} if project_id else {}
    by_id = rows.SERVERS.entity(tx, RegisteredServer, {"id": name_or_id, **within})
    if by_id is not None:
        return by_id
    found = rows.SERVERS.entities(tx, RegisteredServer, {"name": name_or_id, **within})
    if len(found) > 1:
        raise errors.Conflict(f"{len(found)} projects have a server {name_or_id}; say which one with --project.")
    if not found:
        raise errors.NotFound(resource="Server", id=name_or_id)
    return found[0]


def _fields(row: Answer, output: shown.Output) -> Answer:
    """A server as it is shown: people read its addresses alone."""
    if not output.is_for_people:
        return row
    return {**row, "addresses": ", ".join(one["ip"] for one in row["addresses"])}


def _read(file: Path) -> list[dict[str, Any]]:
    """What a file says of each server, with its defaults. Raises Invalid."""
    try:
        said = _parsed(file)
    except (ValueError, UnicodeDecodeError, OSError) as error:
        raise errors.Invalid(f"{file} cannot be read: {' '.join(str(error).split())}") from None
    whole = {"servers": said} if isinstance(said, list) else said
    known = {"servers", "defaults"}
    if not isinstance(whole, dict) or not set(whole) <= known or not isinstance(whole.get("servers"), list):
        raise errors.Invalid(f"{file} must hold a list `servers`, and nothing else but `defaults`.")
    defaults = whole.get("defaults") or {}
    if not isinstance(defaults, dict) or not all(isinstance(one, dict) for one in whole["servers"]):
        raise errors.Invalid(f"{file}: `defaults` and each of `servers` must hold names with values.")
    return [{**defaults, **one} for one in whole["servers"]]


def _parsed(file: Path) -> Any:
    text = file.read_text("utf-8")
    if file.suffix == ".toml":
        import tomllib

        return tomllib.loads(text)
    if file.suffix == ".json":
        return msgspec.json.decode(text)
    if file.suffix in (".yaml", ".yml"):
        import yaml

        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ValueError(error) from None
    raise ValueError("its name must end in .yaml, .yml, .json or .toml")
