# SPDX-License-Identifier: Apache-2.0
"""The services behind the API: who works, since when not, and whether the scheduler may use them."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Annotated

from abaca import errors, policy
from abaca.db.administration import services as db
from abaca.db.administration.services import SERVICES, State
from abaca.db.engine.statements import Row
from abaca.domain.administration import services as domain
from abaca.http import bodies
from abaca.http.bodies import UNSET, Body, Filters, Name, Object, Text, UnsetType
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Computed, Many, Plain, Since, View
from abaca.operations.administration import backend_ensure

INDEX = policy.admin("service:index", "List services.")
ENSURE = policy.admin("service:ensure_shares", "Have the shares of a back end ensured.")
UPDATE = policy.admin("service:update", "Enable and disable services.")


def _state(call: Call, heartbeat_at: datetime.datetime, is_stopped: bool) -> str:  # noqa: FBT001 (a column)
    return domain.state_of(heartbeat_at, call.notes["down_before"], is_stopped=is_stopped)


def _status(is_disabled: bool) -> str:  # noqa: FBT001 (a column)
    return "disabled" if is_disabled else "enabled"


class ServiceView(View):
    """A service; a share service is one back end."""

    id: int
    binary: str
    host: str
    zone: str
    status: Annotated[str, Computed(lambda _, disabled: _status(disabled), needs=("disabled",))]
    state: Annotated[str, Computed(_state, needs=("heartbeat_at", "stopped"))]
    updated_at: datetime.datetime | None
    disabled_reason: Annotated[str | None, Since("2.83")]
    ensuring: Annotated[bool, Since("2.86")]


class SwitchedView(View):
    """What was asked for, once it is so."""

    host: str
    binary: str
    status: str
    disabled_reason: Annotated[str | None, Since("2.83")]
    ensuring: Annotated[bool | None, Since("2.86"), Computed(lambda _: None)]


class ServiceFilters(Filters):
    """A value that no service can have finds none."""

    host: Text
    binary: Text
    zone: Text
    state: Text
    status: Text
    ensuring: Annotated[Text, Since("2.93")]


class Enable(Body):
    """Which service."""

    host: Name
    binary: Name


class Switch(Enable):
    """Which service, and why it is taken out of use."""

    disabled_reason: Annotated[Name | UnsetType | None, Since("2.83", refuse=True)] = UNSET


class Ensure(Body):
    """Which back end's: its `host`, as it stands or in an object `ensure_shares`. Clients differ."""

    host: Name | None = None
    ensure_shares: Object | None = None


RESOURCE = Resource("services", "/services", formerly=("/os-services", "2.6"))


@RESOURCE.get(policy=INDEX, view=Many("services", ServiceView), filters=ServiceFilters)
def index(call: Call, filters: dict[str, str]) -> Sequence[Row]:
    """All services, or those that are as asked."""
    page = call.page._replace(sort_key="id", descending=False, marker=None)
    with call.db.read() as tx:
        call.notes |= db.down_before(tx, call.settings.service_down_time)
        asked = _asked(filters, call.notes["down_before"])
        return [] if asked is None else SERVICES.rows(tx, call.columns, asked, page)


@RESOURCE.put("/{verb}", policy=UPDATE, view=Plain(None, SwitchedView), body=Switch)
def switch(call: Call, verb: str, body: Switch) -> dict[str, object]:
    """Let the scheduler use a service again, or no longer; what lives there goes on."""
    if verb not in ("enable", "disable"):
        raise errors.NotFound("A service can be enabled or disabled, nothing else.")
    is_disabled = verb == "disable"
    # one that is disabled again without a reason keeps the one that it has
    reason = body.disabled_reason if is_disabled else None
    with call.db.write() as tx:
        if not db.switch(tx, body.binary, body.host, disabled=is_disabled, reason=reason):
            raise errors.NotFound(f"There is no service {body.binary} on host {body.host}.")
    return {"host": body.host, "binary": body.binary, "status": _status(is_disabled), "disabled_reason": reason or None}


@RESOURCE.post("/ensure-shares", policy=ENSURE, body=Ensure, since="2.86", status=202)
def ensure_shares(call: Call, body: Ensure) -> None:
    """Make the shares of a back end what its configuration says; those that are busy or broken are left out."""
    if body.ensure_shares is not None:
        host = body.ensure_shares.get("host")
        if not isinstance(host, str):
            raise errors.Invalid("'host' is required in 'ensure_shares', as text.")
    elif body.host:
        host = body.host
    else:
        raise errors.Invalid("'host' is required.")
    manner = backend_ensure.Manner(**call.settings.ensure_manner)
    with call.db.write() as tx:
        backend_ensure.ask(tx, host, call.settings.service_down_time, manner, call.caller)


@RESOURCE.post("/ensure", policy=ENSURE, body=Ensure, since="2.86", status=202)
def ensure(call: Call, body: Ensure) -> None:
    """The same by a shorter path."""
    ensure_shares(call, body)


def _asked(filters: dict[str, str], down_before: datetime.datetime) -> dict[str, object] | None:
    """The conditions; None when one can never be met."""
    asked: dict[str, object] = {**filters}
    if "state" in filters:
        if filters["state"] not in db.STATES:
            return None
        asked["state"] = State(filters["state"], down_before)
    if "status" in filters:
        if filters["status"] not in ("enabled", "disabled"):
            return None
        asked["disabled"] = asked.pop("status") == "disabled"
    if "ensuring" in filters:
        try:
            asked["ensuring"] = bodies.flag("ensuring", filters["ensuring"])
        except errors.Invalid:
            return None
    return asked
