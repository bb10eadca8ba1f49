# SPDX-License-Identifier: Apache-2.0
"""How servers are shown to Nova's clients: what is known of them, and else what Nova shows where there is nothing."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping
from typing import Annotated, Any

from abaca.compute import contract
from abaca.http.bodies import UNSET, UnsetType
from abaca.http.pipeline import Call
from abaca.http.wire import AdminOnly, Column, Computed, Link, Named, Since, Until, View, Was

# vm_state and power_state of each status that a server may have, where its source does not say them.
STATES = {
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
    "SOFT_DELETED": ("soft-delete", 4),
    "BUILD": ("building", 0),
    **dict.fromkeys(
        ("REBOOT", "HARD_REBOOT", "PASSWORD", "REBUILD", "MIGRATING", "RESIZE", "REVERT_RESIZE"), ("active", 1)
    ),
}
_WITH_PROGRESS = ("ACTIVE", "BUILD", "DELETED", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING")
_VM_STATE, _POWER_STATE = "OS-EXT-STS:vm_state", "OS-EXT-STS:power_state"
_VOLUMES = "os-extended-volumes:volumes_attached"
_OF = "OS-EXT-SRV-ATTR:"
HOSTNAME, RESERVATION, _DEVICE = _OF + "hostname", _OF + "reservation_id", _OF + "root_device_name"
_IN_2_3 = Since("2.3")


def _links(call: Call, server_id: str) -> list[Link]:
    return call.links("servers", server_id)


def _told(name: str, usual: object) -> Computed:
    """What the server's source says under a name, or what is usual where it says nothing of that."""
    return Computed(lambda _, told: told.get(name, usual), needs=("told",))


def _or_else(name: str, column: str) -> Computed:
    return Computed(lambda _, told, usual: told.get(name, usual), needs=("told", column))


def states(told: Mapping[str, Any], status: str) -> tuple[str, int]:
    """The vm_state and the power_state of a server."""
    usual = STATES.get(status, ("building", 0))
    return told.get(_VM_STATE, usual[0]), told.get(_POWER_STATE, usual[1])


_STATE = Computed(lambda _, told, status: states(told, status)[0], needs=("told", "status"))
_HYPERVISOR = _or_else(_OF + "hypervisor_hostname", "host")
_NAME = _or_else(HOSTNAME, "name")
_POWER = Computed(lambda _, told, status: states(told, status)[1], needs=("told", "status"))


def _launched(_call: Call, told: Mapping[str, Any], created: datetime.datetime) -> str | None:
    return told.get("OS-SRV-USG:launched_at") if told else created.isoformat("T", "microseconds")


def _fault(call: Call, told: Mapping[str, Any], status: str) -> dict[str, object] | UnsetType:
    """Why a server is in error; what went wrong inside is for administrators."""
    said = told.get("fault")
    if not said or status != "ERROR":
        return UNSET
    may_see = call.caller.is_admin or said.get("code") != 500
    return {name: value for name, value in said.items() if may_see or name != "details"}


def _progress(_call: Call, told: Mapping[str, Any], status: str) -> int | UnsetType:
    return (told.get("progress") or 0) if status in _WITH_PROGRESS else UNSET


def _host_status(_call: Call, told: Mapping[str, Any], host: str | None) -> str:
    said: str = told.get("host_status", "UP" if host else "")
    return said


def _volume_ids(_call: Call, told: Mapping[str, Any]) -> list[dict[str, str]]:
    return [{"id": volume["id"]} for volume in told.get(_VOLUMES, ())]


