# SPDX-License-Identifier: Apache-2.0
"""Security services: directories that share servers join."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Annotated

from msgspec import structs

from abaca import errors
from abaca.api.networks.lookups import asks_for_nothing, rows, share_network
from abaca.db.engine.database import Tx
from abaca.db.networks import security_services as db
from abaca.domain.networks import security_services as rules
from abaca.domain.networks.security_services import SecurityService
from abaca.http.bodies import UNSET, Body, Filters, Name, Text, UnsetType
from abaca.http.paging import Listed
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Computed, Many, One, Since, View
from abaca.policy import admin, member, reader

LIST = reader("security_service:index", "List security services.")
DETAIL = reader("security_service:detail", "List security services with all their fields.")
SHOW = reader("security_service:show", "See a security service.")
ALL_PROJECTS = admin("security_service:get_all_security_services", "List the security services of all projects.")
SEE_PASSWORD = member("security_service:show_password", "See the password of a security service.")
CREATE = member("security_service:create", "Create a security service.")
UPDATE = member("security_service:update", "Change a security service.")
DELETE = member("security_service:delete", "Delete a security service.")

RESOURCE = Resource("security services", "/security-services", rules=(ALL_PROJECTS, SEE_PASSWORD))


def _password(call: Call, value: str | None, project_id: str) -> str | None:
    return value if call.allows(SEE_PASSWORD, project_id=project_id) else None


# Clients expect the field; it says nothing.
STATUS = Computed(lambda _call: "new")


class SecurityServiceListed(View):
    """A security service in the short list."""

    id: str
    name: str | None
    type: str
    status: Annotated[str, STATUS]


class SecurityServiceView(SecurityServiceListed):
    """One security service; its password is shown to those who could set it."""

    project_id: str
    description: str | None
    dns_ip: str | None
    server: str | None
    domain: str | None
    user: str | None
    password: Annotated[str | None, Computed(_password, needs=("password", "project_id"))]
    ou: Annotated[str | None, Since("2.44")]
    default_ad_site: Annotated[str | None, Since("2.76")]
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


class SecurityServiceDetail(SecurityServiceView):
    """One in the long list, with the share networks that have it."""

    share_networks: list[str]


# Of old they had one, and clients still ask by it.
STATUS_IS_NO_FILTER = ("status",)


class CreateSecurityService(Body, key="security_service", missing=422):
    """A directory, how it is found, and as whom share servers join it."""

    type: Text | None = None
    name: Name | None = None
    description: Name | None = None
    dns_ip: Name | None = None
    server: Name | None = None
    domain: Name | None = None
    user: Name | None = None
    password: Name | None = None
    ou: Annotated[Name | None, Since("2.44", refuse=True)] = None
    default_ad_site: Annotated[Name | None, Since("2.76", refuse=True)] = None


class UpdateSecurityService(Body, key="security_service", missing=422):
    """What may change; null takes a value away."""

    type: Text | UnsetType = UNSET
    name: Name | UnsetType | None = UNSET
    description: Name | UnsetType | None = UNSET
    dns_ip: Name | UnsetType | None = UNSET
    server: Name | UnsetType | None = UNSET
    domain: Name | UnsetType | None = UNSET
    user: Name | UnsetType | None = UNSET
    password: Name | UnsetType | None = UNSET
    ou: Annotated[Name | UnsetType | None, Since("2.44", refuse=True)] = UNSET
    default_ad_site: Annotated[Name | UnsetType | None, Since("2.76", refuse=True)] = UNSET


class SecurityServiceFilters(Filters):
    """What security services can be listed by."""

    share_network_id: Text
    name: Text
    id: Text
    type: Text
    user: Text
    server: Text
    dns_ip: Text
    domain: Text
    ou: Text
    default_ad_site: Text


ONE = One("security_service", SecurityServiceView)


@RESOURCE.get(
    "/detail", policy=DETAIL, view=Many("security_services", SecurityServiceDetail), filters=SecurityServiceFilters
)
def index_detailed(call: Call, filters: dict[str, object]) -> Listed:
    """Security services with all their fields."""
    if asks_for_nothing(call, SecurityServiceFilters, *STATUS_IS_NO_FILTER):
        return Listed([])
    with call.db.read() as tx:
        found = db.SECURITY_SERVICES.entities(tx, SecurityService, _asked(call, tx, filters), call.page)
        networks = db.networks_of(tx, [one.id for one in found])
    return Listed(rows(call, ({**structs.asdict(one), "share_networks": networks.get(one.id, [])} for one in found)))


@RESOURCE.get(policy=LIST, view=Many("security_services", SecurityServiceListed), filters=SecurityServiceFilters)
def index(call: Call, filters: dict[str, object]) -> Listed:
    """Security services by id, name and type."""
    if asks_for_nothing(call, SecurityServiceFilters, *STATUS_IS_NO_FILTER):
        return Listed([])
    with call.db.read() as tx:
        return Listed(db.SECURITY_SERVICES.rows(tx, call.columns, _asked(call, tx, filters), call.page))


def _asked(call: Call, tx: Tx, filters: Mapping[str, object]) -> dict[str, object]:
    if "share_network_id" in filters:
        share_network(call, tx, str(filters["share_network_id"]))
    return {**filters, **call.project_filter(ALL_PROJECTS)}


@RESOURCE.get("/{id}", policy=SHOW, view=ONE)
def show(call: Call, id: str) -> dict[str, object]:
    """One security service."""
    with call.db.read() as tx:
        return structs.asdict(security_service(call, tx, id))


@RESOURCE.post(policy=CREATE, body=CreateSecurityService, view=ONE)
def create(call: Call, body: CreateSecurityService) -> dict[str, object]:
    """Remember a directory for share networks to use."""
    values = {field: getattr(body, field) for field in CreateSecurityService.__annotations__}
    _check(values)
    with call.db.write() as tx:
        service_id = db.add(tx, {**values, "project_id": call.caller.project_id})
        return structs.asdict(security_service(call, tx, service_id))


@RESOURCE.put("/{id}", policy=UPDATE, body=UpdateSecurityService, view=ONE)
def update(call: Call, id: str, body: UpdateSecurityService) -> dict[str, object]:
    """Change it; share servers that join later join what it is then."""
    sent = {field: getattr(body, field) for field in UpdateSecurityService.__annotations__}
    values = {name: value for name, value in sent.items() if value is not UNSET}
    with call.db.write() as tx:
        db.hold(tx, id)
        service = security_service(call, tx, id)
        if values.get("type", service.type) != service.type and db.networks_of(tx, [id]):
            raise errors.Forbidden(
                f"Security service {id} belongs to share networks: its type stays. Give them another one."
            )
        _check({**structs.asdict(service), **values})
        if values.keys() - set(rules.WORDS) and db.is_joined(tx, id):
            raise errors.Forbidden(
                f"Share servers have joined security service {id}: only name and description change."
            )
        if values:
            db.update(tx, id, values)
        return structs.asdict(security_service(call, tx, id))


@RESOURCE.delete("/{id}", policy=DELETE, status=202)
def delete(call: Call, id: str) -> None:
    """Forget one that no share network has."""
    with call.db.write() as tx:
        db.hold(tx, id)
        security_service(call, tx, id)
        if not db.delete(tx, id):
            networks = ", ".join(db.networks_of(tx, [id])[id])
            raise errors.Forbidden(f"Security service {id} belongs to share network {networks}; remove it there first.")


def security_service(call: Call, tx: Tx, service_id: str) -> SecurityService:
    """One that the caller may use by this route. Raises NotFound."""
    found = db.show(tx, service_id)
    if found is None:
        raise errors.NotFound(resource="Security service", id=service_id)
    call.visible(found.project_id, "Security service", service_id)
    return found


def _check(values: Mapping[str, object]) -> None:
    if values["type"] not in rules.TYPES:
        raise errors.Invalid(f"'type' must be one of: {', '.join(rules.TYPES)}.")
    rules.check_site(values)
