# SPDX-License-Identifier: Apache-2.0
"""Events of operations: one when an operation is accepted and one when it ends, each in the transaction that does it.

An operation declares its `Notification` (kinds.py); the journal does the rest. Where nobody wants an event, nothing is
looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from abaca.db.administration import events as rows
from abaca.domain.administration.events import END, ERROR, START, About
from abaca.journal.requester import Requester

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.journal.kinds import Notification, Operation


class Run(Requester, Protocol):
    """What events say of an operation: as much of an `Op` as that takes."""

    @property
    def what(self) -> Operation: ...
    @property
    def args(self) -> object: ...
    @property
    def data(self) -> Mapping[str, object]: ...
    @property
    def resource_id(self) -> str: ...
    @property
    def error(self) -> tuple[str, str] | None: ...


def notify_start(tx: Tx, op: Run) -> None:
    """From a step: its work begins now, with what is known of it."""
    notification = op.what.notifies
    if notification is not None and rows.is_wanted(tx, notification.named(op.args, START)):
        payload = notification.payload(tx, op.resource_id, op.args, op.data) or {}
        write(tx, notification.named(op.args, START), (op.what.resource, op.resource_id), op, payload)


def accepted(tx: Tx, notification: Notification, about: tuple[str, str], args: object, by: Requester | None) -> None:
    """It is queued; `about` is type and id of its resource."""
    if not notification.starts or not notification.is_news(args, {}) or notification.is_known(args, None):
        return
    if rows.is_wanted(tx, notification.named(args, START)):
        payload = notification.payload(tx, about[1], args, {}) or {}
        write(tx, notification.named(args, START), about, by, payload)


def before_end(tx: Tx, op: Run, state: str) -> Mapping[str, object] | None:
    """What there is of a resource that the end may take away."""
    notification = op.what.notifies
    if notification is None or notification.gone is None:
        return None
    if not rows.is_wanted(tx, _type_of_end(notification, op, state)):
        return None
    return notification.payload(tx, op.resource_id, op.args, op.data)


def ended(tx: Tx, op: Run, state: str, before: Mapping[str, object] | None) -> None:
    """It has ended in `state`, and what that means is written."""
    notification = op.what.notifies
    if notification is None or not rows.is_wanted(tx, _type_of_end(notification, op, state)):
        return
    if state == "done" and not notification.is_news(op.args, op.data):
        return
    if state != "done" and op.error is not None and notification.is_known(op.args, op.error[0]):
        return
    payload = notification.payload(tx, op.resource_id, op.args, op.data)
    if payload is None:
        payload = {**before, **(notification.gone or {})} if before else {}
    if state != "done" and op.error is not None:
        payload = {**payload, "error_code": op.error[0], "error_text": op.error[1]}
    write(tx, _type_of_end(notification, op, state), (op.what.resource, op.resource_id), op, payload)


def _type_of_end(notification: Notification, op: Run, state: str) -> str:
    return notification.named(op.args, END if state == "done" else ERROR)


def write(tx: Tx, event_type: str, about: tuple[str, str], by: Requester | None, payload: Mapping[str, object]) -> None:
    """The resource's project, where it has one, whoever asked."""
    project_id = payload.get("project_id")
    if not isinstance(project_id, str) or not project_id:
        project_id = by.project_id if by else None
    subject = About(
        resource_type=about[0],
        resource_id=about[1],
        project_id=project_id,
        user_id=by.user_id if by else None,
        request_id=by.request_id if by else None,
    )
    rows.write(tx, event_type, subject, payload)
