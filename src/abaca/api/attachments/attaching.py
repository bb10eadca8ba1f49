# SPDX-License-Identifier: Apache-2.0
"""Attaching a share to servers, for every door: which servers the caller may use, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.api import naming
from abaca.api.shares.lookups import share_for_change
from abaca.compute.contract import ServerUnreachable
from abaca.db.shares import shares
from abaca.domain import ids
from abaca.domain.attachments import mount_points
from abaca.http.pipeline import Call
from abaca.operations.attachments import attachment_accept
from abaca.operations.attachments.attachment_parts import hosts_of
from abaca.policy import admin

if TYPE_CHECKING:
    from abaca.compute.contract import Server

MOUNT_ANYWHERE = admin("attachment:mount_anywhere", "Mount a share at a place that members may not choose.")


def attach(
    call: Call, share_id: str, server_ids: Sequence[str], request: attachment_accept.AttachmentRequest
) -> attachment_accept.Accepted:
    """Attach a share to servers that the caller may use. Where all are refused, raises the first refusal."""
    roots = mount_points.ANYWHERE
    if not call.allows(MOUNT_ANYWHERE):
        roots = mount_points.read_roots(call.settings.nodes.mount_roots)
    request = msgspec.structs.replace(request, roots=roots)
    found, refused = _servers(call, server_ids)
    hosts, without = hosts_of(call.parts.extras["compute"], found, request.mode)
    refused += without
    lacking = dict(without)
    found = [server for server in found if server.id not in lacking]
    with call.db.write() as tx:
        shares.lock(tx, share_id)
        share = share_for_change(call, tx, share_id)
        done = attachment_accept.accept(tx, share, found, request, call.caller, hosts=hosts)
        done.refused = [*refused, *done.refused]
        if not done.ids:
            raise done.refused[0][1]
    return done


def server_ids(call: Call, names_or_ids: Sequence[str]) -> list[str]:
    """The ids of servers, which may be said by name or by their beginnings, as `naming.id_of` says of what is stored.

    Raises Conflict where several are meant.
    """
    names = {one for one in names_or_ids if not ids.is_id(one)}
    found: dict[str, list[str]] = {}
    if names and call.caller.project_id:
        for server in call.parts.extras["compute"].named(call.caller.project_id, sorted(names)):
            found.setdefault(server.name, []).append(server.id)
    of_project = None if call.caller.is_admin else call.caller.project_id
    found |= {one: begun(call, of_project, one) for one in names - found.keys()}
    meant = {one: naming.the_one("Server", one, several) for one, several in found.items() if several}
    return [meant.get(one, one) for one in names_or_ids]


def begun(call: Call, project_id: str | None, said: str) -> list[str]:
    """The ids, of all projects or of one, that begin so; a few of them where there are many."""
    beginning = ids.beginning(said)
    if beginning is None:
        return []
    return [one.id for one in call.parts.extras["compute"].begun(project_id, beginning, naming.MOST_MEANT)]


def server_for(call: Call, server_id: str) -> Server:
    """A server that the caller may use. Raises NotFound, and `Unavailable` when nobody can say."""
    server: Server | None = call.parts.extras["compute"].show(server_id)
    if server is None:
        raise errors.NotFound(resource="Server", id=server_id)
    call.visible(server.project_id, "Server", server_id)
    return server


def addresses_for(call: Call, filters: Mapping[str, str]) -> list[str]:
    """The addresses of the `server` that filters name, none where they name none. Raises as `server_for`."""
    if "server" not in filters:
        return []
    server = server_for(call, server_ids(call, [filters["server"]])[0])
    return sorted(address.ip for address in server.addresses)


def _servers(call: Call, server_ids: Sequence[str]) -> tuple[list[Server], list[tuple[str, errors.AbacaError]]]:
    found: list[Server] = []
    refused: list[tuple[str, errors.AbacaError]] = []
    for server_id in server_ids:
        try:
            found.append(server_for(call, server_id))
        except (errors.NotFound, ServerUnreachable) as missing:
            refused.append((server_id, missing))
    return found, refused
