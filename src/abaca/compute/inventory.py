# SPDX-License-Identifier: Apache-2.0
"""The servers that administrators registered, by the API, by `abaca server` or from a file."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from abaca import errors
from abaca.compute.contract import Address, Compute, Flavor, NoWayIn, Server, Wanted
from abaca.db.attachments import servers as rows
from abaca.db.engine.lists import Page
from abaca.domain.attachments.servers import Login, RegisteredServer

if TYPE_CHECKING:
    from abaca.db.engine.database import Database

FLAVOR = Flavor(id="inventory", name="inventory")
# Rows read at once when what is wanted is not said in the database's terms.
PAGE = 1000


class Inventory(Compute):
    """The plug-in `inventory`; see the module."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def list(self, wanted: Wanted) -> Sequence[Server]:
        """The database finds the servers; `wanted.only` is tried on them page after page."""
        asked = _conditions(wanted)
        with self._db.read() as tx:
            if wanted.marker is not None and rows.SERVERS.one(tx, ("id",), {"id": wanted.marker}) is None:
                raise errors.Invalid(f"There is no server {wanted.marker[:64]!r} to go on after: 'marker' is wrong.")
            found: list[Server] = []
            marker = wanted.marker
            while len(found) < wanted.limit:
                size = wanted.limit if wanted.only is None else PAGE
                page = Page(size, 0, marker, wanted.sort_key, wanted.descending)
                read = rows.SERVERS.entities(tx, RegisteredServer, asked, page)
                at = rows.addresses(tx, [row.id for row in read])
                servers = (_server(row, at[row.id]) for row in read)
                wished = (server for server in servers if wanted.only is None or wanted.only(server))
                found.extend(itertools.islice(wished, wanted.limit - len(found)))
                if len(read) < size:
                    break
                marker = read[-1].id
        return found

    def show(self, server_id: str) -> Server | None:
        """The registered server with that id."""
        with self._db.read() as tx:
            found = rows.found(tx, server_id)
        return None if found is None else _server(*found)

    def named(self, project_id: str, names: Sequence[str]) -> Sequence[Server]:
        """The database finds them, however many there are of other names."""
        with self._db.read() as tx:
            found = rows.named(tx, project_id, names)
            at = rows.addresses(tx, [row.id for row in found])
        return [_server(row, at[row.id]) for row in found]

    def begun(self, project_id: str | None, beginning: str, limit: int) -> Sequence[Server]:
        """The database finds them by their index."""
        asked = {"id_prefix": beginning, **({} if project_id is None else {"project_id": project_id})}
        with self._db.read() as tx:
            found = rows.SERVERS.entities(tx, RegisteredServer, asked, Page(limit))
            at = rows.addresses(tx, [row.id for row in found])
        return [_server(row, at[row.id]) for row in found]

    def flavors(self, project_id: str | None) -> Sequence[Flavor]:
        """All registered servers are of one: nobody said how large they are."""
        return (FLAVOR,)

    def zones(self, project_id: str | None) -> Sequence[str]:
        """Those that servers were registered in."""
        with self._db.read() as tx:
            return rows.zones(tx, project_id)

    def login(self, server_id: str) -> Login:
        """The login that was registered; without `ssh_host` it leads to the server's first address."""
        with self._db.read() as tx:
            found = rows.found(tx, server_id)
        if found is None:
            raise errors.NotFound(resource="Server", id=server_id)
        row, at = found
        host = row.ssh_host or at[0][0]
        if row.host_key and row.key:
            return Login(host=host, port=row.ssh_port, user=row.ssh_user, host_key=row.host_key, key=row.key)
        missing = [name for name in ("host_key", "key") if not getattr(row, name)]
        raise NoWayIn(id=server_id, reason=f"set its {' and '.join(missing)} with `abaca server add`")


def _conditions(wanted: Wanted) -> dict[str, object]:
    said = {
        "project_id": wanted.project_id,
        "user_id": wanted.user_id,
        "statuses": wanted.statuses,
        "availability_zone": wanted.availability_zone,
        "ip": wanted.ip,
        "changed_since": wanted.changed_since,
        "changed_before": wanted.changed_before,
    }
    return {name: value for name, value in said.items() if value is not None}


def _server(row: RegisteredServer, at: Sequence[tuple[str, str]]) -> Server:
    return Server(
        id=row.id,
        name=row.name,
        project_id=row.project_id,
        user_id=row.user_id,
        status=row.status,
        addresses=tuple([Address(ip, network) for ip, network in at]),
        description=row.description,
        metadata=row.metadata,
        availability_zone=row.availability_zone,
        created_at=row.created_at,
        updated_at=row.updated_at,
        flavor=FLAVOR,
        hypervisor_id=row.hypervisor_id,
        qmp_socket=row.qmp_socket,
    )
