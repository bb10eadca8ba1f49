# SPDX-License-Identifier: Apache-2.0
"""Comparing a back end with the database when an operator asks for it, by Abaca's own door."""

from __future__ import annotations

from abaca import policy
from abaca.api.administration.operations import OperationView
from abaca.db.engine.statements import Row
from abaca.db.journal.operations import OPERATIONS
from abaca.http.bodies import Body, Flag, Name
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import One
from abaca.operations.administration import backend_reconcile
from abaca.operations.administration.backend_reconcile import Args, Pace

RECONCILE = policy.admin("service:reconcile", "Have a back end compared with the database, and mended.")

RESOURCE = Resource("reconcile", "/services/reconcile")


class Reconcile(Body):
    """Which back end: host@backend. With `dry_run` nothing is mended, and the findings say what would be."""

    host: Name
    dry_run: Flag = False


@RESOURCE.post(policy=RECONCILE, body=Reconcile, view=One("operation", OperationView), status=202)
def reconcile(call: Call, body: Reconcile) -> Row | None:
    """Compare a back end with the database at full speed, and have what differs mended.

    The operation that compares is answered. If somebody has asked for the same already it is that one, and while it is
    paused it stays so.
    """
    args = Args(body.host, Pace(page_size=call.settings.worker.ensure_page), mends=not body.dry_run)
    with call.db.write() as tx:
        asked = backend_reconcile.ask(tx, body.host, args, call.settings.service_down_time, call.caller)
        return OPERATIONS.one(tx, call.columns, {"id": asked.id})
