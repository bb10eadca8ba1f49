# SPDX-License-Identifier: Apache-2.0
"""The servers of a Nova, asked as an administrator of its cloud through openstacksdk (the extra `nova`).

Nova does not say how to log in. The login and the private key are settings; the host key is the one of a known_hosts
file where there is one, or else what the server's metadata (`abaca_host_key`) or its console say, where cloud-init
prints it at the first boot. A server whose host key nobody says is not entered.
"""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from abaca import clouds, errors, settings
from abaca.compute.contract import (
    Address,
    Compute,
    ComputeUnreachable,
    Flavor,
    NoWayIn,
    Server,
    ServerUnreachable,
    Wanted,
)
from abaca.domain.attachments import servers as rules
from abaca.domain.attachments.servers import Login

SORTS = {
    "created_at": "created_at",
    "id": "uuid",
    "name": "display_name",
    "project_id": "project_id",
    "status": "vm_state",
}
# What else it says of a server, and what the library calls it.
TOLD = {
    "OS-DCF:diskConfig": "disk_config",
    "OS-EXT-SRV-ATTR:hostname": "hostname",
    "OS-EXT-SRV-ATTR:hypervisor_hostname": "hypervisor_hostname",
    "OS-EXT-SRV-ATTR:instance_name": "instance_name",
    "OS-EXT-SRV-ATTR:kernel_id": "kernel_id",
    "OS-EXT-SRV-ATTR:launch_index": "launch_index",
    "OS-EXT-SRV-ATTR:ramdisk_id": "ramdisk_id",
    "OS-EXT-SRV-ATTR:reservation_id": "reservation_id",
    "OS-EXT-SRV-ATTR:root_device_name": "root_device_name",
    "OS-EXT-STS:power_state": "power_state",
    "OS-EXT-STS:vm_state": "vm_state",
    "OS-SRV-USG:launched_at": "launched_at",
    "accessIPv4": "access_ipv4",
    "accessIPv6": "access_ipv6",
    "config_drive": "has_config_drive",
    "fault": "fault",
    "host_status": "host_status",
    "locked": "is_locked",
    "locked_reason": "locked_reason",
    "pinned_availability_zone": "pinned_availability_zone",
    "progress": "progress",
    "server_groups": "server_groups",
    "tags": "tags",
    "trusted_image_certificates": "trusted_image_certificates",
}
VOLUMES = "os-extended-volumes:volumes_attached"
# The version up to which its answers are understood.
NEWEST = "2.96"
PAGE = 1000
CONSOLE_LINES = 2000
# So many names are asked for one by one; for more all servers of the project are listed.
FEW_NAMES = 8
# So long may a name be, and with it what a service takes that answers as Nova does.
LONGEST_PATTERN = 255
HOST_KEY, SSH_USER = "abaca_host_key", "abaca_ssh_user"

_UUID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
_ON_CONSOLE = re.compile(r"-+BEGIN SSH HOST KEY KEYS-+\s(.*?)-+END SSH HOST KEY KEYS-+", re.DOTALL)
# The first of these that a server has is the one to expect.
_BEST_KEYS = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")


