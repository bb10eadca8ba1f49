# SPDX-License-Identifier: Apache-2.0
"""The sizes and zones of the caller's servers: what clients of Nova look up before they do anything else.

Nothing is kept of either: they are what the servers say about themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from abaca import errors, policy
from abaca.api.compute.servers import source
from abaca.compute.contract import Flavor
from abaca.http.paging import Listed
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Column, Computed, Link, Many, Named, One, Since, View, Was

INDEX = policy.reader("os_compute_api:flavors:index", "List the flavors that servers have.")
DETAIL = policy.reader("os_compute_api:flavors:detail", "List the flavors that servers have, with what is in them.")
SHOW = policy.reader("os_compute_api:flavors:show", "See a flavor.")
ZONES_INDEX = policy.reader("os_compute_api:os-availability-zone:list", "List the availability zones of servers.")

RESOURCE = Resource("flavors", "/flavors", since="2.1")
ZONES = Resource("availability zones of servers", "/os-availability-zone", since="2.1")


class FlavorListed(View):
    """A flavor in the short list."""

    id: str
    name: str
    description: Annotated[None, Since("2.55"), Computed(lambda _: None)]
    links: Annotated[list[Link], Computed(lambda call, name: call.links("flavors", name), needs=("id",))]


class FlavorView(FlavorListed):
    """A flavor; what nobody here decides is shown as Nova shows it where there is nothing to say."""

    ram: Annotated[int, Column("ram_mib")]
    disk: Annotated[int, Column("disk_gib")]
    vcpus: int
    swap: Annotated[int | str, Column("swap_mib"), Was("2.74", Computed(lambda _, mib: mib or "", needs=("swap_mib",)))]
    ephemeral: Annotated[int, Named("OS-FLV-EXT-DATA:ephemeral"), Column("ephemeral_gib")]
    is_disabled: Annotated[bool, Named("OS-FLV-DISABLED:disabled"), Computed(lambda _: False)]
    is_public: Annotated[bool, Named("os-flavor-access:is_public"), Computed(lambda _: True)]
    rxtx_factor: Annotated[float, Computed(lambda _: 1.0)]
    extra_specs: Annotated[
        dict[str, str], Since("2.61"), Computed(lambda _, specs: dict(specs), needs=("extra_specs",))
    ]


class ZoneState(View):
    """Whether servers can be in a zone."""

    available: bool


class ZoneView(View):
    """An availability zone in which there are servers."""

    zone_name: Annotated[str, Named("zoneName")]
    zone_state: Annotated[ZoneState, Named("zoneState"), Computed(lambda _: {"available": True})]
    hosts: Annotated[None, Computed(lambda _: None)]


@RESOURCE.get(policy=INDEX, view=Many("flavors", FlavorListed, links="flavors_links"))
def index(call: Call) -> Listed:
    """The flavors by id and name."""
    return _page(call)


@RESOURCE.get("/detail", policy=DETAIL, view=Many("flavors", FlavorView, links="flavors_links"))
def detail(call: Call) -> Listed:
    """The flavors with what is in them."""
    return _page(call)


@RESOURCE.get("/{flavor_id}", policy=SHOW, view=One("flavor", FlavorView))
def show(call: Call, flavor_id: str) -> tuple[object, ...]:
    """One flavor."""
    found = next((one for one in _flavors(call) if _id(one) == flavor_id), None)
    if found is None:
        raise errors.NotFound(resource="Flavor", id=flavor_id)
    return _row(call, found)


@ZONES.get(policy=ZONES_INDEX, view=Many("availabilityZoneInfo", ZoneView))
def index_zones(call: Call) -> list[tuple[object, ...]]:
    """The zones in which there are servers."""
    return [(name,) for name in source(call).zones(_whose(call))]


def _page(call: Call) -> Listed:
    """Nova's pages go on by marker alone; a flavor that is gone is none to go on after."""
    found = list(_flavors(call))
    marker = call.page.marker
    if marker:
        place = next((at for at, one in enumerate(found) if _id(one) == marker), None)
        if place is None:
            raise errors.Invalid(f"There is no flavor {marker[:64]!r} to go on after: 'marker' is wrong.")
        found = found[place + 1 :]
    shown = found[: call.page.limit]
    following = _id(shown[-1]) if shown and len(shown) < len(found) else None
    return Listed([_row(call, one) for one in shown], is_marked=True, next_marker=following)


def _flavors(call: Call) -> Sequence[Flavor]:
    return source(call).flavors(_whose(call))


def _whose(call: Call) -> str | None:
    return None if call.caller.is_admin else call.caller.project_id


def _id(flavor: Flavor) -> str:
    return flavor.id or flavor.name


def _row(call: Call, flavor: Flavor) -> tuple[object, ...]:
    return tuple(_id(flavor) if name == "id" else getattr(flavor, name) for name in call.columns)
