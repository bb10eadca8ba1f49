# SPDX-License-Identifier: Apache-2.0
"""What events say of the resources that operations are about, and events that no operation brings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec

from abaca.db.administration import events as rows
from abaca.journal.events import write

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.errors import AbacaError
    from abaca.journal.requester import Requester


def share(tx: Tx, share_id: str, _args: object, _recorded: Mapping[str, object]) -> Mapping[str, object] | None:
    """What events say of a share."""
    return rows.share(tx, share_id)


def snapshot(tx: Tx, snapshot_id: str, _args: object, _recorded: Mapping[str, object]) -> Mapping[str, object] | None:
    """What events say of a snapshot."""
    return rows.snapshot(tx, snapshot_id)


class OfNewSize(Protocol):
    """Arguments that say which size a share shall have, in GiB."""

    @property
    def new_size_gib(self) -> int: ...


def resized_share(
    tx: Tx, share_id: str, args: OfNewSize, _recorded: Mapping[str, object]
) -> Mapping[str, object] | None:
    """The same, with the size that it shall have."""
    found = rows.share(tx, share_id)
    return None if found is None else {**found, "new_size": args.new_size_gib}


class OfHost(Protocol):
    """Arguments that name a back end, host@backend."""

    @property
    def host(self) -> str: ...


def ensured_backend(_tx: Tx, service_id: str, args: OfHost, recorded: Mapping[str, object]) -> Mapping[str, object]:
    """Which back end, how many share instances it has, and how many were found how."""
    findings = msgspec.to_builtins(recorded.get("findings")) or {}
    counts = {name: number for name, number in findings.items() if isinstance(number, int)}
    return {"service_id": service_id, "host": args.host, "total": recorded.get("total"), **counts}


def attachment(
    tx: Tx, attachment_id: str, _args: object, recorded: Mapping[str, object]
) -> Mapping[str, object] | None:
    """What events say of an attachment; `former_export_location` where it has moved from."""
    found = rows.attachment(tx, attachment_id)
    kept = recorded.get("row")
    before = kept.get("source") if isinstance(kept, Mapping) else None
    if found is None or before in (None, found["export_location"]):
        return found
    return {**found, "former_export_location": before}


def cluster(tx: Tx, cluster_id: str, _args: object, _recorded: Mapping[str, object]) -> Mapping[str, object] | None:
    """What events say of a cluster."""
    return rows.cluster(tx, cluster_id)


def notify_attachment(tx: Tx, event_type: str, attachment_id: str, error: AbacaError | None = None) -> None:
    """Tell something of an attachment that no operation tells, since nobody asked for it; and what was wrong."""
    if rows.is_wanted(tx, event_type):
        payload = rows.attachment(tx, attachment_id) or {"attachment_id": attachment_id}
        if error is not None:
            payload |= {"error_code": error.code, "error_text": error.message}
        write(tx, event_type, ("attachment", attachment_id), None, payload)


def notify_share(tx: Tx, event_type: str, share_id: str, by: Requester | None, **more: str) -> None:
    """Tell something of a share that no operation tells."""
    if rows.is_wanted(tx, event_type):
        payload = rows.share(tx, share_id) or {"share_id": share_id}
        write(tx, event_type, ("share", share_id), by, {**payload, **more})
