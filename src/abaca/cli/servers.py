# SPDX-License-Identifier: Apache-2.0
"""`abaca server`: register the machines that shares are attached to, one by one or from a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from abaca import errors
from abaca.cli import lookups, shown
from abaca.cli.explaining import check
from abaca.cli.options import Api, asking

if TYPE_CHECKING:
    from abaca.cli.client import Answer, Client

PATH = "/servers"
KEY_SCHEME = "file:"
# So many bytes of servers go into a request, and so many servers: any service takes that.
PART_BYTES, PART_SERVERS = 65536, 200
# So many attachments are counted before a server is removed.
MOST_COUNTED = 1000

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
@asking
@click.argument("name")
@click.option("--project", "project_id", required=True, help="Id of the project whose server it is.")
@click.option("--address", "addresses", multiple=True, required=True, help="IPv4 or IPv6; may be repeated.")
@click.option("--ssh-host", help="Where workers connect to. Without it the first address.")
@click.option("--ssh-port", type=int, help="Its port. Without it 22.")
@click.option("--ssh-user", help="Login. Without it root.")
@click.option("--host-key", help="Public host key: 'ssh-ed25519 AAAA...'.")
@click.option("--key", help="Where workers find the private key, on their hosts: 'file:/etc/abaca/keys/id_ed25519'.")
@click.option("--hypervisor", help="Of a guest: the registered server on which its QEMU runs, by name or id.")
@click.option("--qmp-socket", help="Of a guest: where its QEMU takes orders on that server, such as /run/web.qmp.")
@click.option("--description", help="A sentence about it.")
@click.option("--availability-zone", help="Where it stands.")
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="Metadata; may be repeated.")
def add(
    api: Api,
    *,
    properties: tuple[str, ...],
    addresses: tuple[str, ...],
    hypervisor: str | None,
    **said: str | int | None,
) -> None:
    """Register a server, or change the one that its project has by that name.

    The private key stays in its file on the hosts of the workers, which read it there; nothing sends it anywhere.
    """
    wanted: dict[str, object] = {name: value for name, value in said.items() if value is not None}
    wanted["addresses"] = list(addresses)
    if properties:
        wanted["metadata"] = dict(pair.partition("=")[::2] for pair in properties)
    with api.open() as client:
        if hypervisor:
            wanted["hypervisor_id"] = lookups.registered_server_id(client, hypervisor)
        (done,) = _register(client, [wanted])
    click.echo(f"{done['id']} {done['result']}")
    for doubt in [*_of_key(api, said.get("key")), *done["warnings"]]:
        click.echo(f"abaca: {doubt}", err=True)


@server.command("list")
@asking
@click.option("--project", "project_id", help="Only of this project.")
@click.option("--name", help="Only with this name.")
@shown.listed
def list_servers(api: Api, *, output: shown.Output, **equal: str | None) -> None:
    """List registered servers, by their names."""
    with api.open() as client:
        found = client.each(PATH, output.most, sort_key="name", sort_dir="asc", **equal)
        shown.table((_fields(row, output) for row in found), output, brief=BRIEF, wide=WIDE)


@server.command("show")
@asking
@click.argument("name_or_id")
@in_project
@shown.detailed
def show_server(api: Api, name_or_id: str, project_id: str | None, *, output: shown.Output) -> None:
    """Show everything about one server."""
    with api.open() as client:
        found = client.get(f"{PATH}/{_id_of(client, name_or_id, project_id)}")["server"]
    shown.one(_fields(found, output), output)


@server.command("remove")
@asking
@click.argument("name_or_id")
@in_project
@click.option("--yes", is_flag=True, help="Do not ask, however many attachments end.")
def remove(api: Api, name_or_id: str, project_id: str | None, *, yes: bool) -> None:
    """Forget a server; its attachments and their access end, and what is on it stays."""
    with api.open() as client:
        found = client.get(f"{PATH}/{_id_of(client, name_or_id, project_id)}")["server"]
        number = 0 if yes else sum(1 for _ in client.each("/attachments", MOST_COUNTED, server_id=found["id"]))
        if number:
            said = f"{number} or more" if number == MOST_COUNTED else number
            ends = "1 attachment of it ends" if number == 1 else f"{said} attachments of it end"
            click.confirm(
                f"{ends} with server {found['name']} ({found['id']}), and so does access. Remove it?", abort=True
            )
        client.delete(f"{PATH}/{found['id']}")
    click.echo(f"{found['id']} is forgotten.")


def _of_key(api: Api, reference: object) -> list[str]:
    """What is doubtful of a reference to a private key."""
    if not isinstance(reference, str):
        return []
    file = Path(reference.removeprefix(KEY_SCHEME))
    if not api.is_here:
        return [f"workers read {file} on their own hosts, and it cannot be seen from here; try abaca server check"]
    try:
        if file.is_file():
            return []
    except OSError as error:
        return [f"whether {file} is there cannot be seen from here: {error.strerror}"]
    return [f"there is no file {file} on this host; workers can log in only where they have it"]


@server.command("import")
@asking
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def import_servers(api: Api, file: Path) -> None:
    """Register all servers of a YAML, JSON or TOML file of this host, or none; may be repeated at will.

    The file holds a list `servers`, and `defaults` for all of them if need be. A server is known by its project and
    name; one that is not in the file is left alone. Private keys stay in the files of the workers' hosts.
    """
    wanted = _read(file)
    parts = list(_parts(wanted))
    counts: dict[str, int] = {}
    with api.open() as client:
        try:
            # a file that takes several requests is tried as a whole before anything is changed
            for first, part in parts if len(parts) > 1 else ():
                _register(client, part, first=first, dry_run=True)
            for first, part in parts:
                for one in _register(client, part, first=first):
                    counts[one["result"]] = counts.get(one["result"], 0) + 1
        except errors.AbacaError as error:
            done = f" Before it {sum(counts.values())} were registered or known; import it again." if counts else ""
            raise errors.Invalid(f"{file}: {error.message}{done}") from None
    click.echo(", ".join(f"{counts[what]} {what}" for what in sorted(counts)) or "The file names no servers.")


def _register(
    client: Client, servers: Sequence[Mapping[str, object]], *, first: int = 1, dry_run: bool = False
) -> Sequence[Answer]:
    found: Sequence[Answer] = client.post(
        f"{PATH}/register", {"servers": servers, "first_number": first, "dry_run": dry_run}
    )["servers"]
    return found


def _parts(wanted: Sequence[Mapping[str, object]]) -> Iterator[tuple[int, Sequence[Mapping[str, object]]]]:
    """Servers as they fit into requests, each with the number of its first one."""
    first, part, size = 1, [], 0  # type: int, list[Mapping[str, object]], int
    for one in wanted:
        length = len(msgspec.json.encode(one, enc_hook=str))
        if part and (size + length > PART_BYTES or len(part) == PART_SERVERS):
            yield first, part
            first, part, size = first + len(part), [], 0
        part.append(one)
        size += length
    if part:
        yield first, part


def _id_of(client: Client, said: str, project_id: str | None) -> str:
    try:
        return client.id_of(PATH, "Server", said, project_id=project_id)
    except errors.Conflict as error:
        raise errors.Conflict(f"{error.message} Or say whose with --project.") from None


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
