# SPDX-License-Identifier: Apache-2.0
"""Which security services a share network has: added, removed, replaced, and asked about before."""

from __future__ import annotations

from abaca import errors
from abaca.api.networks.lookups import share_network, share_network_for_change
from abaca.api.networks.security_services import security_service
from abaca.api.networks.share_networks import ONE, found
from abaca.db.engine.database import Tx
from abaca.db.networks import security_services as services
from abaca.db.networks import share_servers
from abaca.domain.networks.security_services import SecurityService
from abaca.http.bodies import Body, Flag, Text
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Plain
from abaca.policy import member

ADD = member("share_network:add_security_service", "Give a share network a security service.")
REMOVE = member("share_network:remove_security_service", "Take a security service from a share network.")
UPDATE = member("share_network:update_security_service", "Replace a share network's security service.")

ACTIONS = Resource("share network security services", "/share-networks")


class SecurityServiceRef(Body):
    """A security service, by its id."""

    security_service_id: Text


class ReplaceSecurityService(Body):
    """The security service that goes, and the one that comes."""

    current_service_id: Text
    new_service_id: Text


class CheckReplacement(ReplaceSecurityService):
    """The same, to be asked about."""

    reset_operation: Flag = False


class CheckAddition(SecurityServiceRef):
    """A security service, to be asked about."""

    reset_operation: Flag = False


@ACTIONS.action("add_security_service", policy=ADD, body=SecurityServiceRef, view=ONE)
def add_security_service(call: Call, id: str, body: SecurityServiceRef) -> dict[str, object]:
    """Have share servers of this network join a directory."""
    with call.db.write() as tx:
        share_network_for_change(call, tx, id)
        _attach(call, tx, id, body.security_service_id)
        return found(call, tx, id)


@ACTIONS.action("remove_security_service", policy=REMOVE, body=SecurityServiceRef, view=ONE)
def remove_security_service(call: Call, id: str, body: SecurityServiceRef) -> dict[str, object]:
    """Have share servers of this network not join a directory any more."""
    with call.db.write() as tx:
        share_network_for_change(call, tx, id)
        _detach(call, tx, id, body.security_service_id)
        return found(call, tx, id)


@ACTIONS.action(
    "update_security_service", policy=UPDATE, body=ReplaceSecurityService, view=ONE, since="2.63", status=202
)
def update_security_service(call: Call, id: str, body: ReplaceSecurityService) -> dict[str, object]:
    """Replace a directory by another one of its type."""
    with call.db.write() as tx:
        share_network_for_change(call, tx, id)
        current, new = _replacement(call, tx, id, body)
        _detach(call, tx, id, current.id)
        _attach(call, tx, id, new.id)
        return found(call, tx, id)


@ACTIONS.action(
    "update_security_service_check",
    policy=UPDATE,
    body=CheckReplacement,
    view=Plain(None, dict[str, object]),
    since="2.63",
    status=202,
)
def check_replacement(call: Call, id: str, body: CheckReplacement) -> dict[str, object]:
    """Whether every share server of the network can change from one directory to the other."""
    with call.db.read() as tx:
        share_network(call, tx, id)
        current, new = _replacement(call, tx, id, body)
        return _answer(call, tx, id, _requested("update_security_service", current.id, new.id))


@ACTIONS.action(
    "add_security_service_check",
    policy=ADD,
    body=CheckAddition,
    view=Plain(None, dict[str, object]),
    since="2.63",
    status=202,
)
def check_addition(call: Call, id: str, body: CheckAddition) -> dict[str, object]:
    """Whether every share server of the network can join a directory more."""
    with call.db.read() as tx:
        share_network(call, tx, id)
        service = security_service(call, tx, body.security_service_id)
        return _answer(call, tx, id, _requested("add_security_service", None, service.id))


def _answer(call: Call, tx: Tx, network_id: str, requested: dict[str, object]) -> dict[str, object]:
    """No, where share servers are on the network: directories are not changed under what serves."""
    hosts = {server.host: False for server in share_servers.on_network(tx, network_id)}
    shown = {"hosts_check_result": hosts} if call.caller.is_admin else {}
    return {"compatible": not hosts, "requested_operation": requested, **shown}


def _replacement(
    call: Call, tx: Tx, network_id: str, body: ReplaceSecurityService
) -> tuple[SecurityService, SecurityService]:
    """The security service that goes, which the network has, and the one that comes, which is of its type."""
    current = security_service(call, tx, body.current_service_id)
    new = security_service(call, tx, body.new_service_id)
    if network_id not in services.networks_of(tx, [current.id]).get(current.id, []):
        raise errors.Invalid(f"Share network {network_id} does not have security service {current.id}.")
    if current.type != new.type:
        raise errors.Conflict(f"Security service {new.id} is of the type {new.type}, not {current.type}.")
    return current, new


def _requested(operation: str, current: str | None, new: str) -> dict[str, object]:
    return {"operation": operation, "current_security_service": current, "new_security_service": new}


def _attach(call: Call, tx: Tx, network_id: str, service_id: str) -> None:
    _refuse_in_use(tx, network_id)
    services.hold(tx, service_id)
    service = security_service(call, tx, service_id)
    if not services.attach(tx, network_id, service):
        raise errors.Conflict(
            f"Share network {network_id} has a security service of the type {service.type} already; remove that first."
        )


def _detach(call: Call, tx: Tx, network_id: str, service_id: str) -> None:
    _refuse_in_use(tx, network_id)
    service = security_service(call, tx, service_id)
    if not services.detach(tx, network_id, service.id):
        raise errors.Invalid(f"Share network {network_id} does not have security service {service_id}.")


def _refuse_in_use(tx: Tx, network_id: str) -> None:
    if share_servers.on_network(tx, network_id):
        raise errors.Forbidden(f"Share network {network_id} has share servers, which keep the directories they joined.")
