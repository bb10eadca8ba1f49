# SPDX-License-Identifier: Apache-2.0
"""Taking shares under management that exist on a back end, and releasing them: administrators' work."""

from __future__ import annotations

from typing import Annotated

from abaca import errors
from abaca.api.driver_options import options_of
from abaca.api.shares.lookups import share_for_change
from abaca.api.shares.shares import CREATE_PUBLIC, ShareView
from abaca.db.engine.statements import Row
from abaca.http.bodies import Also, Body, Flag, Name, Object, Scalar, Text
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Feature, One, Since
from abaca.operations.shares import share_delete, share_manage_accept, share_unmanage
from abaca.operations.shares.share_manage_accept import ManageRequest
from abaca.policy import admin

MANAGE = admin("share:manage", "Take a share of a back end under management.")
UNMANAGE = admin("share:unmanage", "Release a share from management; its data stays.")

ON_SHARE_SERVERS = Feature(
    "release_from_share_servers", "2.49", "Shares and snapshots that are on share servers can be released."
)

RESOURCE = Resource("shares under management", "/shares")
FORMERLY = Resource("releasing shares from management", "/os-share-unmanage", until="2.6")


def _path(sent: object) -> str:
    found = sent.get("path") if isinstance(sent, dict) else sent
    if not isinstance(found, str):
        raise ValueError  # noqa: TRY004 (one kind of failure for the reader)
    return found


ExportPath = Annotated[str, Scalar(_path, "text, or an object with a path", {"type": "string"})]


class ManageShare(Body, key="share", missing=422):
    """Where the share is, and what it shall be called; `export_path` is text or an object with a `path`."""

    export_path: ExportPath | None = None
    service_host: Text | None = None
    protocol: Text | None = None
    share_type: Text | None = None
    name: Annotated[Name | None, Also("display_name")] = None
    description: Annotated[Name | None, Also("display_description")] = None
    is_public: Annotated[Flag, Since("2.8")] = False
    share_server_id: Annotated[Text | None, Since("2.49")] = None
    mount_point_name: Annotated[Name | None, Since("2.92")] = None
    driver_options: Object | None = None


@RESOURCE.post(
    "/manage",
    formerly=("/os-share-manage", "2.6"),
    policy=MANAGE,
    body=ManageShare,
    view=One("share", ShareView),
)
def manage(call: Call, body: ManageShare) -> Row:
    """Accept it; a worker looks for it meanwhile, and `status` tells how that ended."""
    if body.is_public:
        call.require(CREATE_PUBLIC)
    wanted = ManageRequest(
        export_path=needed("export_path", body.export_path),
        host=needed("service_host", body.service_host),
        protocol=needed("protocol", body.protocol),
        share_type=body.share_type,
        name=body.name,
        description=body.description,
        is_public=body.is_public,
        mount_point_name=body.mount_point_name,
        share_server_id=body.share_server_id or None,
        options=options_of(body.driver_options or {}),
    )
    with call.db.write() as tx:
        return share_manage_accept.accept(tx, call.settings, call.caller, wanted, call.columns)


@RESOURCE.action("unmanage", since="2.7", policy=UNMANAGE, status=202)
def unmanage(call: Call, id: str) -> None:
    """Release it: its rows go, its data, its exports and who can reach it stay."""
    with call.db.write() as tx:
        share = share_for_change(call, tx, id)
        if share.is_soft_deleted:
            raise errors.Forbidden(f"Share {id} is in the recycle bin; restore it before you release it.")
        try:
            share_unmanage.start(tx, id, call.caller, also_on_servers=call.has(ON_SHARE_SERVERS))
        except (share_delete.HasReplicas, share_unmanage.HasInstances):
            raise
        except errors.Conflict as conflict:
            raise errors.Forbidden(conflict.message) from None


@FORMERLY.post("/{id}/unmanage", policy=UNMANAGE, status=202)
def unmanage_formerly(call: Call, id: str) -> None:
    """The same."""
    unmanage(call, id)


def needed(name: str, value: str | None) -> str:
    """The value. Raises `Unprocessable` without one."""
    if not value:
        raise errors.Unprocessable(f"'{name}' is required.")
    return value
