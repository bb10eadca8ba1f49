# SPDX-License-Identifier: Apache-2.0
"""Snapshots that whoever can mount their share can mount, where its type says so: they have no rules of their own."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from abaca.db.shares import instance_access_rules, share_instances, shares, snapshot_instances
from abaca.drivers import contract
from abaca.operations.shares.snapshot_instances import changed_snapshot, contract_snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from abaca.db.engine.database import Tx
    from abaca.journal.op import Op
    from abaca.operations.parts import BackEnd

# A rule is on the back end at these; one that is on its way gets to the snapshots with its share.
_IN_FORCE = ("active", "queued_to_update")


def rules_for(tx: Tx, instance: contract.ShareInstance) -> list[contract.AccessRule] | None:
    """Who can mount the snapshots of a share instance by its share's rules; None where they have rules of their own."""
    share = shares.find(tx, instance.share_id)
    if share is None or not share.snapshot_inherit_share_access_support:
        return None
    return [
        contract.AccessRule(id=rule.id, type=rule.access_type, to=rule.client, level="ro")
        for rule in instance_access_rules.of_instance(tx, instance.share_id, instance.id)
        if rule.state in _IN_FORCE and not rule.is_denied
    ]


def open_new(op: Op[BackEnd], snapshot: contract.Snapshot) -> None:
    """Let in whom its share lets in; nobody where it has rules of its own. Its operation holds the share's instance."""
    with op.db.read() as tx:
        rules = rules_for(tx, snapshot.instance)
    if rules is not None and isinstance(op.parts.driver, contract.MountsSnapshots):
        op.parts.driver.set_snapshot_access(changed_snapshot(op, snapshot), rules)


def follow(op: Op[BackEnd], instance_id: str, rules: Sequence[contract.AccessRule]) -> None:
    """Let in whom the share lets in now, at each of its snapshots that inherits that."""
    driver = op.parts.driver
    if not isinstance(driver, contract.MountsSnapshots):
        return
    with op.db.read() as tx:
        found = snapshot_instances.inheriting(tx, instance_id)
        instance = share_instances.whole(tx, instance_id) if found else None
    if instance is None:
        return
    read_only = [contract.AccessRule(id=rule.id, type=rule.type, to=rule.to, level="ro") for rule in rules]
    for row in found:
        with contextlib.suppress(contract.Gone):  # one that could not be deleted may be gone
            driver.set_snapshot_access(changed_snapshot(op, contract_snapshot(row, instance)), read_only)
