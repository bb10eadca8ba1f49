# SPDX-License-Identifier: Apache-2.0
"""A share instance as its driver is told of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from abaca.db.administration import messages
from abaca.db.journal import keys
from abaca.db.shares.share_instances import INSTANCE_KEY
from abaca.domain.shares.access_rules import RuleInForce
from abaca.drivers import contract
from abaca.journal.queueing import Target
from abaca.operations.parts import BackEnd

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.administration.messages import Action, Detail
    from abaca.domain.shares.export_locations import Export
    from abaca.domain.shares.share_instances import ShareInstance
    from abaca.journal.op import Op


def service_host(host: str) -> str:
    """`host@backend` of `host@backend#pool`: the queue on which the back end's work waits."""
    return host.partition("#")[0]


def keys_of_share(share_id: str, instance_ids: Iterable[str]) -> list[str]:
    """What an operation on a share holds: the share, and those of its instances that it touches."""
    return [keys.key("share", share_id), *keys_of_instances(instance_ids)]


def keys_of_instances(instance_ids: Iterable[str]) -> list[str]:
    """What an operation on instances alone holds: whatever is done to other instances of their shares goes on."""
    return [keys.key(INSTANCE_KEY, instance_id) for instance_id in instance_ids]


def target_of(host: str, share_id: str, held: Sequence[str]) -> Target:
    """Where the work on a share that is on `host` (host@backend#pool) is queued, and what it holds."""
    return Target(queue=service_host(host), keys=held, resource_id=share_id)


def pool_name(host: str) -> str:
    """The pool's own name."""
    return host.partition("#")[2]


def contract_instance(row: ShareInstance, exports: Iterable[Export] = ()) -> contract.ShareInstance:
    """The value for an instance, with its export locations where they matter."""
    return contract.ShareInstance(
        id=row.id,
        share_id=row.share_id,
        project_id=row.project_id,
        size_gib=row.size,
        protocol=row.share_proto,
        pool=pool_name(row.host or ""),
        mount_point_name=row.mount_point_name,
        share_metadata=row.metadata,
        extra_specs=row.extra_specs or {},
        encryption_key_ref=row.encryption_key_ref,
        exports=[
            contract.Export(path=one.path, is_admin_only=one.is_admin_only, preferred=one.preferred) for one in exports
        ],
        driver_data=row.driver_data or {},
        server=_server_of(row),
    )


def _server_of(row: ShareInstance) -> contract.ShareServer | None:
    if row.share_server_id is None:
        return None
    return contract.ShareServer(id=row.share_server_id, details=row.server_details or {})


def contract_rules(rules: Sequence[RuleInForce] | None) -> list[contract.AccessRule] | None:
    """The rules of an instance as its driver is told of them; None where some are not in force."""
    if rules is None:
        return None
    return [
        contract.AccessRule(
            id=rule.id or "",
            type=rule.access_type,
            to=rule.client,
            level="ro" if rule.cast_rules_to_readonly else rule.access_level,
        )
        for rule in rules
    ]


def changed_by(op: Op[BackEnd], instance: contract.ShareInstance) -> contract.ShareInstance:
    """The instance as the driver is told of it for a change: whatever was begun before this run comes too late."""
    return msgspec.structs.replace(instance, generation=op.generation)


def notify_project(
    op: Op[BackEnd], tx: Tx, instance: contract.ShareInstance, cause: tuple[Action, Detail], reason: str | None
) -> None:
    """Tell the share's project what went wrong, whoever had asked for it."""
    action, detail = cause
    about = messages.About(instance.project_id, op.request_id, "SHARE", instance.share_id)
    messages.record(tx, about, action, detail, reason=reason)
