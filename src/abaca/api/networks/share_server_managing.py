# SPDX-License-Identifier: Apache-2.0
"""Taking share servers under management that exist on a back end, and releasing them: administrators' work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from abaca import errors
from abaca.api.driver_options import options_of
from abaca.api.networks.share_servers import ShareServerView, found, shown
from abaca.db.networks import share_servers as db
from abaca.http.bodies import Body, Flag, Name, Object, Text
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import One, Since
from abaca.operations.networks import share_server_manage, share_server_unmanage
from abaca.policy import admin

MANAGE = admin("share_server:manage_share_server", "Take a share server of a back end under management.")
UNMANAGE = admin("share_server:unmanage_share_server", "Release a share server from management; it goes on serving.")

RESOURCE = Resource("share servers under management", "/share-servers", since="2.49")


class ManageShareServer(Body, key="share_server", missing=422):
    """On which back end (host@backend) it is, how that calls it, and in which share network it answers."""

    host: Text
    identifier: Name
    share_network_id: Text
    share_network_subnet_id: Annotated[Text | None, Since("2.51")] = None
    driver_options: Object | None = None


class UnmanageShareServer(Body):
    """With `force` its back end may refuse, or know nothing of it."""

    force: Flag = False


@RESOURCE.post("/manage", policy=MANAGE, body=ManageShareServer, view=One("share_server", ShareServerView), status=202)
def manage(call: Call, body: ManageShareServer) -> Mapping[str, object]:
    """Accept it; a worker looks for it meanwhile, and `status` tells how that ended."""
    wanted = share_server_manage.Found(
        host=_said("host", body.host),
        identifier=_said("identifier", body.identifier),
        share_network_id=_said("share_network_id", body.share_network_id),
        subnet_id=body.share_network_subnet_id or None,
        options=options_of(body.driver_options or {}),
    )
    with call.db.write() as tx:
        server_id = share_server_manage.start(tx, wanted, call.caller, call.settings.service_down_time)
        return shown(found(tx, server_id), db.subnets_of(tx, [server_id])[server_id])


@RESOURCE.action("unmanage", policy=UNMANAGE, body=UnmanageShareServer, status=202)
def unmanage(call: Call, id: str, body: UnmanageShareServer) -> None:
    """Release it: its row goes, and it goes on serving what it exports, at its addresses."""
    with call.db.write() as tx:
        server = found(tx, id)
        try:
            share_server_unmanage.start(tx, server, call.caller, is_forced=body.force)
        except errors.Conflict as conflict:
            raise errors.Invalid(conflict.message) from None


def _said(name: str, value: str) -> str:
    """The value. Raises `Invalid` for an empty one."""
    if not value:
        raise errors.Invalid(f"'{name}' is empty.")
    return value
