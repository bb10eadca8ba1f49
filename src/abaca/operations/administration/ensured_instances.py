# SPDX-License-Identifier: Apache-2.0
"""Instances as drivers are told of them where these are ensured, and how what drivers find is written down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from abaca.db.administration import messages
from abaca.db.shares import (
    driver_data,
    export_locations,
    instance_access_rules,
    share_instances,
    shares,
    snapshot_export_locations,
)
from abaca.db.shares.export_location_history import Cause, Owner
from abaca.db.shares.snapshot_export_locations import SnapshotExport
from abaca.domain.administration.messages import About, Action, Detail
from abaca.domain.shares.share_instances import InstanceStatus, ShareInstance
from abaca.drivers import contract
from abaca.operations.parts import BackEnd
from abaca.operations.shares.share_instances import contract_instance, contract_rules

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.journal.op import Op

UNCHANGED = contract.EnsureOutcome()
_LOST = "{reason}. It is in error now; the administrator can bring it back on the back end and reset its status."


class Page(msgspec.Struct):
    """A few instances: all that were looked at, and those that are worked on, also as the driver is told of them.

    Those that are `true` are as they shall be, so they are not worked on.
    """

    seen: Sequence[InstanceStatus]
    taken: Mapping[str, ShareInstance]
    instances: Sequence[contract.ShareInstance]
    true: Collection[str] = ()


def page_of(tx: Tx, seen: Sequence[InstanceStatus], ids: set[str], *, is_held: bool) -> Page:
    """The page of which these instances are worked on."""
    whole = share_instances.whole_of(tx, ids) if ids else []
    exports = export_locations.of_many(tx, ids) if ids else {}
    rules = instance_access_rules.in_force(tx, ids) if ids else {}
    of_snapshots = snapshot_export_locations.of_share_instances(tx, ids) if ids else {}
    instances = [
        msgspec.structs.replace(
            contract_instance(row, exports.get(row.id, ())),
            is_held=is_held,
            rules=contract_rules(rules.get(row.id)),
            snapshot_exports={id: _exports(ones) for id, ones in of_snapshots.get(row.id, {}).items()},
        )
        for row in whole
    ]
    return Page(seen, {row.id: row for row in whole}, instances)


def _exports(ones: Sequence[SnapshotExport]) -> list[contract.Export]:
    return [contract.Export(path=one.path, is_admin_only=one.is_admin_only, preferred=one.preferred) for one in ones]


def is_synced_again(page: Page, instance_id: str, outcome: contract.EnsureOutcome) -> bool:
    """Whether its access rules go to the back end once more."""
    return outcome.reapply_access_rules or page.taken[instance_id].access_rules_status != "active"


def keep(
    op: Op[BackEnd], tx: Tx, page: Page, outcomes: Mapping[str, contract.EnsureOutcome]
) -> tuple[set[str], Mapping[str, int]]:
    """Write what the back end says of these; the ids of those whose users see something new.

    By project how many characters of metadata more there are.
    """
    exports = {id: one.exports for id, one in outcomes.items() if one.exports is not None}
    owners = {id: Owner(page.taken[id].share_id, page.taken[id].project_id) for id in exports}
    cause = Cause(op.id, op.what.kind)
    changed, gone = export_locations.replace_many(tx, exports, owners, cause)
    pairs = {page.taken[id].share_id: one.share_metadata for id, one in outcomes.items() if one.share_metadata}
    marked = shares.merge_metadata(tx, pairs)
    driver_data.keep(tx, {id: one.driver_data for id, one in outcomes.items()})
    of_snapshots = {id: places for one in outcomes.values() for id, places in one.snapshot_exports.items()}
    snapshot_export_locations.replace_many(tx, of_snapshots)
    projects = {row.share_id: row.project_id for row in page.taken.values()}
    characters: Counter[str] = Counter()
    for share_id, more in marked.items():
        characters[projects[share_id]] += more
    characters.subtract(gone)
    return {id for id in outcomes if id in changed or page.taken[id].share_id in marked}, characters


def notify_of_lost(op: Op[BackEnd], tx: Tx, lost: Sequence[tuple[ShareInstance, str]]) -> None:
    """Tell the users of these instances that their back end cannot serve them, and why."""
    told_of = [
        (About(row.project_id, op.request_id, "SHARE", row.share_id), _LOST.format(reason=why)) for row, why in lost
    ]
    messages.record_many(tx, told_of, Action.UPDATE, Detail.UNKNOWN_ERROR)
