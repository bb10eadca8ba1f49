# SPDX-License-Identifier: Apache-2.0
"""Have a share server know the metadata of a subnet that it is on, as they are by now.

What can go wrong: the back end refuses, or knows nothing of metadata. Then the server serves as it did and the metadata
stay as they were written; a message to the project says that they do not act. Another one says where they do, since
who sets them has the answer before. The claim under faults: it always ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from abaca.db.administration import messages
from abaca.db.networks import share_servers
from abaca.domain.administration.messages import About, Action, Detail
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.operations.networks import share_server_values as values
from abaca.operations.parts import DRIVER_CALL_S, ServerHost

if TYPE_CHECKING:
    from abaca import errors
    from abaca.db.engine.database import Tx
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


class Args(msgspec.Struct, frozen=True):
    """Which share server, which subnet, and whose that is."""

    server_id: str
    subnet_id: str
    project_id: str


def start_all(tx: Tx, subnet_id: str, project_id: str, by: Requester | None) -> None:
    """Queue it for each share server that the subnet leads to, behind whatever is done to that; once is enough."""
    for server in share_servers.on_subnets(tx, [subnet_id]):
        if server.status != "deleting":
            target = values.target_of(server.host, server.id)
            target = msgspec.structs.replace(target, coalesce_key=f"subnet-metadata:{server.id}:{subnet_id}")
            queueing.enqueue(tx, OPERATION, Args(server.id, subnet_id, project_id), target, by)


def update_on_backend(op: Op[ServerHost]) -> None:
    """The back end's part; nothing where the server has left the subnet, or is gone."""
    driver = op.parts.driver
    if not isinstance(driver, contract.UpdatesSubnetMetadata):
        raise contract.Refused(reason="its driver knows nothing of metadata of subnets")
    with op.db.read() as tx:
        server = share_servers.show(tx, op.args.server_id)
        its = [] if server is None else values.subnets_of(tx, server)
    subnet = next((one for one in its if one.id == op.args.subnet_id), None)
    if server is not None and subnet is not None:
        driver.update_subnet_metadata(values.contract_server(server, op), subnet)
        op.record(is_told=True)


def succeed(op: Op[ServerHost], tx: Tx) -> None:
    """Its project reads that they act, where they do."""
    if op.data.get("is_told"):
        messages.record(tx, _about(op), Action.UPDATE_METADATA, Detail.METADATA_UPDATED)


def fail(op: Op[ServerHost], tx: Tx, error: errors.AbacaError) -> None:
    """Its project reads that they do not, and why."""
    messages.record(tx, _about(op), Action.UPDATE_METADATA, Detail.METADATA_FAILED, reason=error.message)


def _about(op: Op[ServerHost]) -> About:
    return About(op.args.project_id, op.request_id, "SHARE_NETWORK_SUBNET", op.args.subnet_id)


OPERATION = kinds.operation(
    kind="share-server-update-subnet",
    resource=values.RESOURCE,
    args=Args,
    parts=ServerHost,
    steps=(kinds.Step(update_on_backend, undo=kinds.nothing, within_s=DRIVER_CALL_S),),
    succeed=succeed,
    fail=fail,
    cancellable=False,
)
