# SPDX-License-Identifier: Apache-2.0
"""Ensuring the shares of a back end by Abaca's own door: what is going on can be followed, and seen beforehand."""

from __future__ import annotations

from abaca.api.administration.operations import OperationView
from abaca.api.administration.services import ENSURE
from abaca.db.engine.statements import Row
from abaca.db.journal.operations import OPERATIONS
from abaca.http.bodies import Body, Flag, Name
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import One
from abaca.operations.administration import backend_ensure, backend_ensure_dry_run

RESOURCE = Resource("ensure shares", "/services/ensure-shares")


class EnsureShares(Body):
    """Whose shares: host@backend. With `dry_run` nothing is changed, and the findings say what would be."""

    host: Name
    dry_run: Flag = False


@RESOURCE.post(policy=ENSURE, body=EnsureShares, view=One("operation", OperationView), status=202)
def ensure_shares(call: Call, body: EnsureShares) -> Row | None:
    """Make the shares of a back end what its configuration says, or say what that would change.

    The operation that does it is answered. If one of the kind is under way already it is that one, and while it is
    paused it stays so.
    """
    how = backend_ensure_dry_run if body.dry_run else backend_ensure
    manner = backend_ensure.Manner(**call.settings.ensure_manner)
    with call.db.write() as tx:
        asked = how.ask(tx, body.host, call.settings.service_down_time, manner, call.caller)
        return OPERATIONS.one(tx, call.columns, {"id": asked.id})