class Nova(Compute):
    """The plug-in `nova`; see the module. Nova is asked nothing before the first call."""

    def __init__(self, options: settings.Compute) -> None:
        """Raises ConfigError for settings that cannot work, ImportError without openstacksdk."""
        self._cloud = clouds.Cloud(
            options.nova_clouds_file,
            options.nova_cloud,
            options.nova_timeout_s,
            lambda reason: ComputeUnreachable(reason=reason),
        )
        if options.nova_key is not None:
            try:
                rules.check_key(options.nova_key, str(options.key_directory))
                rules.check_ssh_user(options.nova_ssh_user)
            except errors.Invalid as error:
                raise errors.ConfigError(
                    problem="[compute] nova_key or nova_ssh_user cannot be used", mend=error.message
                ) from None
        self._options = options

    def list(self, wanted: Wanted) -> Sequence[Server]:
        """Nova finds the servers; what Nova may understand differently is compared here once more."""
        asked = _query(wanted)
        found: list[Server] = []
        marker = wanted.marker
        with self._asking() as compute:
            members = self._members(wanted) if wanted.groups else {}
            while len(found) < wanted.limit:
                size = min(PAGE, wanted.limit) if wanted.only is None else PAGE
                page, goes_on = self._page(compute, asked, size, marker)
                found.extend(server for server in _in_groups(page, members) if _is_wanted(server, wanted))
                if not goes_on:
                    break
                marker = page[-1].id
        return found[: wanted.limit]

    def show(self, server_id: str) -> Server | None:
        """The server of Nova with that id."""
        if not _UUID.fullmatch(server_id):
            return None
        from openstack import exceptions

        with self._asking() as compute:
            try:
                return _server(_ask(compute, f"/servers/{server_id}", "server")["server"])
            except exceptions.NotFoundException:
                return None

    def named(self, project_id: str, names: Sequence[str]) -> Sequence[Server]:
        """A question for each of a few names; what Nova finds is compared here."""
        patterns = {name: _pattern_of(name) for name in sorted(names)}
        if len(patterns) > FEW_NAMES or any(len(one) > LONGEST_PATTERN for one in patterns.values()):
            return super().named(project_id, names)
        found: dict[str, Server] = {}
        for pattern in patterns.values():
            asked = Wanted(project_id=project_id, name=pattern, only=lambda server: server.name in patterns)
            found.update((server.id, server) for server in self.list(asked))
        return [*found.values()]

    def login(self, server_id: str) -> Login:
        """The login of the settings, at the server's first address or the first one in `nova_network`."""
        server = self.show(server_id)
        if server is None:
            raise errors.NotFound(resource="Server", id=server_id)
        key = self._options.nova_key
        if key is None:
            raise NoWayIn(id=server_id, reason="set nova_key in [compute]")
        host = self._host(server)
        user = server.metadata.get(SSH_USER)
        try:
            return Login(
                host=host,
                user=rules.check_ssh_user(user) if user else self._options.nova_ssh_user,
                host_key=self._host_key(server, host),
                key=key,
            )
        except errors.Invalid as error:
            raise NoWayIn(id=server_id, reason=f"its metadata are wrong: {error.message}") from None

    def close(self) -> None:
        """Give the connections back."""
        self._cloud.close()

    def _host(self, server: Server) -> str:
        wanted = self._options.nova_network
        for one in server.addresses:
            if wanted is None or one.network == wanted:
                return one.ip
        where = f" in network {wanted} (nova_network in [compute])" if wanted else ""
        raise NoWayIn(id=server.id, reason=f"it has no address{where}")

    def _host_key(self, server: Server, host: str) -> str:
        file = self._options.nova_known_hosts
        if file is not None:
            known = _best(_in_known_hosts(str(file), host))
            if known is None:
                raise NoWayIn(id=server.id, reason=f"{file} holds no host key of {host}; add it")
            return known
        said = server.metadata.get(HOST_KEY)
        if said:
            return rules.check_host_key(said)
        found = _best(self._on_console(server.id))
        if found is None:
            mend = f"put it into the metadata key {HOST_KEY} or a known_hosts file (nova_known_hosts in [compute])"
            raise NoWayIn(id=server.id, reason=f"neither its metadata nor its console say its host key; {mend}")
        return found

    def _on_console(self, server_id: str) -> Iterable[str]:
        from openstack import exceptions

        with self._asking() as compute:
            try:
                said = compute.get_server_console_output(server_id, length=CONSOLE_LINES)
            except exceptions.HttpException as error:
                if (error.status_code or 500) >= 500:
                    raise
                return ()  # no console, or none yet
        text = str((said or {}).get("output") or "")
        # the last boot counts
        blocks = _ON_CONSOLE.findall(text)
        return blocks[-1].splitlines() if blocks else ()

    def _members(self, wanted: Wanted) -> dict[str, frozenset[str]]:
        """The servers in each group that is asked about: lists do not say of servers in which they are."""
        from openstack import exceptions

        found: dict[str, frozenset[str]] = {}
        with self._asking() as compute:
            for group in filter(_UUID.fullmatch, wanted.groups):
                try:
                    said = _ask(compute, f"/os-server-groups/{group}", "server_group")["server_group"]
                except exceptions.NotFoundException:
                    continue
                if wanted.project_id in (None, said.get("project_id")):
                    found[group] = frozenset(said.get("members") or ())
        return found

    def _page(
        self, compute: Any, asked: dict[str, Any], size: int, marker: str | None
    ) -> tuple[Sequence[Server], bool]:
        """A page, and whether another follows. Nova alone knows: its operator may have said how long pages are."""
        from openstack import exceptions

        after = {"marker": marker} if marker is not None else {}
        try:
            said = _ask(compute, "/servers/detail", "servers", {**asked, "limit": size, **after})
        except exceptions.BadRequestException as error:
            raise errors.Invalid(f"Nova refuses the query; is 'marker' the id of a server? {error.details}") from None
        page = [_server(one) for one in said["servers"]]
        return page, bool(page and said.get("servers_links"))

    @contextlib.contextmanager
    def _asking(self) -> Iterator[Any]:
        """The library's connection to Nova. Raises `ComputeUnreachable` for what goes wrong on the way."""
        with self._cloud.asking() as connection:
            yield connection.compute


