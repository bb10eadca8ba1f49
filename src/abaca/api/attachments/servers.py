# SPDX-License-Identifier: Apache-2.0
"""The inventory: the servers that administrators register, so that shares can be attached to them."""

from __future__ import annotations

import datetime
from typing import Annotated, Any

from abaca import errors, policy
from abaca.api import naming
from abaca.db.attachments import servers as db
from abaca.db.engine.database import Tx
from abaca.domain.attachments import servers
from abaca.domain.metadata import check_size
from abaca.http.bodies import UNSET, Body, Filters, IdPrefix, Name, Object, Scalar, Text, UnsetType, Whole, among
from abaca.http.paging import Listed
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import COUNTED, AdminOnly, Computed, Many, One, View
from abaca.operations.attachments import attachment_detach

LIST_ALL_PROJECTS = policy.admin("server:list_all_projects", "List the registered servers of all projects.")
INDEX = policy.reader("server:get_all", "List registered servers.")
SHOW = policy.reader("server:get", "See a registered server.")
CREATE = policy.admin("server:create", "Register a server for a project.")
UPDATE = policy.admin("server:update", "Change what is registered of a server.")
DELETE = policy.admin("server:delete", "Forget a registered server.")

RESOURCE = Resource("servers of the inventory", "/servers", rules=(LIST_ALL_PROJECTS,))


def _addresses(call: Call, server_id: str) -> list[dict[str, str]]:
    return [{"ip": ip, "network": network} for ip, network in call.notes["addresses"][server_id]]


class ServerView(View):
    """A server; how workers get in is shown to administrators only, and of the private key only where it is."""

    id: str
    name: str
    project_id: str
    user_id: str | None
    description: str | None
    status: str
    availability_zone: str | None
    metadata: dict[str, str]
    addresses: Annotated[list[dict[str, str]], Computed(_addresses, needs=("id",))]
    ssh_host: Annotated[str | None, AdminOnly()]
    ssh_port: Annotated[int, AdminOnly()]
    ssh_user: Annotated[str, AdminOnly()]
    host_key: Annotated[str | None, AdminOnly()]
    key: Annotated[str | None, AdminOnly()]
    hypervisor_id: Annotated[str | None, AdminOnly()]
    qmp_socket: Annotated[str | None, AdminOnly()]
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


class Update(Body, key="server", unknown="refuse", alone=True):
    """What is to change; `addresses` are given anew as a whole."""

    name: Name | UnsetType = UNSET
    project_id: Name | UnsetType = UNSET
    description: Name | UnsetType | None = UNSET
    status: Name | UnsetType = UNSET
    availability_zone: Name | UnsetType | None = UNSET
    metadata: Object | UnsetType = UNSET
    addresses: list[Any] | UnsetType = UNSET
    ssh_host: Name | UnsetType | None = UNSET
    ssh_port: Whole | UnsetType = UNSET
    ssh_user: Name | UnsetType = UNSET
    host_key: Text | UnsetType | None = UNSET
    key: Text | UnsetType | None = UNSET
    hypervisor_id: Text | UnsetType | None = UNSET
    qmp_socket: Text | UnsetType | None = UNSET


class Create(Update, key="server", unknown="refuse", alone=True):
    """A server; the project is the caller's own unless another is said."""

    name: Name
    addresses: list[Any]


class ServerFilters(Filters, unknown="refuse"):
    """What the list may be asked for."""

    name: Text
    status: Annotated[str, among(servers.STATUSES)]
    project_id: Text
    availability_zone: Text
    ip: Annotated[str, Scalar(servers.check_ip, "an IP address", {"type": "string"})]
    id: Text
    id_prefix: IdPrefix


SERVER = One("server", ServerView)
SERVER_KIND = naming.Kind("Server", db.SERVERS)


@RESOURCE.get(
    policy=INDEX, view=Many("servers", ServerView, links="servers_links", counted=COUNTED), filters=ServerFilters
)
def index(call: Call, filters: dict[str, object]) -> Listed:
    """Servers of the caller's project; administrators may ask for those of all."""
    asked = {**filters, **call.project_filter(LIST_ALL_PROJECTS)}
    if "status" in asked:
        asked["statuses"] = [asked.pop("status")]
    with call.db.read() as tx:
        rows = db.SERVERS.rows(tx, ("id", *call.columns), asked, call.page)
        call.notes["addresses"] = db.addresses(tx, [row[0] for row in rows])
        count = call.count(lambda most: db.SERVERS.count(tx, asked, most))
    return Listed([row[1:] for row in rows], count)


@RESOURCE.get("/{server_id}", policy=SHOW, view=SERVER)
def show(call: Call, server_id: str) -> tuple[object, ...]:
    """One server."""
    with call.db.read() as tx:
        return _found(call, tx, _id_of(call, tx, server_id))


@RESOURCE.post(policy=CREATE, view=SERVER, body=Create, status=201)
def create(call: Call, body: Create) -> tuple[object, ...]:
    """Register a server; nothing is asked of it."""
    refuse_others(call)
    values, at = _checked(call, body)
    values = {**servers.DEFAULTS, "project_id": call.caller.project_id, **values, "user_id": call.caller.user_id}
    servers.check_project(values["project_id"])
    with call.db.write() as tx:
        return _found(call, tx, db.create(tx, values, at or ()))


@RESOURCE.put("/{server_id}", policy=UPDATE, view=SERVER, body=Update)
def update(call: Call, server_id: str, body: Update) -> tuple[object, ...]:
    """Change what is registered."""
    refuse_others(call)
    values, at = _checked(call, body)
    if not values and at is None:
        raise errors.Invalid(f"Send at least one of: {', '.join(servers.FIELDS)}.")
    with call.db.write() as tx:
        server_id = _id_of(call, tx, server_id)
        _found(call, tx, server_id)
        db.update(tx, server_id, values, at)
        return _found(call, tx, server_id)


@RESOURCE.delete("/{server_id}", policy=DELETE, status=204)
def delete(call: Call, server_id: str) -> None:
    """Forget a server; its attachments and their access end, and what is on it stays."""
    with call.db.write() as tx:
        server_id = _id_of(call, tx, server_id)
        _found(call, tx, server_id)
        attachment_detach.forget_server(tx, server_id, call.caller)
        db.delete(tx, server_id)


def _checked(call: Call, body: Update) -> tuple[dict[str, Any], tuple[tuple[str, str], ...] | None]:
    said = {name: value for name in servers.FIELDS if (value := getattr(body, name)) is not UNSET}
    values, at = servers.check(said, str(call.settings.compute.key_directory))
    if "metadata" in values:
        limits = call.settings.limits
        check_size(values["metadata"], most_items=limits.metadata_items, most_characters=limits.metadata_characters)
    return values, at


def refuse_others(call: Call) -> None:
    """Raises Conflict where servers are not registered but come from elsewhere."""
    plugin = call.settings.compute.plugin
    if plugin != "inventory":
        raise errors.Conflict(f"Servers come from {plugin} here ([compute] plugin): nothing can be registered.")


def _id_of(call: Call, tx: Tx, name_or_id: str) -> str:
    return naming.id_of(call, tx, SERVER_KIND, name_or_id)


def _found(call: Call, tx: Tx, server_id: str) -> tuple[object, ...]:
    row = db.SERVERS.one(tx, ("id", "project_id", *call.columns), {"id": server_id})
    if row is None:
        raise errors.NotFound(resource="Server", id=server_id)
    call.visible(row[1], "Server", server_id)
    call.notes["addresses"] = db.addresses(tx, [server_id])
    return row[2:]
