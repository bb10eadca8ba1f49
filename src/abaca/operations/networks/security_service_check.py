# SPDX-License-Identifier: Apache-2.0
"""Ask a back end whether its share servers of a network could join one exact directory; nothing changes by it.

What can go wrong: the directory has changed or is gone since it was asked about; then the answer is no, as it is where
the back end cannot say.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.networks import security_services, share_network_checks, share_servers
from abaca.domain.networks.security_services import WORDS, SecurityService
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.operations.networks import share_server_values as values
from abaca.operations.parts import DRIVER_CALL_S, ServerHost

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


class Args(msgspec.Struct, frozen=True):
    """Which share network, which of the back end's share servers, and which directory in the place of which.

    `subject` is what answers are kept under.
    """

    share_network_id: str
    server_ids: tuple[str, ...]
    subject: str
    new_id: str
    current_id: str | None = None


def subject_of(new: SecurityService, current: SecurityService | None) -> str:
    """What answers about `new` in the place of `current` are kept under, each exactly as it is now."""
    said = [None if one is None else _exactly(one) for one in (new, current)]
    return hashlib.blake2b(msgspec.json.encode(said), digest_size=16).hexdigest()


def _exactly(service: SecurityService) -> dict[str, object]:
    left_out = (*WORDS, "created_at", "updated_at")
    return {name: value for name, value in msgspec.structs.asdict(service).items() if name not in left_out}


def start(tx: Tx, host: str, args: Args, by: Requester | None) -> str:
    """Queue it for a back end; the operation's id."""
    target = queueing.Target(queue=host, keys=(), resource_id=args.share_network_id)
    return queueing.enqueue(tx, OPERATION, args, target, by)


def look_at_servers(op: Op[ServerHost]) -> None:
    """Whether each could."""
    driver, args = op.parts.driver, op.args
    with op.db.read() as tx:
        new = security_services.show(tx, args.new_id)
        current = security_services.show(tx, args.current_id) if args.current_id else None
        found = [one for one in (share_servers.show(tx, each) for each in args.server_ids) if one is not None]
    if new is None or subject_of(new, current) != args.subject:
        op.record(is_compatible=False)
        return
    told, now = (
        values.contract_service(new),
        None if current is None else values.contract_service(current),
    )
    op.record(
        is_compatible=isinstance(driver, contract.UpdatesSecurityServices)
        and all(driver.check_security_service(values.contract_server(one), told, now) for one in found)
    )


def succeed(op: Op[ServerHost], tx: Tx) -> None:
    """The answer is kept."""
    _answer(op, tx, is_compatible=op.data["is_compatible"])


def fail(op: Op[ServerHost], tx: Tx, error: errors.AbacaError) -> None:
    """Who cannot say, cannot do it."""
    _answer(op, tx, is_compatible=False)


def _answer(op: Op[ServerHost], tx: Tx, *, is_compatible: bool) -> None:
    share_network_checks.answer(tx, op.args.share_network_id, op.args.subject, op.home, is_compatible=is_compatible)


OPERATION = kinds.operation(
    kind="security-service-check",
    resource="share-network",
    args=Args,
    parts=ServerHost,
    steps=(kinds.Step(look_at_servers, undo=kinds.nothing, within_s=DRIVER_CALL_S),),
    succeed=succeed,
    fail=fail,
)