def _stamp(time: datetime.datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _flavor(_call: Call, flavor: contract.Flavor) -> dict[str, object]:
    return {
        "original_name": flavor.name,
        "vcpus": flavor.vcpus,
        "ram": flavor.ram_mib,
        "disk": flavor.disk_gib,
        "ephemeral": flavor.ephemeral_gib,
        "swap": flavor.swap_mib,
        "extra_specs": dict(flavor.extra_specs),
    }


def _flavor_link(call: Call, flavor: contract.Flavor) -> dict[str, object]:
    flavor_id = flavor.id or flavor.name
    return {"id": flavor_id, "links": [{"rel": "bookmark", "href": f"{call.root}/compute/flavors/{flavor_id}"}]}


def _image(call: Call, image_id: str | None) -> dict[str, object] | str:
    if image_id is None:
        return ""
    return {"id": image_id, "links": [{"rel": "bookmark", "href": f"{call.root}/compute/images/{image_id}"}]}


def _addresses(_call: Call, addresses: tuple[contract.Address, ...]) -> dict[str, list[dict[str, str | int]]]:
    found: dict[str, list[dict[str, str | int]]] = {}
    for one in addresses:
        shown: dict[str, str | int] = {"addr": one.ip, "version": one.family, "OS-EXT-IPS:type": one.kind}
        if one.mac is not None:
            shown["OS-EXT-IPS-MAC:mac_addr"] = one.mac
        found.setdefault(one.network, []).append(shown)
    return found


def _host_id(_call: Call, project_id: str, host: str | None) -> str:
    return hashlib.sha224(f"{project_id}{host}".encode()).hexdigest() if host else ""


def share_status(_call: Call, state: str) -> str:
    """An attachment's state, as Nova's clients know it. One that moves is not well before it has."""
    return "attaching" if state == "remounting" else state


def _shares_attached(call: Call, server_id: str) -> list[dict[str, str]]:
    attached: list[dict[str, str]] = call.notes["shares_attached"].get(server_id, [])
    return attached


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
    access_ipv4: Annotated[str, Named("accessIPv4"), _told("accessIPv4", "")]
    access_ipv6: Annotated[str, Named("accessIPv6"), _told("accessIPv6", "")]
    host_id: Annotated[str, Named("hostId"), Computed(_host_id, needs=("project_id", "host"))]
    key_name: str | None
    config_drive: Annotated[str, _told("config_drive", "")]
    progress: Annotated[int | UnsetType, Computed(_progress, needs=("told", "status"))]
    fault: Annotated[dict[str, Any] | UnsetType, Computed(_fault, needs=("told", "status"))]
    disk_config: Annotated[str, Named("OS-DCF:diskConfig"), _told("OS-DCF:diskConfig", "MANUAL")]
    zone: Annotated[
        str,
        Named("OS-EXT-AZ:availability_zone"),
        Computed(lambda _, zone: zone or "", needs=("availability_zone",)),
    ]
    task_state: Annotated[str | None, Named("OS-EXT-STS:task_state")]
    vm_state: Annotated[str, Named(_VM_STATE), _STATE]
    power_state: Annotated[int, Named(_POWER_STATE), _POWER]
    launched_at: Annotated[
        str | None, Named("OS-SRV-USG:launched_at"), Computed(_launched, needs=("told", "created_at"))
    ]
    terminated_at: Annotated[str | None, Named("OS-SRV-USG:terminated_at"), Computed(lambda _: None)]
    volumes: Annotated[
        list[dict[str, Any]], Named(_VOLUMES), _told(_VOLUMES, []), Was("2.2", Computed(_volume_ids, needs=("told",)))
    ]
    shares: Annotated[
        list[dict[str, Any]],
        Named("os-extended-shares:shares_attached"),
        Computed(_shares_attached, needs=("id",)),
    ]
    host: Annotated[str | None, Named(_OF + "host"), AdminOnly()]
    hypervisor: Annotated[str | None, Named(_OF + "hypervisor_hostname"), _HYPERVISOR, AdminOnly()]
    instance_name: Annotated[str, Named(_OF + "instance_name"), _or_else(_OF + "instance_name", "id"), AdminOnly()]
    hostname_for_admins: Annotated[str | None, Named(HOSTNAME), _NAME, _IN_2_3, Until("2.89"), AdminOnly()]
    hostname: Annotated[str | None, Named(HOSTNAME), _NAME, Since("2.90")]
    kernel_id: Annotated[str, Named(_OF + "kernel_id"), _told(_OF + "kernel_id", ""), _IN_2_3, AdminOnly()]
    launch_index: Annotated[int, Named(_OF + "launch_index"), _told(_OF + "launch_index", 0), _IN_2_3, AdminOnly()]
    ramdisk_id: Annotated[str, Named(_OF + "ramdisk_id"), _told(_OF + "ramdisk_id", ""), _IN_2_3, AdminOnly()]
    reservation_id: Annotated[str, Named(RESERVATION), _told(RESERVATION, ""), _IN_2_3, AdminOnly()]
    root_device_name: Annotated[str | None, Named(_DEVICE), _told(_DEVICE, None), _IN_2_3, AdminOnly()]
    # what a server was started with may hold secrets, and nobody here needs it
    user_data: Annotated[None, Named(_OF + "user_data"), Computed(lambda _: None), _IN_2_3, AdminOnly()]
    locked: Annotated[bool, Since("2.9"), _told("locked", usual=False)]
    host_status: Annotated[str, Since("2.16"), Computed(_host_status, needs=("told", "host")), AdminOnly()]
    description: Annotated[str | None, Since("2.19")]
    tags: Annotated[list[str], Since("2.26"), _told("tags", [])]
    trusted_image_certificates: Annotated[list[str] | None, Since("2.63"), _told("trusted_image_certificates", None)]
    locked_reason: Annotated[str | None, Since("2.73"), _told("locked_reason", None)]
    pinned_availability_zone: Annotated[str | None, Since("2.96"), _told("pinned_availability_zone", None)]


class ServerByItselfView(ServerView):
    """A server that is not one of a list."""

    server_groups: Annotated[list[str], Since("2.71"), _told("server_groups", [])]