def check_files(options: settings.Compute) -> None:
    """Raises ConfigError for files that cannot be read, and for a clouds.yaml that does not know the cloud."""
    if options.nova_known_hosts is not None:
        clouds.check_readable("compute", "nova_known_hosts", options.nova_known_hosts)
    clouds.check("compute", "nova", options.nova_clouds_file, options.nova_cloud)


def _query(wanted: Wanted) -> dict[str, Any]:
    """The part of the conditions that Nova's list understands, as its query."""
    statuses = wanted.statuses
    v6 = wanted.ip is not None and ":" in wanted.ip
    said = {
        "all_tenants": "true",
        "project_id": wanted.project_id,
        "user_id": wanted.user_id,
        "name": wanted.name,
        "status": statuses[0] if statuses and len(statuses) == 1 else None,
        "availability_zone": wanted.availability_zone,
        "ip6" if v6 else "ip": f"^{re.escape(wanted.ip)}$" if wanted.ip else None,
        "changes-since": f"{wanted.changed_since.isoformat()}Z" if wanted.changed_since else None,
        "sort_key": SORTS.get(wanted.sort_key, "created_at"),
        "sort_dir": "desc" if wanted.descending else "asc",
    }
    return {name: value for name, value in said.items() if value is not None}


def _pattern_of(name: str) -> str:
    """For that name alone. On MySQL no Nova knows alternatives: it escapes each `|`, which then is no longer itself."""
    return f"^{re.escape(name).replace(re.escape('|'), '.')}$"


def _in_groups(page: Iterable[Server], members: Mapping[str, frozenset[str]]) -> Iterator[Server]:
    for server in page:
        groups = tuple(group for group, ids in members.items() if server.id in ids)
        yield msgspec.structs.replace(server, groups=groups) if groups else server


def _is_wanted(server: Server, wanted: Wanted) -> bool:
    changed = server.updated_at or server.created_at
    return (
        server.status not in ("DELETED", "SOFT_DELETED")
        and wanted.project_id in (None, server.project_id)
        and wanted.user_id in (None, server.user_id)
        and (wanted.statuses is None or server.status in wanted.statuses)
        and wanted.availability_zone in (None, server.availability_zone)
        and (wanted.ip is None or any(one.ip == wanted.ip for one in server.addresses))
        and (wanted.changed_since is None or changed >= wanted.changed_since)
        and (wanted.changed_before is None or changed <= wanted.changed_before)
        and (wanted.only is None or wanted.only(server))
    )


