# SPDX-License-Identifier: Apache-2.0
"""What the operations of attachments work with in place of a storage driver: servers, and the hands on them.

Their queue is served by every worker. Each attachment has a key of its own, so that one machine which does not answer
holds up nothing but itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from abaca import errors
from abaca.compute.contract import ServerUnreachable, Wanted
from abaca.domain.attachments.attachments import RETRY_S, SERVER_OFF, Mode
from abaca.domain.shares.access_rules import AccessLevel
from abaca.drivers import contract
from abaca.journal.interruptions import Interrupted
from abaca.nodes.contract import Guest, InUse, Stopping

if TYPE_CHECKING:
    from abaca.compute.contract import Server
    from abaca.domain.attachments.attachments import Attachment
    from abaca.domain.attachments.servers import Login
    from abaca.journal.requester import Requester
    from abaca.nodes.contract import Machines

QUEUE = "nodes"
# Announced when machines are to be looked at sooner than usual.
LOOKS = "attachment-looks"


class RulePending(errors.Conflict):
    """The access rules are not in force yet: {reason}"""

    code = "RulePending"


class StillOpen(errors.Conflict):
    """The share has moved, and files of its former address are still open: {reason}"""

    code = "StillOpen"


def has_waited(row: Attachment, by: Requester | None) -> bool:
    """Whether an attachment is tried again because files are open on its machine, and nobody has asked for that."""
    return by is None and row.error_code in (StillOpen.code, InUse.code)


def is_known(args: Waiting, code: str | None) -> bool:
    """Whether an earlier try has told of those files: neither is the next try news, nor that they are open still."""
    return args.waits_for_files and code in (None, StillOpen.code, InUse.code)


class Waiting(Protocol):
    """Arguments of an operation that may have to wait for open files."""

    @property
    def waits_for_files(self) -> bool: ...


class ServerGone(errors.NotFound):
    """Server {server} is not known any more; its attachments go by themselves."""

    code = "ServerGone"


class ServerOff(errors.Conflict):
    """Server {server} is off, and can be mended only when it is on again."""

    code = SERVER_OFF


class NotMounted(errors.Conflict):
    """The share was not mounted at {mount_point} on server {server} as it shall be; it is mounted again."""

    code = "NotMounted"


class NoHypervisor(errors.Conflict):
    """Server {server} has no registered hypervisor that could hand it a share; register both, or attach by network."""

    code = "NoHypervisor"


class Servers(Protocol):
    """Where servers come from: `compute.contract.Compute`, as far as it is needed here."""

    def list(self, wanted: Wanted, /) -> Sequence[Server]: ...

    def show(self, server_id: str, /) -> Server | None: ...

    def login(self, server_id: str, /) -> Login: ...


def hypervisor_of(servers: Servers, server: Server) -> Server:
    """The server on which a guest runs. Raises `NoHypervisor`, and what the compute plugin raises."""
    host = servers.show(server.hypervisor_id) if server.hypervisor_id and server.qmp_socket else None
    if host is None:
        raise NoHypervisor(server=server.id)
    return host


def hosts_of(
    servers: Servers, guests: Sequence[Server], mode: str | None
) -> tuple[dict[str, Server], list[tuple[str, errors.AbacaError]]]:
    """By guest the server that hands it the share, and the guests that have none with why; nothing in other modes.

    Raises what the compute plugin raises when it does not answer.
    """
    hosts: dict[str, Server] = {}
    refused: list[tuple[str, errors.AbacaError]] = []
    for server in guests if mode == "virtiofs" else ():
        try:
            hosts[server.id] = hypervisor_of(servers, server)
        except (NoHypervisor, ServerUnreachable) as missing:
            refused.append((server.id, missing))
    return hosts, refused


@contextlib.contextmanager
def until_stopped() -> Iterator[None]:
    """What is done on machines here goes on in another worker, from this step on, when this one is stopped."""
    try:
        yield
    except Stopping as stopping:
        raise Interrupted from stopping


class MountPlan(msgspec.Struct, frozen=True, kw_only=True):
    """An attachment as its steps keep it, with what it is mounted by.

    `source` is what it was mounted from so far, `wanted_source` what it shall be, None where the share has nothing to
    mount; `may_stay`: it can be mounted from `source` still. `was_active` says whether it was ever seen on its server.
    `others` are all export locations there are, `backend` is where the share is.
    """

    id: str
    share_id: str
    server_id: str
    mode: Mode
    tag: str
    mount_point: str
    access_level: AccessLevel
    addresses: list[str]
    protocol: str
    source: str | None
    made_directory: bool
    wanted_source: str | None
    was_active: bool
    may_stay: bool = False
    cluster_id: str | None = None
    others: list[str] = []
    backend: str | None = None


class AttachmentParts:
    """Handed to steps as their `driver`; its back end is only the name of the queue."""

    def __init__(
        self,
        servers: Servers,
        nodes: Machines,
        *,
        longest_pause_s: float = RETRY_S[-1],
        nfs_port: int = 2049,
        mount_options: Sequence[str] = (),
        here: str = "",
    ) -> None:
        """`longest_pause_s` is how long what failed waits at most before it is tried again.

        NFS servers listen on `nfs_port` and are mounted with `mount_options`. `here` is the name of this host.
        """
        self.servers = servers
        self.nodes = nodes
        self.longest_pause_s = longest_pause_s
        self.nfs_port = nfs_port
        self.mount_options = mount_options
        self.here = here
        self.backend = contract.Backend(
            name=QUEUE, host=QUEUE, share_backend_name=QUEUE, state_dir=Path("/nonexistent/nodes")
        )

    def start(self) -> None:
        """There is nothing to wait for."""

    def stop(self) -> None:
        """Let go of all machines; what is mounted stays."""
        self.nodes.close()

    def login(self, server_id: str) -> Login:
        """How to get into a server. Raises `ServerGone`, and what the compute plugin raises."""
        try:
            return self.servers.login(server_id)
        except errors.NotFound:
            raise ServerGone(server=server_id) from None

    def is_off(self, server_id: str) -> bool:
        """Whether there is no use in knocking. Raises what the compute plugin raises."""
        server = self.servers.show(server_id)
        return server is not None and server.status == "SHUTOFF"

    def is_mounting_off(self, server_id: str, mode: str) -> bool:
        """The same of the machine that mounts for a server. Raises `NoHypervisor` too."""
        server = self.servers.show(server_id)
        return server is not None and self.mounting(server, mode).status == "SHUTOFF"

    def way(self, server_id: str, mode: str, tag: str) -> tuple[Login, Guest | None]:
        """Into which machine, and for which guest of it, an attachment to the server is made.

        Raises `ServerGone`, `NoHypervisor`, and what the compute plugin raises.
        """
        if mode != "virtiofs":
            return self.login(server_id), None
        server = self.servers.show(server_id)
        if server is None:
            raise ServerGone(server=server_id)
        host = self.mounting(server, mode)
        if server.qmp_socket is None:
            raise NoHypervisor(server=server_id)
        return self.login(host.id), Guest(tag=tag, qmp_socket=server.qmp_socket)

    def way_if_on(self, server_id: str, mode: str, tag: str) -> tuple[Login, Guest | None] | None:
        """The same; None for a server that is off: there is no use in knocking."""
        return None if self.is_off(server_id) else self.way(server_id, mode, tag)

    def mounting(self, server: Server, mode: str) -> Server:
        """The server that mounts, and whose addresses are let in. Raises `NoHypervisor`."""
        return server if mode != "virtiofs" else hypervisor_of(self.servers, server)

    def is_gone(self, server_id: str) -> bool:
        """Whether nobody knows the server any more. Raises what the compute plugin raises."""
        return self.servers.show(server_id) is None
