# SPDX-License-Identifier: Apache-2.0
"""Servers as Nova's clients know them, wherever the compute plug-in has them from."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from abaca import errors, policy
from abaca.api import paging
from abaca.api.bodies import UNSET, Filters, Flag, Text, UnsetType
from abaca.api.paging import Listed
from abaca.api.pipeline import Call
from abaca.api.routing import Resource
from abaca.api.wire import AdminOnly, Column, Computed, Feature, Link, Many, Named, One, Since, View, Was
from abaca.compute import contract
from abaca.db import attachments
from abaca.domain.patterns import Pattern

UNKNOWN_QUERIES_ARE_REFUSED = Feature(
    "unknown_queries_are_refused", "2.75", "A list may be asked only for what is known; before, the rest was ignored."
)

UNKNOWN_STATUSES_ARE_REFUSED = Feature(
    "unknown_statuses_are_refused", "2.38", "A list may be asked only for a status that there is; before, none had it."
)

INDEX = policy.reader("os_compute_api:servers:index", "List servers.")
DETAIL = policy.reader("os_compute_api:servers:detail", "List servers with all that is known of them.")
SHOW = policy.reader("os_compute_api:servers:show", "See a server.")
INDEX_ALL = policy.admin("os_compute_api:servers:index:get_all_tenants", "List the servers of all projects.")
DETAIL_ALL = policy.admin("os_compute_api:servers:detail:get_all_tenants", "The same with all that is known of them.")

RESOURCE = Resource("servers", "/servers", rules=(INDEX_ALL, DETAIL_ALL), since="2.1")

# vm_state and power_state of a status; others are in between.
_STATES = {
    "ACTIVE": ("active", 1),
    "SHUTOFF": ("stopped", 4),
    "ERROR": ("error", 0),
    "PAUSED": ("paused", 3),
    "SUSPENDED": ("suspended", 7),
    "SHELVED": ("shelved", 4),
    "SHELVED_OFFLOADED": ("shelved_offloaded", 4),
    "RESCUE": ("rescued", 1),
    "VERIFY_RESIZE": ("resized", 1),
    "DELETED": ("deleted", 0),
}
# Those that have none of their own.
_BUSY = (
    "BUILD",
    "REBUILD",
    "RESIZE",
    "REVERT_RESIZE",
    "MIGRATING",
    "REBOOT",
    "HARD_REBOOT",
    "PASSWORD",
    "SOFT_DELETED",
)
_WITH_PROGRESS = ("ACTIVE", "BUILD", "DELETED", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING")
# Names that lists can be sorted by, and what they are called here.
_SORTS = {name: name for name in contract.SORTS} | {"uuid": "id", "display_name": "name", "vm_state": "status"}
# What Nova's lists can be asked for beyond what is compared here; of no effect, as there in part.
_ALSO_KNOWN = frozenset(
    (
        "access_ip_v4", "access_ip_v6", "auto_disk_config", "config_drive", "created_at", "description", "disk_config",
        "display_description", "host", "hostname", "image_ref", "instance_name", "kernel_id", "launch_index",
        "launched_at", "locked_by", "node", "progress", "ramdisk_id", "reservation_id",
        "root_device_name", "soft_deleted", "terminated_at", "not-tags", "not-tags-any", "pinned_availability_zone",
        "limit", "marker", "sort_key", "sort_dir", "all_tenants",
    )
)  # fmt: skip


def _links(call: Call, server_id: str) -> list[Link]:
    return call.links("servers", server_id)


def _stamp(time: datetime.datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _flavor(_call: Call, flavor: contract.Flavor) -> dict[str, Any]:
    return {
        "original_name": flavor.name,
        "vcpus": flavor.vcpus,
        "ram": flavor.ram_mib,
        "disk": flavor.disk_gib,
        "ephemeral": flavor.ephemeral_gib,
        "swap": flavor.swap_mib,
        "extra_specs": dict(flavor.extra_specs),
    }


def _flavor_link(call: Call, flavor: contract.Flavor) -> dict[str, Any]:
    flavor_id = flavor.id or flavor.name
    return {"id": flavor_id, "links": [{"rel": "bookmark", "href": f"{call.root}/compute/flavors/{flavor_id}"}]}


def _image(call: Call, image_id: str | None) -> dict[str, Any] | str:
    if image_id is None:
        return ""
    return {"id": image_id, "links": [{"rel": "bookmark", "href": f"{call.root}/compute/images/{image_id}"}]}


def _addresses(_call: Call, addresses: tuple[contract.Address, ...]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for one in addresses:
        shown = {"addr": one.ip, "version": one.family, "OS-EXT-IPS:type": one.kind}
        if one.mac is not None:
            shown["OS-EXT-IPS-MAC:mac_addr"] = one.mac
        found.setdefault(one.network, []).append(shown)
    return found


def _state_of(status: str) -> tuple[str, int]:
    return _STATES.get(status, ("building", 0))


def _host_id(_call: Call, project_id: str, host: str | None) -> str:
    return hashlib.sha224(f"{project_id}{host}".encode()).hexdigest() if host else ""


def share_status(_call: Call, state: str) -> str:
    """An attachment's state, as Nova's clients know it."""
    return "active" if state == "remounting" else state


def _shares_attached(call: Call, server_id: str) -> list[dict[str, Any]]:
    attached: list[dict[str, Any]] = call.notes["shares_attached"].get(server_id, [])
    return attached


def _note_shares(call: Call, found: Sequence[contract.Server]) -> None:
    """Leave for the view which shares these servers have."""
    noted: dict[str, list[dict[str, Any]]] = {}
    with call.db.read() as tx:
        for row in attachments.of_servers(tx, [server.id for server in found]):
            said = {"id": row.share_id, "mount_point": row.mount_point, "tag": row.tag}
            noted.setdefault(row.server_id, []).append({**said, "status": share_status(call, row.state)})
    call.notes["shares_attached"] = noted


class BriefView(View):
    """A server in the short list."""

    id: str
    name: str
    links: Annotated[list[Link], Computed(_links, needs=("id",))]


class ServerView(BriefView):
    """A server; what nobody here decides (disks, schedulers, keys) is shown as Nova shows it where there is none."""

    status: str
    tenant_id: Annotated[str, Column("project_id")]
    user_id: Annotated[str, Computed(lambda _, user_id: user_id or "", needs=("user_id",))]
    created: Annotated[str, Computed(lambda _, time: _stamp(time), needs=("created_at",))]
    updated: Annotated[str, Computed(lambda _, time, first: _stamp(time or first), needs=("updated_at", "created_at"))]
    metadata: dict[str, str]
    image: Annotated[Any, Computed(_image, needs=("image_id",))]
    flavor: Annotated[
        dict[str, Any],
        Computed(_flavor, needs=("flavor",)),
        Was("2.46", Computed(_flavor_link, needs=("flavor",))),
    ]
    addresses: Annotated[dict[str, list[dict[str, Any]]], Computed(_addresses, needs=("addresses",))]
    access_ipv4: Annotated[str, Named("accessIPv4"), Computed(lambda _: "")]
    access_ipv6: Annotated[str, Named("accessIPv6"), Computed(lambda _: "")]
    host_id: Annotated[str, Named("hostId"), Computed(_host_id, needs=("project_id", "host"))]
    key_name: str | None
    config_drive: Annotated[str, Computed(lambda _: "")]
    progress: Annotated[
        int | UnsetType, Computed(lambda _, status: 0 if status in _WITH_PROGRESS else UNSET, needs=("status",))
    ]
    disk_config: Annotated[str, Named("OS-DCF:diskConfig"), Computed(lambda _: "MANUAL")]
    zone: Annotated[
        str,
        Named("OS-EXT-AZ:availability_zone"),
        Computed(lambda _, zone: zone or "", needs=("availability_zone",)),
    ]
    task_state: Annotated[str | None, Named("OS-EXT-STS:task_state")]
    vm_state: Annotated[
        str,
        Named("OS-EXT-STS:vm_state"),
        Computed(lambda _, status: _state_of(status)[0], needs=("status",)),
    ]
    power_state: Annotated[
        int,
        Named("OS-EXT-STS:power_state"),
        Computed(lambda _, status: _state_of(status)[1], needs=("status",)),
    ]
    launched_at: Annotated[
        str | None,
        Named("OS-SRV-USG:launched_at"),
        Computed(lambda _, time: time.isoformat("T", "microseconds"), needs=("created_at",)),
    ]
    terminated_at: Annotated[str | None, Named("OS-SRV-USG:terminated_at"), Computed(lambda _: None)]
    volumes: Annotated[list[Any], Named("os-extended-volumes:volumes_attached"), Computed(lambda _: [])]
    shares: Annotated[
        list[dict[str, Any]],
        Named("os-extended-shares:shares_attached"),
        Computed(_shares_attached, needs=("id",)),
    ]
    host: Annotated[str | None, Named("OS-EXT-SRV-ATTR:host"), AdminOnly()]
    hypervisor: Annotated[str | None, Named("OS-EXT-SRV-ATTR:hypervisor_hostname"), Column("host"), AdminOnly()]
    instance_name: Annotated[str, Named("OS-EXT-SRV-ATTR:instance_name"), Column("id"), AdminOnly()]
    locked: Annotated[bool, Since("2.9"), Computed(lambda _: False)]
    host_status: Annotated[
        str, Since("2.16"), Computed(lambda _, host: "UP" if host else "", needs=("host",)), AdminOnly()
    ]
    description: Annotated[str | None, Since("2.19")]
    tags: Annotated[list[str], Since("2.26"), Computed(lambda _: [])]
    trusted_image_certificates: Annotated[list[str] | None, Since("2.63"), Computed(lambda _: None)]
    locked_reason: Annotated[str | None, Since("2.73"), Computed(lambda _: None)]
    pinned_availability_zone: Annotated[str | None, Since("2.96"), Computed(lambda _: None)]


class ServerFilters(Filters):
    """What the lists may be asked for; `name`, `ip` and `ip6` are regular expressions."""

    name: Text
    display_name: Text
    status: Text
    uuid: Text
    ip: Text
    ip6: Text
    flavor: Text
    image: Text
    key_name: Text
    user_id: Text
    project_id: Text
    tenant_id: Text
    availability_zone: Text
    deleted: Text
    changes_since: Annotated[Text, Named("changes-since")]
    changes_before: Annotated[Text, Named("changes-before"), Since("2.66")]
    tags: Annotated[Text, Since("2.26")]
    tags_any: Annotated[Text, Named("tags-any"), Since("2.26")]
    locked: Annotated[Flag, Since("2.73")]
    vm_state: Annotated[Text, Since("2.83")]
    task_state: Annotated[Text, Since("2.83")]
    power_state: Annotated[Text, Since("2.83")]


_KNOWN = _ALSO_KNOWN | {"changes-since", "changes-before", "tags-any"} | set(ServerFilters.__annotations__)


@RESOURCE.get(policy=INDEX, view=Many("servers", BriefView, links="servers_links"), filters=ServerFilters)
def index(call: Call, filters: dict[str, Any]) -> Listed:
    """Servers by id and name, the newest first."""
    return _list(call, filters, INDEX_ALL)


@RESOURCE.get("/detail", policy=DETAIL, view=Many("servers", ServerView, links="servers_links"), filters=ServerFilters)
def detail(call: Call, filters: dict[str, Any]) -> Listed:
    """Servers with all that is known of them, the newest first."""
    return _list(call, filters, DETAIL_ALL)


@RESOURCE.get("/{server_id}", policy=SHOW, view=One("server", ServerView))
def show(call: Call, server_id: str) -> Any:
    """One server."""
    server = find(call, server_id)
    _note_shares(call, [server])
    return _row(call, server)


def find(call: Call, server_id: str) -> contract.Server:
    """The server, if the caller may use the call's route in its project. Raises NotFound."""
    server = source(call).show(server_id)
    if server is None:
        raise errors.NotFound(resource="Instance", id=server_id)
    call.visible(server.project_id, "Instance", server_id)
    return server


