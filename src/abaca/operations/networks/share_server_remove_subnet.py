# SPDX-License-Identifier: Apache-2.0
"""Take a subnet away from a share server that serves: who mounts from there moves first, then it serves there no more.

The export locations on its addresses are taken from users at once, so that attachments move to others. Who has files
open keeps them, and is waited for; with force they are lost. What can go wrong: files stay open, or the back end
refuses; then all is as before, the subnet stays, and a message says why. Where the back end cannot even go back, the
server and its shares are in `error`. The row of the subnet goes with the last server that has left it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.attachments import attachments
from abaca.db.networks import allocations, share_network_subnets, share_networks, share_servers
from abaca.db.shares import export_locations, shares
from abaca.domain.administration.messages import Action, Detail
from abaca.domain.attachments.attachments import ATTACHMENT, Attachment
from abaca.domain.attachments.sources import address_of
from abaca.domain.networks.share_networks import Subnet
from abaca.journal import kinds, queueing
from abaca.journal.interruptions import Wait
from abaca.operations.attachments import attachment_attach
from abaca.operations.networks import share_server_change as change
from abaca.operations.networks import share_server_values as values
from abaca.operations.parts import DRIVER_CALL_S, ServerHost

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.networks.share_servers import ShareServer
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester

# How long attachments have to move away, and how often it looks for those that end in another way, in seconds.
MOVED_WITHIN_S = 300.0
LOOK_AGAIN_S = 5.0


class Args(msgspec.Struct, frozen=True):
    """Which share server leaves which subnet of its share network; with `force` though files are open there."""

    server_id: str
    share_network_id: str
    subnet_id: str
    force: bool = False


class StillUsed(errors.Conflict):
    """The subnet stays, as it was: {who}"""

    code = "StillUsed"


def start(tx: Tx, server: ShareServer, subnet: Subnet, by: Requester | None, *, force: bool) -> str:
    """Queue it, for a server that is moved to `network_change` by this; the operation's id. Raises `Conflict`."""
    share_servers.move(tx, server.id, "change")
    args = Args(server.id, subnet.share_network_id, subnet.id, force)
    return queueing.enqueue(tx, OPERATION, args, values.target_of(server.host, server.id), by)


def addresses_of(tx: Tx, server_ids: Sequence[str], subnet_id: str) -> frozenset[str]:
    """Those that these share servers have on a subnet."""
    found = allocations.of_servers(tx, server_ids)
    return frozenset(one.ip_address for one in found if one.share_network_subnet_id == subnet_id)


def users_of(tx: Tx, server_ids: Sequence[str], addresses: frozenset[str]) -> list[Attachment]:
    """The attachments that are mounted from these addresses of share servers."""
    found = attachments.of_share_servers(tx, server_ids)
    return [row for row in found if row.source is not None and address_of(row.source) in addresses]


def see_locations(op: Op[ServerHost]) -> None:
    """Which of those that users see lie on that subnet."""
    server_id = op.args.server_id
    with op.db.read() as tx:
        addresses = addresses_of(tx, [server_id], op.args.subnet_id)
        its = export_locations.of_many(tx, share_servers.instances_on(tx, server_id))
    seen = [one for all_of in its.values() for one in all_of if not one.is_admin_only]
    op.record(closing=sorted(one.id for one in seen if address_of(one.path) in addresses))


def close_locations(op: Op[ServerHost], tx: Tx) -> None:
    """Users see these no more, and what is mounted from there begins to move."""
    server_id = op.args.server_id
    _mark(op, tx, is_admin_only=True)
    for row in users_of(tx, [server_id], addresses_of(tx, [server_id], op.args.subnet_id)):
        if row.state == "active" and attachment_attach.has_moved(tx, row):
            attachment_attach.start(tx, row, op, event="remount", force=op.args.force)


def open_locations(op: Op[ServerHost], tx: Tx) -> None:
    """As they were; what has moved away comes back if that is nearer to it."""
    _mark(op, tx, is_admin_only=False)


def _mark(op: Op[ServerHost], tx: Tx, *, is_admin_only: bool) -> None:
    rows = change.rows_on(tx, op.args.server_id)
    shares.lock_many(tx, sorted({row.share_id for row in rows}))
    closing = set(op.data["closing"])
    marked = {
        instance_id: [
            msgspec.structs.replace(one, is_admin_only=is_admin_only) if one.id in closing else one for one in all_of
        ]
        for instance_id, all_of in export_locations.of_many(tx, [row.id for row in rows]).items()
    }
    change.relocate(op, tx, rows, marked)


