# SPDX-License-Identifier: Apache-2.0
"""Each step of the way to a server, or of an attachment, tried by a worker: it has the keys, and the API has not."""

from __future__ import annotations

import msgspec

from abaca import errors, policy
from abaca.api.attachments import attaching
from abaca.api.attachments.lookups import attachment_id_of
from abaca.db.administration import services
from abaca.db.attachments import attachments
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.waiting import Later
from abaca.http.wire import Plain, View
from abaca.journal.kinds import Operation
from abaca.operations.attachments import attachment_explain, server_check, way_findings
from abaca.operations.attachments.attachment_parts import QUEUE

CHECK = policy.admin("server:check", "Have a worker try the way to a server.")
EXPLAIN = policy.admin("attachment:explain", "Have a worker try each step of an attachment.")

SERVERS = Resource("ways to servers", "/servers")
ATTACHMENTS = Resource("steps of attachments", "/attachments")

# A machine that does not answer is given up on sooner.
ANSWER_S = 50.0


class FindingView(View):
    """What a step has shown; `is_well` is null where that cannot be said."""

    step: str
    is_well: bool | None
    says: str


class ExaminedView(View):
    """What the steps have shown, in their order, and on which worker's host they were tried."""

    host: str
    findings: list[FindingView]


@SERVERS.post("/{server_id}/check", policy=CHECK, view=Plain("examined", ExaminedView))
def check(call: Call, server_id: str) -> Later:
    """Try whether workers could mount shares on a server: key, SSH, host key, login, sudo, client. Changes nothing."""
    (server_id,) = attaching.server_ids(call, [server_id])
    attaching.server_for(call, server_id)
    return _ask(call, server_check.OPERATION, server_check.Args(server_id))


@ATTACHMENTS.post("/{id}/explain", policy=EXPLAIN, view=Plain("examined", ExaminedView))
def explain(call: Call, id: str) -> Later:
    """Try each step that an attachment needs: key, SSH, sudo, route, port, rule, mount. Changes nothing."""
    with call.db.read() as tx:
        id = attachment_id_of(call, tx, id)
        row = attachments.show(tx, id)
    if row is None:
        raise errors.NotFound(resource="Attachment", id=id)
    call.visible(row.project_id, "Attachment", id)
    return _ask(call, attachment_explain.OPERATION, attachment_explain.Args(id))


def _ask(call: Call, what: Operation, args: msgspec.Struct) -> Later:
    """Ask a worker. Raises Conflict where none is up."""
    with call.db.read() as tx:
        alive_since = services.alive_since(tx, call.settings.service_down_time)
        if all(one.state(alive_since) != "up" for one in services.of_back_ends(tx)):
            raise errors.Conflict("No worker is up that could try it; see abaca service list.")
    return Later(call.parts.extras["questions"].ask(what, args, QUEUE, call.caller), ANSWER_S, _shown)


def _shown(answer: object) -> dict[str, object]:
    found = msgspec.convert(answer, way_findings.Examined)
    steps = [{"step": one.name, "is_well": one.is_well, "says": one.said} for one in found.findings]
    return {"host": found.host, "findings": steps}