def _ask(compute: Any, path: str, key: str, params: Mapping[str, Any] | None = None) -> Any:
    """Nova's answer, an object with something under `key`."""
    from openstack import exceptions, utils

    answer = compute.get(path, params=params, microversion=utils.maximum_supported_microversion(compute, NEWEST))
    exceptions.raise_from_response(answer)
    said = answer.json()
    if not isinstance(said, dict) or key not in said:
        raise ComputeUnreachable(reason=f"what it says at {path} is no answer of Nova's")
    return said


def _server(told: Any) -> Server:
    from openstack.compute.v2 import server

    if "addresses" not in told:  # it says what it knows by itself, which is next to nothing
        raise ServerUnreachable(id=told.get("id"), reason="Nova does not reach the cell that has it")
    said = server.Server.existing(**told)
    created = _time(said.created_at)
    return Server(
        id=said.id,
        name=said.name or "",
        project_id=said.project_id or "",
        user_id=said.user_id,
        status=said.status or "UNKNOWN",
        addresses=tuple(_addresses(said.addresses or {})),
        description=said.description,
        metadata={str(key): str(value) for key, value in (said.metadata or {}).items()},
        availability_zone=said.availability_zone or None,
        created_at=created or datetime.datetime(1970, 1, 1),  # noqa: DTZ001 (naive UTC, as all times here)
        updated_at=_time(said.updated_at),
        flavor=_flavor(said.flavor),
        image_id=getattr(said.image, "id", None),
        key_name=said.key_name,
        task_state=said.task_state,
        host=said.compute_host or said.hypervisor_hostname,
        told=_told(said),
    )


def _told(said: Any) -> dict[str, Any]:
    volumes = [
        {"id": one.id, "delete_on_termination": one.delete_on_termination} for one in said.attached_volumes or ()
    ]
    told = {name: getattr(said, known) for name, known in TOLD.items()}
    return {name: value for name, value in told.items() if value is not None} | {VOLUMES: volumes}


def _addresses(networks: dict[str, list[dict[str, Any]]]) -> Iterator[Address]:
    for network, found in networks.items():
        for one in found:
            with contextlib.suppress(errors.Invalid):
                ip = rules.check_ip(str(one.get("addr")))
                kind = one.get("OS-EXT-IPS:type") or "fixed"
                yield Address(ip, network, kind, one.get("OS-EXT-IPS-MAC:mac_addr"))


def _flavor(said: Any) -> Flavor:
    if said is None:
        return Flavor()
    return Flavor(
        id=said.id,
        name=said.original_name or said.name or said.id or "unknown",
        vcpus=said.vcpus or 0,
        ram_mib=said.ram or 0,
        disk_gib=said.disk or 0,
        ephemeral_gib=said.ephemeral or 0,
        swap_mib=int(said.swap or 0),
        extra_specs={str(key): str(value) for key, value in (said.extra_specs or {}).items()},
    )


def _time(text: str | None) -> datetime.datetime | None:
    if not text:
        return None
    time = datetime.datetime.fromisoformat(text)
    return time.astimezone(datetime.UTC).replace(tzinfo=None) if time.tzinfo else time


def _in_known_hosts(file: str, host: str) -> Iterable[str]:
    """The host keys of an address in a known_hosts file, hashed names included. Raises `ComputeUnreachable`."""
    import asyncssh

    try:
        keys = asyncssh.read_known_hosts(file).match(host, host, None)[0]
    except (OSError, ValueError) as error:
        raise ComputeUnreachable(reason=f"the file of known hosts cannot be read: {error}") from None
    return [key.export_public_key().decode() for key in keys]


def _best(lines: Iterable[str]) -> str | None:
    """The best of several host keys; lines that are none are passed over."""
    found: dict[str, str] = {}
    for line in lines:
        with contextlib.suppress(errors.Invalid):
            key = rules.check_host_key(line.strip())
            found.setdefault(key.partition(" ")[0], key)
    return next((found[kind] for kind in _BEST_KEYS if kind in found), next(iter(found.values()), None))