def source(call: Call) -> contract.Compute:
    """The compute plug-in."""
    compute: contract.Compute = call.parts.extras["compute"]
    return compute


def _list(call: Call, filters: dict[str, Any], of_all: policy.Rule) -> Listed:
    if call.has(UNKNOWN_QUERIES_ARE_REFUSED):
        unknown = sorted(set(call.query) - _KNOWN)
        if unknown:
            raise errors.Invalid(f"Nothing is known of {unknown[0][:64]!r} here.")
    wanted = _wanted(call, filters, of_all)
    if wanted is None:
        return Listed([], is_marked=True)
    found = source(call).list(wanted)
    if "addresses" in call.columns:  # all that is known of them
        _note_shares(call, found)
    following = found[-1].id if found and len(found) == wanted.limit else None
    return Listed([_row(call, server) for server in found], is_marked=True, next_marker=following)


def _row(call: Call, server: contract.Server) -> tuple[Any, ...]:
    return tuple(getattr(server, name) for name in call.columns)


def _wanted(call: Call, filters: dict[str, Any], of_all: policy.Rule) -> contract.Wanted | None:
    """What the query asks of the plug-in; None when nothing can be so: no server here has tags or is locked."""
    if filters.get("deleted", "false").lower() in paging.TRUE and call.caller.is_admin:
        return None
    if filters.get("tags") or filters.get("tags_any") or filters.get("locked"):
        return None
    sort_key = call.page.sort_key
    if sort_key not in _SORTS:
        raise errors.Invalid(f"'sort_key' must be one of: {', '.join(sorted(_SORTS))}.")
    status = filters.get("status")
    if status is not None and status.upper() not in (*_STATES, *_BUSY):
        if call.has(UNKNOWN_STATUSES_ARE_REFUSED):
            raise errors.Invalid(f"No server is ever {status[:64]!r}.")
        return None
    return contract.Wanted(
        project_id=_project(call, filters, of_all),
        user_id=filters.get("user_id"),
        name=filters.get("name", filters.get("display_name")),
        only=_predicate(filters),
        statuses=(status.upper(),) if status is not None else None,
        availability_zone=filters.get("availability_zone"),
        changed_since=_time(filters, "changes_since"),
        changed_before=_time(filters, "changes_before"),
        limit=call.page.limit or call.settings.osapi_max_limit,
        marker=call.page.marker or None,
        sort_key=_SORTS[sort_key],
        descending=call.page.descending,
    )


