# SPDX-License-Identifier: Apache-2.0
"""Share transfers: a project offers a share, and whoever has the key takes it into their own."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Annotated

from abaca import errors
from abaca.api.shares.lookups import share_held_for_change
from abaca.db.engine.statements import Row
from abaca.db.shares import share_transfers as db
from abaca.db.shares.share_transfers import TRANSFERS
from abaca.http.bodies import Body, Filters, Flag, Name, Text, Uuid
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Computed, Link, Many, Named, One, View
from abaca.operations.shares import share_delete, share_transfer
from abaca.policy import admin, member, reader

LIST = reader("share_transfer:get_all", "List share transfers.")
SHOW = reader("share_transfer:get", "See a share transfer.")
ALL_PROJECTS = admin("share_transfer:get_all_tenant", "List the share transfers of all projects.")
CREATE = member("share_transfer:create", "Offer a share to another project.")
ACCEPT = member("share_transfer:accept", "Accept a share that was offered.")
DELETE = member("share_transfer:delete", "Take an offer back.")

RESOURCE = Resource("share transfers", "/share-transfers", since="2.77", rules=(ALL_PROJECTS,))

LINKS = Computed(lambda call, id_: call.links("share-transfers", id_), needs=("id",))


class TransferSummary(View):
    """An offer in a short list."""

    id: str
    name: str | None
    resource_type: str
    resource_id: str
    links: Annotated[list[Link], LINKS]


class TransferView(TransferSummary):
    """An offer: of what, by whom, until when."""

    created_at: datetime.datetime
    source_project_id: str
    destination_project_id: str | None
    accepted: bool
    expires_at: datetime.datetime


def _key(call: Call) -> str:
    return str(call.notes["auth_key"])


class NewTransferView(TransferView):
    """The same with its key, which is shown once."""

    auth_key: Annotated[str, Computed(_key)]


class CreateTransfer(Body, key="transfer"):
    """Which share to offer."""

    share_id: Uuid
    name: Name | None = None


class AcceptTransfer(Body, key="accept"):
    """The key, and whether those who could reach the share shall not any more."""

    auth_key: Text
    clear_access_rules: Flag = False


class TransferFilters(Filters):
    """What offers can be listed by."""

    name: Text
    name_like: Annotated[Text, Named("name~")]
    resource_id: Text
    source_project_id: Text


@RESOURCE.get(
    "/detail", policy=LIST, view=Many("transfers", TransferView, links="transfers_links"), filters=TransferFilters
)
def index_detailed(call: Call, filters: dict[str, object]) -> Sequence[Row]:
    """What the project offers, with all fields."""
    return _listed(call, filters)


@RESOURCE.get(policy=LIST, view=Many("transfers", TransferSummary, links="transfers_links"), filters=TransferFilters)
def index(call: Call, filters: dict[str, object]) -> Sequence[Row]:
    """What the project offers."""
    return _listed(call, filters)


def _listed(call: Call, filters: dict[str, object]) -> Sequence[Row]:
    asked = dict(filters)
    for said, meant in (("resource_id", "share_id"), ("source_project_id", "project_id")):
        if said in asked:
            asked[meant] = asked.pop(said)
    asked |= call.project_filter(ALL_PROJECTS)
    with call.db.read() as tx:
        return TRANSFERS.rows(tx, call.columns, asked, call.page)


@RESOURCE.get("/{id}", policy=SHOW, view=One("transfer", TransferView))
def show(call: Call, id: str) -> Row:
    """One offer."""
    with call.db.read() as tx:
        row = TRANSFERS.one(tx, (*call.columns, "project_id"), {"id": id})
    if row is None:
        raise errors.NotFound(resource="Share transfer", id=id)
    call.visible(row.project_id, "Share transfer", id)
    return row


@RESOURCE.post(policy=CREATE, body=CreateTransfer, view=One("transfer", NewTransferView), status=202)
def create(call: Call, body: CreateTransfer) -> Row | None:
    """Offer a share; the answer has the key that whoever shall have it needs."""
    name = None if body.name is None else body.name.strip()
    with call.db.write() as tx:
        try:
            share = share_held_for_change(call, tx, body.share_id)
            transfer_id, call.notes["auth_key"] = share_transfer.offer(
                tx, call.settings, share, name, call.caller.user_id
            )
        except (errors.NotFound, share_delete.HasReplicas) as refusal:
            raise errors.Invalid(refusal.message) from None
        return TRANSFERS.one(tx, call.columns, {"id": transfer_id})


@RESOURCE.post("/{id}/accept", policy=ACCEPT, body=AcceptTransfer, status=202)
def accept(call: Call, id: str, body: AcceptTransfer) -> None:
    """Take the share into the caller's project."""
    if not body.auth_key:
        raise errors.Invalid("'auth_key' is required: whoever offers the share has it.")
    with call.db.write() as tx:
        named = (id, body.auth_key)
        share_transfer.accept(tx, call.settings, call.caller, named, clear_rules=body.clear_access_rules)


@RESOURCE.delete("/{id}", policy=DELETE, status=200)
def delete(call: Call, id: str) -> None:
    """Take the offer back."""
    with call.db.write() as tx:
        transfer = db.find(tx, id)
        if transfer is None:
            raise errors.NotFound(resource="Share transfer", id=id)
        call.visible(transfer.project_id, "Share transfer", id)
        call.require(call.route.policy, project_id=transfer.project_id)
        share_transfer.withdraw(tx, transfer)
