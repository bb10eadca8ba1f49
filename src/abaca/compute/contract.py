# SPDX-License-Identifier: Apache-2.0
"""What a compute plug-in promises: which servers there are, whose they are, where they are, and how a worker gets in.

A plug-in is one module beside this one. Its calls may be made from any thread and at any time; each asks anew, because
servers come and go without telling. `tests/compute/test_contract.py` holds every plug-in to this.
"""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from abaca import errors
from abaca.domain.attachments.servers import Login


class ComputeUnreachable(errors.Unavailable):
    """The compute service does not answer: {reason}"""

    code = "ComputeUnreachable"


class ServerUnreachable(ComputeUnreachable):
    """Server {id} cannot be looked up now, though others can: {reason}"""

    code = "ServerUnreachable"


class NoWayIn(errors.Conflict):
    """Nobody can log in to server {id}: {reason}"""

    code = "NoWayIn"


class Address(msgspec.Struct, frozen=True):
    """Where a server can be reached: `ip` is IPv4 or IPv6 in its shortest form."""

    ip: str
    network: str = "default"
    kind: str = "fixed"
    mac: str | None = None

    @property
    def family(self) -> int:
        """4 or 6."""
        return 6 if ":" in self.ip else 4


class Flavor(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a server; MiB of memory and swap, GiB of disk."""

    id: str | None = None
    name: str = "unknown"
    vcpus: int = 0
    ram_mib: int = 0
    disk_gib: int = 0
    ephemeral_gib: int = 0
    swap_mib: int = 0
    extra_specs: Mapping[str, str] = {}


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A server as the plug-in sees the server now. `status` is one of Nova's; times are naive UTC.

    `told` is what else the source says of the server, by the names of Nova's API; what is missing there is as usual.

    `hypervisor_id` and `qmp_socket`, of a guest that its host can hand shares to: the server which that host is, and
    where the guest's QEMU takes orders there. `groups` are, of the server groups that a list was asked about, those
    which have the server.
    """

    id: str
    name: str
    project_id: str
    user_id: str | None = None
    status: str = "ACTIVE"
    addresses: tuple[Address, ...] = ()
    description: str | None = None
    metadata: Mapping[str, str] = {}
    availability_zone: str | None = None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None = None
    flavor: Flavor = Flavor()
    image_id: str | None = None
    key_name: str | None = None
    task_state: str | None = None
    host: str | None = None
    hypervisor_id: str | None = None
    qmp_socket: str | None = None
    groups: tuple[str, ...] = ()
    told: Mapping[str, Any] = {}


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which servers a list shall hold; None means any. `only` decides on each server that meets all other conditions.

    `name` is a regular expression that a plug-in may hand on; `only` decides. `marker` is the id of the last server of
    the page before. `groups` are ids of server groups: each server shall tell in which of them it is. One that there is
    not, or that is another project's, has no server.
    """

    project_id: str | None = None
    user_id: str | None = None
    name: str | None = None
    only: Callable[[Server], bool] | None = None
    statuses: tuple[str, ...] | None = None
    availability_zone: str | None = None
    ip: str | None = None
    changed_since: datetime.datetime | None = None
    changed_before: datetime.datetime | None = None
    limit: int = 1000
    marker: str | None = None
    groups: tuple[str, ...] = ()
    sort_key: str = "created_at"
    descending: bool = True


# How many servers are looked at for what they are.
MOST_LOOKED_AT = 1000


def _size(flavor: Flavor) -> str:
    return flavor.id or flavor.name


# What lists can be sorted by.
SORTS = ("created_at", "id", "name", "project_id", "status")


class Compute(ABC):
    """Where servers come from."""

    @abstractmethod
    def list(self, wanted: Wanted) -> Sequence[Server]:
        """The servers that are wanted, in order, `limit` at most.

        Raises Invalid for a marker that is no server, `ComputeUnreachable`.
        """

    @abstractmethod
    def show(self, server_id: str) -> Server | None:
        """One server of any project; None when there is none.

        Raises `ComputeUnreachable`, of which `ServerUnreachable` is about this server alone.
        """

    def named(self, project_id: str, names: Sequence[str]) -> Sequence[Server]:
        """The servers of a project that have one of these few names; several may have one. Raises as `list` does."""
        wanted = frozenset(names)
        return self.list(Wanted(project_id=project_id, only=lambda server: server.name in wanted))

    def begun(self, project_id: str | None, beginning: str, limit: int) -> Sequence[Server]:
        """The servers of a project (None: of all) whose ids begin so, at most `limit`. Raises as `list` does."""
        begins = Wanted(project_id=project_id, only=lambda server: server.id.startswith(beginning), limit=limit)
        return self.list(begins)

    def flavors(self, project_id: str | None) -> Sequence[Flavor]:
        """The sizes that a project's servers have (None: those of all), by name. Raises `ComputeUnreachable`.

        Of a project with more servers than `MOST_LOOKED_AT` the youngest count.
        """
        found = {_size(server.flavor): server.flavor for server in self._youngest(project_id)}
        return sorted(found.values(), key=lambda flavor: flavor.name)

    def zones(self, project_id: str | None) -> Sequence[str]:
        """The availability zones that the same servers are in, by name. Raises `ComputeUnreachable`."""
        return sorted({server.availability_zone for server in self._youngest(project_id) if server.availability_zone})

    def _youngest(self, project_id: str | None) -> Sequence[Server]:
        return self.list(Wanted(project_id=project_id, limit=MOST_LOOKED_AT))

    @abstractmethod
    def login(self, server_id: str) -> Login:
        """How a worker logs in to a server. Raises NotFound, `NoWayIn` saying what is missing, `ComputeUnreachable`."""