def _project(call: Call, filters: dict[str, Any], of_all: policy.Rule) -> str | None:
    """Whose servers: the caller's own unless an administrator asks for others."""
    said = call.query.get("all_tenants")
    named: str | None = filters.get("project_id", filters.get("tenant_id"))
    wants_all = said is not None and said.lower() not in paging.FALSE
    if wants_all:
        call.require(of_all)
        return named
    if named is not None and call.allows(of_all):
        return named
    return call.caller.project_id


def _predicate(filters: dict[str, Any]) -> Callable[[contract.Server], bool] | None:
    """What of the query no plug-in is asked for."""
    tests: list[Callable[[contract.Server], bool]] = []
    name = filters.get("name", filters.get("display_name"))
    if name:
        called = Pattern(name)
        tests.append(lambda server: called.finds(server.name))
    for field, family in (("ip", 4), ("ip6", 6)):
        if filters.get(field):
            tests.append(_at(Pattern(filters[field]), family))
    exact: Mapping[str, Callable[[contract.Server], str | None]] = {
        "uuid": lambda server: server.id,
        "flavor": lambda server: server.flavor.id,
        "image": lambda server: server.image_id,
        "key_name": lambda server: server.key_name,
        "vm_state": lambda server: _state_of(server.status)[0],
        "power_state": lambda server: str(_state_of(server.status)[1]),
        "task_state": lambda server: server.task_state,
    }
    for field, of in exact.items():
        if field in filters:
            tests.append(_equals(of, filters[field]))
    return (lambda server: all(test(server) for test in tests)) if tests else None


def _at(pattern: Pattern, family: int) -> Callable[[contract.Server], bool]:
    return lambda server: any(one.family == family and pattern.finds(one.ip) for one in server.addresses)


def _equals(of: Callable[[contract.Server], str | None], value: str) -> Callable[[contract.Server], bool]:
    return lambda server: of(server) == value


def _time(filters: dict[str, Any], name: str) -> datetime.datetime | None:
    said = filters.get(name)
    if said is None:
        return None
    try:
        # a plus that was not encoded has become a blank
        time = datetime.datetime.fromisoformat(said.strip().replace(" ", "+") if "T" in said else said.strip())
        return time.astimezone(datetime.UTC).replace(tzinfo=None) if time.tzinfo else time
    except (ValueError, OverflowError):
        raise errors.Invalid(f"'{name.replace('_', '-')}' must be a time, such as 2026-01-31T12:00:00Z.") from None
