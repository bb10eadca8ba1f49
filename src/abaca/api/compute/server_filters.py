# SPDX-License-Identifier: Apache-2.0
"""What lists of servers may be asked for."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from abaca import errors
from abaca.api.compute import server_views
from abaca.api.compute.versions import MAXIMUM
from abaca.compute import contract
from abaca.http.bodies import Filters, Flag, Text
from abaca.http.patterns import Pattern
from abaca.http.wire import AdminOnly, Named, Since, fields_of


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
    host: Annotated[Text, AdminOnly()]
    reservation_id: Text
    tags: Annotated[Text, Since("2.26")]
    tags_any: Annotated[Text, Named("tags-any"), Since("2.26")]
    not_tags: Annotated[Text, Named("not-tags"), Since("2.26")]
    not_tags_any: Annotated[Text, Named("not-tags-any"), Since("2.26")]
    locked: Annotated[Flag, Since("2.73")]
    vm_state: Annotated[Text, Since("2.83")]
    task_state: Annotated[Text, Since("2.83")]
    power_state: Annotated[Text, Since("2.83")]
    config_drive: Annotated[Text, Since("2.83")]
    hostname: Annotated[Text, Since("2.90")]
    changes_since: Annotated[Text, Named("changes-since")]
    changes_before: Annotated[Text, Named("changes-before"), Since("2.66")]


# What Nova's lists can be asked for beyond that; of no effect, as there in part.
_OF_NO_EFFECT = frozenset(
    (
        "access_ip_v4", "access_ip_v6", "auto_disk_config", "created_at", "description", "disk_config",
        "display_description", "image_ref", "instance_name", "kernel_id", "launch_index", "launched_at", "locked_by",
        "node", "progress", "ramdisk_id", "root_device_name", "soft_deleted", "terminated_at",
        "pinned_availability_zone", "limit", "marker", "sort_key", "sort_dir", "all_tenants",
    )
)  # fmt: skip
KNOWN = _OF_NO_EFFECT | {field.name(MAXIMUM) for field in fields_of(ServerFilters)}

# Servers that a list looks through for what no plug-in can be asked for.
MOST_LOOKED_AT = 20_000


def predicate(filters: dict[str, Any]) -> Callable[[contract.Server], bool] | None:
    """What of the query no plug-in is asked for. It raises Invalid when it has to look at too many servers."""
    tests: list[Callable[[contract.Server], bool]] = []
    name = filters.get("name", filters.get("display_name"))
    if name:
        called = Pattern(name)
        tests.append(lambda server: called.finds(server.name))
    for field, family in (("ip", 4), ("ip6", 6)):
        if filters.get(field):
            tests.append(_at(Pattern(filters[field]), family))
    for field, of in _EXACT.items():
        if field in filters:
            tests.append(_equals(of, filters[field]))
    for field, agrees in _TAGGED.items():
        if field in filters:
            tests.append(_tagged(agrees, filters[field]))
    if "locked" in filters:
        tests.append(lambda server: server.told.get("locked", False) == filters["locked"])
    return _all_of(tests) if tests else None


def _all_of(tests: list[Callable[[contract.Server], bool]]) -> Callable[[contract.Server], bool]:
    looked_at = itertools.count(1)

    def agrees(server: contract.Server) -> bool:
        if next(looked_at) > MOST_LOOKED_AT:
            raise errors.Invalid(
                f"More than {MOST_LOOKED_AT} servers would have to be looked at: narrow the list down, by project_id, "
                "user_id, status, availability_zone or changes-since, or go on after a marker."
            )
        return all(test(server) for test in tests)

    return agrees


# What of a server must be as it is asked for, word for word.
_EXACT: Mapping[str, Callable[[contract.Server], str | None]] = {
    "uuid": lambda server: server.id,
    "flavor": lambda server: server.flavor.id,
    "image": lambda server: server.image_id,
    "key_name": lambda server: server.key_name,
    "task_state": lambda server: server.task_state,
    "host": lambda server: server.host,
    "hostname": lambda server: server.told.get(server_views.HOSTNAME, server.name),
    "reservation_id": lambda server: server.told.get(server_views.RESERVATION),
    "config_drive": lambda server: server.told.get("config_drive", ""),
    "vm_state": lambda server: server_views.states(server.told, server.status)[0],
    "power_state": lambda server: str(server_views.states(server.told, server.status)[1]),
}
_TAGGED: Mapping[str, Callable[[set[str], set[str]], bool]] = {
    "tags": lambda has, asked: has >= asked,
    "tags_any": lambda has, asked: not has.isdisjoint(asked),
    "not_tags": lambda has, asked: not has >= asked,
    "not_tags_any": lambda has, asked: has.isdisjoint(asked),
}


def _tagged(agrees: Callable[[set[str], set[str]], bool], asked: str) -> Callable[[contract.Server], bool]:
    return lambda server: agrees(set(server.told.get("tags", ())), set(asked.split(",")))


def _at(pattern: Pattern, family: int) -> Callable[[contract.Server], bool]:
    return lambda server: any(one.family == family and pattern.finds(one.ip) for one in server.addresses)


def _equals(of: Callable[[contract.Server], str | None], value: str) -> Callable[[contract.Server], bool]:
    return lambda server: of(server) == value


def time(filters: dict[str, Any], name: str) -> datetime.datetime | None:
    """The time that is asked for under a name, naive UTC. Raises Invalid."""
    said = filters.get(name)
    if said is None:
        return None
    try:
        # a plus that was not encoded has become a blank
        time = datetime.datetime.fromisoformat(said.strip().replace(" ", "+") if "T" in said else said.strip())
        return time.astimezone(datetime.UTC).replace(tzinfo=None) if time.tzinfo else time
    except (ValueError, OverflowError):
        raise errors.Invalid(f"'{name.replace('_', '-')}' must be a time, such as 2026-01-31T12:00:00Z.") from None
