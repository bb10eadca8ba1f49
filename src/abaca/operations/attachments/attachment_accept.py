# SPDX-License-Identifier: Apache-2.0
"""Accept attachments of one share, to one server or to many, in the one transaction that makes them exist.

The rows, the rules that they need and the operations are written together, so that a hundred servers cost one call to
the back end. Each server is accepted or refused by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.attachments import attachments
from abaca.domain.attachments import attachments as domain
from abaca.domain.attachments import clients, mount_points
from abaca.domain.attachments.mount_points import Roots
from abaca.domain.shares import access_rules as rules
from abaca.operations.attachments import attachment_attach, attachment_rules

if TYPE_CHECKING:
    from abaca.compute.contract import Server
    from abaca.db.engine.database import Tx
    from abaca.domain.shares.shares import Share
    from abaca.journal.requester import Requester


class AttachmentRequest(msgspec.Struct, frozen=True, kw_only=True):
    """How the share shall be there; what is None is chosen. It is mounted within `roots` only.

    `cluster_id` is the cluster for which it is made, `network` what is let in in the place of the servers' addresses.
    """

    mount_point: str | None = None
    tag: str | None = None
    access_level: str | None = None
    mode: str | None = None
    roots: Roots = Roots()
    cluster_id: str | None = None
    network: str | None = None


class Accepted(msgspec.Struct):
    """The ids of the attachments, and for servers that were refused why."""

    ids: list[str] = msgspec.field(default_factory=list)
    refused: list[tuple[str, errors.AbacaError]] = msgspec.field(default_factory=list)


def accept(
    tx: Tx,
    share: Share,
    servers: Sequence[Server],
    request: AttachmentRequest,
    by: Requester | None,
    *,
    hosts: Mapping[str, Server],
) -> Accepted:
    """Attach a share, whose row was locked before it was read, to servers.

    `hosts` are, by the ids of guests that are handed the share by them, their hypervisors: who mounts is let in.

    Raises `Invalid` and `Conflict` for what is wrong with the share or the request.
    """
    values = _common(share, request)
    check_share(share)
    versions = attachment_rules.versions_of(tx, share.host or "")
    found = Accepted()
    place = str(values["mount_point"])
    ids = [server.id for server in servers]
    attachments.lock_servers(tx, ids)
    nested = attachments.nested(tx, ids, place)
    # In one order: who wants the same place for another share, there too, waits and does not hold what is waited for.
    for server in sorted(servers, key=lambda server: server.id):
        try:
            request.roots.check(place, server.project_id, server.id)
            if server.id in nested:
                raise nested[server.id]
            if share.share_proto in clients.CERTIFIED:
                let_in = [_certificate_of(server)]
            else:
                let_in = _addresses_of(hosts.get(server.id, server), versions, request.network)
            told = {"server_id": server.id, "addresses": let_in}
            user_id = by.user_id if by is not None else None
            found.ids.append(attachments.add(tx, {**values, **told, "user_id": user_id}))
        except errors.AbacaError as error:
            found.refused.append((server.id, error))
    rows = attachments.these(tx, found.ids)
    attachment_rules.settle(tx, share.id, sorted({ip for row in rows for ip in row.addresses}), by)
    attachment_attach.enqueue(tx, rows, by)
    return found


def _common(share: Share, request: AttachmentRequest) -> dict[str, object]:
    mode = "network" if request.mode is None else request.mode
    if mode not in domain.MODES:
        raise errors.Invalid(f"'mode' must be one of: {', '.join(domain.MODES)}.")
    level = rules.check_level(request.access_level)
    if share.share_proto in clients.CERTIFIED:
        _check_certified(share, mode, level)
    return {
        "share_id": share.id,
        "project_id": share.project_id,
        "mode": mode,
        "mount_point": mount_points.check(
            mount_points.default(share.id) if request.mount_point is None else request.mount_point
        ),
        "tag": domain.check_tag(request.tag, share.id, mode),
        "access_level": level,
        "cluster_id": request.cluster_id,
        "network": request.network,
    }


def _check_certified(share: Share, mode: str, level: str) -> None:
    """Raises `Invalid` for what cannot be had where certificates are let in."""
    if mode != "network":
        raise errors.Invalid(f"Share {share.id} is {share.share_proto}, which is attached with the mode network only.")
    if level != "rw":
        raise errors.Invalid(
            f"Share {share.id} is {share.share_proto}, which cannot keep a certificate from writing: attach it with "
            "access_level rw."
        )


def check_share(share: Share) -> None:
    """Raises `Conflict` for a share that cannot be attached now, and says why."""
    if share.is_soft_deleted:
        raise errors.Conflict(f"Share {share.id} is in the recycle bin; restore it before you attach it.")
    if share.status != "available":
        raise errors.Conflict(f"Share {share.id} is {share.status}; it can be attached when it is available.")
    check_protocol(share)


def check_protocol(share: Share) -> None:
    """Raises `Conflict` for a share of a protocol that no machine mounts."""
    if share.share_proto not in domain.PROTOCOLS:
        raise errors.Conflict(
            f"Share {share.id} is {share.share_proto}; servers can mount: {', '.join(domain.PROTOCOLS)}."
        )


def _certificate_of(server: Server) -> str:
    """As what the storage will know a server. Raises `Conflict` where it can have no certificate."""
    name = clients.certificate_name(server.id)
    if name is None:
        raise errors.Conflict(f"Server {server.id} can have no certificate: its id is no common name.")
    return name


def _addresses_of(server: Server, versions: set[int], network: str | None) -> list[str]:
    """The addresses of a server that are let in. Raises `Conflict` when it has none."""
    found = attachment_rules.let_in([address.ip for address in server.addresses], versions, network)
    if not found and network is not None:
        raise errors.Conflict(
            f"Server {server.id} has no address in {network} that the share's back end can let in; give it one, or let "
            "the cluster's nodes in by their own addresses."
        )
    if not found:
        raise errors.Conflict(
            f"Server {server.id} has no address that the share's back end can let in: it serves IPv"
            + " and IPv".join(str(version) for version in sorted(versions))
        )
    return found