def await_attachments(op: Op[ServerHost]) -> None:
    """Not before they have moved away; by force those that do not move are left behind."""
    server_id = op.args.server_id
    with op.db.read() as tx:
        found = users_of(tx, [server_id], addresses_of(tx, [server_id], op.args.subnet_id))
    staying = [row for row in found if _is_awaited(row, force=op.args.force)]
    if not staying:
        return
    more = f" and {len(staying) - 1} more" if len(staying) > 1 else ""
    who = f"attachment {staying[0].id} on server {staying[0].server_id}{more} to move away"
    said = f"; {staying[0].error_text}" if staying[0].error_text else ""
    raise Wait(
        who,
        conditions=sorted({attachments.moved_condition(row.share_id) for row in staying}),
        look_again_s=LOOK_AGAIN_S,
        within_s=MOVED_WITHIN_S,
        error=StillUsed(who=f"it waited for {who}{said}"),
    )


def _is_awaited(row: Attachment, *, force: bool) -> bool:
    """What is off mounts the new one when it is on."""
    return row.state in ATTACHMENT.busy if force else row.state != "inactive"


def serve_there_no_more(op: Op[ServerHost]) -> None:
    """The back end's part."""
    driver = change.driver_of(op.parts)
    with op.db.read() as tx:
        server, subnet = change.found(tx, op.args)
        (old,) = (one for one in values.subnets_of(tx, server) if one.id == subnet.id)
        instances = change.instances_on(tx, server.id)
    op.record(was_asked=True)
    outcome = driver.remove_server_network(values.contract_server(server, op), old, instances)
    op.record(details=outcome.details, exports=outcome.exports)


def serve_there(op: Op[ServerHost]) -> None:
    """As it was before."""
    with op.db.read() as tx:
        server, subnet = change.found(tx, op.args)
        all_of = values.subnets_of(tx, server)
        instances = change.instances_on(tx, server.id)
    others = [one for one in all_of if one.id != subnet.id]
    (old,) = (one for one in all_of if one.id == subnet.id)
    change.driver_of(op.parts).update_server_network(values.contract_server(server, op), others, old, instances)
    op.record(is_back=True)


def give_back_addresses(op: Op[ServerHost]) -> None:
    """Those on that subnet: nothing answers there any more."""
    op.parts.network.free(op.args.server_id, op.args.subnet_id, op.guard)


def succeed(op: Op[ServerHost], tx: Tx) -> None:
    """Its shares can no longer be mounted from there; with the last server that left the subnet that goes, too."""
    share_networks.hold(tx, op.args.share_network_id)
    share_servers.leave(tx, op.args.server_id, op.args.subnet_id)
    if not share_servers.on_subnets(tx, [op.args.subnet_id]):
        share_network_subnets.delete(tx, op.args.subnet_id)
    change.finish(op, tx)


def fail(op: Op[ServerHost], tx: Tx, error: errors.AbacaError) -> None:
    """It serves as before; where its back end could not even go back nobody knows, and it is in error."""
    cause = (Action.DELETE, Detail.UNKNOWN_ERROR)
    change.notify_project(op, tx, ("SHARE_NETWORK_SUBNET", op.args.subnet_id), cause, error)
    if op.data.get("was_asked") and not op.data.get("is_back"):
        change.lose(op, tx, error)
        return
    share_networks.hold(tx, op.args.share_network_id)
    share_servers.try_move(tx, op.args.server_id, "done", "network_change")
    change.end(op.args, tx)


OPERATION = kinds.operation(
    kind="share-server-remove-subnet",
    resource=values.RESOURCE,
    args=Args,
    parts=ServerHost,
    steps=(
        kinds.Step(see_locations, undo=kinds.nothing),
        kinds.DatabaseStep(close_locations, undo=open_locations),
        kinds.Step(await_attachments, undo=kinds.nothing),
        kinds.Step(serve_there_no_more, undo=serve_there, within_s=DRIVER_CALL_S),
        kinds.Pivot(give_back_addresses),
    ),
    succeed=succeed,
    fail=fail,
)
