# SPDX-License-Identifier: Apache-2.0
"""Which security services a share network has: added, removed, replaced, and asked about before."""

from __future__ import annotations

from collections.abc import Mapping

from abaca import errors
from abaca.api.networks.lookups import share_network_for_change
from abaca.api.networks.security_services import security_service
from abaca.api.networks.share_networks import ONE, found
from abaca.db.engine.database import Tx
from abaca.db.networks import security_services as services
from abaca.db.networks import share_servers
from abaca.domain.networks.security_services import SecurityService
from abaca.domain.networks.share_networks import ShareNetwork
from abaca.http.bodies import Body, Flag, Text
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Feature, Plain
from abaca.operations.networks import security_service_change, share_network_change
from abaca.operations.networks.security_service_change import Wanted
from abaca.policy import member

ADD = member("share_network:add_security_service", "Give a share network a security service.")
REMOVE = member("share_network:remove_security_service", "Take a security service from a share network.")
UPDATE = member("share_network:update_security_service", "Replace a share network's security service.")

WHILE_IN_USE = Feature(
    "security_services_while_in_use", "2.63", "Security services of a share network may change while it is in use."
)

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
        network = share_network_for_change(call, tx, id)
        services.hold(tx, body.security_service_id)
        service = security_service(call, tx, body.security_service_id)
        _refuse_second(tx, id, service)
        _have_join(call, tx, network, Wanted(service))
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
        network = share_network_for_change(call, tx, id)
        for service_id in sorted({body.current_service_id, body.new_service_id}):
            services.hold(tx, service_id)
        current, new = _replacement(call, tx, id, body)
        _have_join(call, tx, network, Wanted(new, current))
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
    with call.db.write() as tx:
        network = share_network_for_change(call, tx, id)
        wanted = Wanted(*reversed(_replacement(call, tx, id, body)))
        answers = security_service_change.ask(
            tx,
            network,
            wanted,
            call.caller,
            anew=bool(body.reset_operation),
            service_down_time_s=call.settings.service_down_time,
        )
    return _answer(call, "update_security_service", wanted, answers)


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
    with call.db.write() as tx:
        network = share_network_for_change(call, tx, id)
        wanted = Wanted(security_service(call, tx, body.security_service_id))
        _refuse_second(tx, id, wanted.new)
        answers = security_service_change.ask(
            tx,
            network,
            wanted,
            call.caller,
            anew=bool(body.reset_operation),
            service_down_time_s=call.settings.service_down_time,
        )
    return _answer(call, "add_security_service", wanted, answers)


def _answer(call: Call, operation: str, wanted: Wanted, answers: Mapping[str, bool | None]) -> dict[str, object]:
    """What is known by now; null where a back end has not said."""
    requested = {
        "operation": operation,
        "current_security_service": None if wanted.current is None else wanted.current.id,
        "new_security_service": wanted.new.id,
    }
    shown = {"hosts_check_result": dict(answers)} if call.caller.is_admin else {}
    return {"compatible": share_network_change.verdict(answers), "requested_operation": requested, **shown}


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


def _refuse_second(tx: Tx, network_id: str, service: SecurityService) -> None:
    if any(one.type == service.type for one in services.of_network(tx, network_id)):
        raise errors.Conflict(
            f"Share network {network_id} has a security service of the type {service.type} already; remove that first."
        )


def _have_join(call: Call, tx: Tx, network: ShareNetwork, wanted: Wanted) -> None:
    """The network has it from now on, and its share servers join it, if all have said that they could."""
    if not call.has(WHILE_IN_USE):
        _refuse_in_use(tx, network.id)
    servers = security_service_change.approve(tx, network, wanted)
    if wanted.current is not None:
        services.detach(tx, network.id, wanted.current.id)
    services.attach(tx, network.id, wanted.new)
    security_service_change.begin(tx, network, wanted, servers, call.caller)


def _detach(call: Call, tx: Tx, network_id: str, service_id: str) -> None:
    _refuse_in_use(tx, network_id)
    service = security_service(call, tx, service_id)
    if not services.detach(tx, network_id, service.id):
        raise errors.Invalid(f"Share network {network_id} does not have security service {service_id}.")


def _refuse_in_use(tx: Tx, network_id: str) -> None:
    if share_servers.on_network(tx, network_id):
        raise errors.Forbidden(f"Share network {network_id} has share servers, which keep the directories they joined.")
