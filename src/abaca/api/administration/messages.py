# SPDX-License-Identifier: Apache-2.0
"""Messages to users: why something that was accepted could not be done."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Annotated

from abaca import errors, policy
from abaca.db.administration import messages as db
from abaca.db.administration.messages import MESSAGES
from abaca.db.engine.statements import Row
from abaca.domain.administration import messages
from abaca.http.bodies import Filters, Text, Time
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Computed, Link, Many, One, Since, View

INDEX = policy.reader("message:get_all", "List messages.")
SHOW = policy.reader("message:get", "Show a message.")
DELETE = policy.member("message:delete", "Delete a message.")


def _text(_: Call, action_id: str, detail_id: str, reason: str | None) -> str:
    return messages.text(action_id, detail_id, reason)


def _expiry(call: Call, created_at: datetime.datetime) -> str:
    expires_at = created_at + datetime.timedelta(seconds=call.settings.message_ttl)
    return expires_at.isoformat("T", "microseconds")


class MessageView(View):
    """What was being done to which resource, and what happened."""

    id: str
    project_id: str
    request_id: str | None
    resource_type: str | None
    resource_id: str | None
    action_id: str
    detail_id: str
    user_message: Annotated[str, Computed(_text, needs=("action_id", "detail_id", "reason"))]
    message_level: str
    created_at: datetime.datetime
    expires_at: Annotated[datetime.datetime, Computed(_expiry, needs=("created_at",))]
    links: Annotated[list[Link], Computed(lambda call, id_: call.links("messages", id_), needs=("id",))]


class MessageFilters(Filters):
    """What messages can be listed by."""

    request_id: Text
    resource_type: Text
    resource_id: Text
    action_id: Text
    detail_id: Text
    message_level: Text
    created_since: Annotated[Time, Since("2.52")]
    created_before: Annotated[Time, Since("2.52")]


RESOURCE = Resource("messages", "/messages", since="2.37")


@RESOURCE.get(policy=INDEX, view=Many("messages", MessageView, links="messages_links"), filters=MessageFilters)
def index(call: Call, filters: dict[str, object]) -> Sequence[Row]:
    """The project's messages; administrators see those of all."""
    own = {} if call.caller.is_admin else {"project_id": call.caller.project_id}
    with call.db.read() as tx:
        return MESSAGES.rows(tx, call.columns, {**filters, **own}, call.page)


@RESOURCE.get("/{message_id}", policy=SHOW, view=One("message", MessageView))
def show(call: Call, message_id: str) -> Row:
    """One message."""
    with call.db.read() as tx:
        row = MESSAGES.one(tx, call.columns, {"id": message_id})
    if row is None:
        raise errors.NotFound(resource="Message", id=message_id)
    call.visible(row.project_id, "Message", message_id)
    return row


@RESOURCE.delete("/{message_id}", policy=DELETE, status=204)
def delete(call: Call, message_id: str) -> None:
    """Remove a message that has been read; all go by themselves in time."""
    with call.db.write() as tx:
        message = db.show(tx, message_id)
        if message is None:
            raise errors.NotFound(resource="Message", id=message_id)
        call.visible(message.project_id, "Message", message_id)
        db.delete(tx, message_id)
