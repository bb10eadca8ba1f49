# SPDX-License-Identifier: Apache-2.0
"""What operations tell: an event when one is accepted and one when it ends, each in the transaction that does it.

An operation declares its `Notification`; the journal does the rest. Where nobody wants an event, nothing is looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from abaca.db.administration import events as rows
from abaca.domain.administration.events import END, ERROR, START, About

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.errors import AbacaError
    from abaca.journal.journal import Op, Requester

# Of a transaction, the resource's id, the operation's arguments and what its steps have recorded: what events
# say of the resource, or None when it is gone.
Payload = Callable[["Tx", str, Any, Mapping[str, Any]], Mapping[str, Any] | None]


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """What a kind of operation notifies: `<name>.start`, and `<name>.end` or `<name>.error`."""

    # of its arguments where these decide
    name: str | Callable[[Any], str]
    payload: Payload
    # False: its start is told by a step, or not at all where many requests become one operation
    starts: bool = True
    # its success takes the resource away: then the end tells what there was, and this
    gone: Mapping[str, Any] | None = None

    def called(self, args: Any) -> str:
        """What an operation with these arguments does, such as `share.create`."""
        return self.name if isinstance(self.name, str) else self.name(args)

    def named(self, args: Any, moment: str) -> str:
        """The type of its event at START, END or ERROR."""
        return f"{self.called(args)}.{moment}"


def share(tx: Tx, share_id: str, _args: Any, _learnt: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What events say of a share."""
    return rows.share(tx, share_id)


def resized_share(tx: Tx, share_id: str, args: Any, _learnt: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The same, with the size that it shall have."""
    found = rows.share(tx, share_id)
    return None if found is None else {**found, "new_size": args.new_size_gib}


def ensured_backend(_tx: Tx, service_id: str, args: Any, recorded: Mapping[str, Any]) -> Mapping[str, Any]:
    """Which back end, how many share instances it has, and how many were found how."""
    findings = msgspec.to_builtins(recorded.get("findings")) or {}
    counts = {name: number for name, number in findings.items() if isinstance(number, int)}
    return {"service_id": service_id, "host": args.host, "total": recorded.get("total"), **counts}


def attachment(tx: Tx, attachment_id: str, _args: Any, recorded: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What events say of an attachment; `former_export_location` where it has moved from."""
    found = rows.attachment(tx, attachment_id)
    before = recorded.get("row", {}).get("source")
    if found is None or before in (None, found["export_location"]):
        return found
    return {**found, "former_export_location": before}


def notify_attachment(tx: Tx, event_type: str, attachment_id: str, error: AbacaError | None = None) -> None:
    """Tell something of an attachment that no operation tells, since nobody asked for it; and what was wrong."""
    if rows.is_wanted(tx, event_type):
        payload = rows.attachment(tx, attachment_id) or {"attachment_id": attachment_id}
        if error is not None:
            payload |= {"error_code": error.code, "error_text": error.message}
        _write(tx, event_type, ("attachment", attachment_id), None, payload)


def notify_share(tx: Tx, event_type: str, share_id: str, by: Requester | None, **more: Any) -> None:
    """Tell something of a share that no operation tells."""
    if rows.is_wanted(tx, event_type):
        payload = rows.share(tx, share_id) or {"share_id": share_id}
        _write(tx, event_type, ("share", share_id), by, {**payload, **more})


def notify_start(tx: Tx, op: Op) -> None:
    """From a step: its work begins now, with what is known of it."""
    told = op.what.notifies
    if told is not None and rows.is_wanted(tx, told.named(op.args, START)):
        payload = told.payload(tx, op.resource_id, op.args, op.data) or {}
        _write(tx, told.named(op.args, START), (op.what.resource, op.resource_id), op, payload)


def accepted(tx: Tx, told: Notification, about: tuple[str, str], args: Any, by: Requester | None) -> None:
    """It is queued; `about` is type and id of its resource."""
    if told.starts and rows.is_wanted(tx, told.named(args, START)):
        payload = told.payload(tx, about[1], args, {}) or {}
        _write(tx, told.named(args, START), about, by, payload)


def before_end(tx: Tx, op: Op, state: str) -> Mapping[str, Any] | None:
    """What there is of a resource that the end may take away."""
    told = op.what.notifies
    if told is None or told.gone is None or not rows.is_wanted(tx, _type_of_end(told, op, state)):
        return None
    return told.payload(tx, op.resource_id, op.args, op.data)


def ended(tx: Tx, op: Op, state: str, before: Mapping[str, Any] | None) -> None:
    """It has ended in `state`, and what that means is written."""
    told = op.what.notifies
    if told is None or not rows.is_wanted(tx, _type_of_end(told, op, state)):
        return
    payload = told.payload(tx, op.resource_id, op.args, op.data)
    if payload is None:
        payload = {**before, **(told.gone or {})} if before else {}
    if state != "done" and op.error is not None:
        payload = {**payload, "error_code": op.error[0], "error_text": op.error[1]}
    _write(tx, _type_of_end(told, op, state), (op.what.resource, op.resource_id), op, payload)


def _type_of_end(told: Notification, op: Op, state: str) -> str:
    return told.named(op.args, END if state == "done" else ERROR)


def _write(tx: Tx, event_type: str, about: tuple[str, str], by: Requester | None, payload: Mapping[str, Any]) -> None:
    """The resource's project, where it has one, whoever asked."""
    subject = About(
        resource_type=about[0],
        resource_id=about[1],
        project_id=payload.get("project_id") or (by.project_id if by else None),
        user_id=by.user_id if by else None,
        request_id=by.request_id if by else None,
    )
    rows.write(tx, event_type, subject, payload)
