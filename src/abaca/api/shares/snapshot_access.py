# SPDX-License-Identifier: Apache-2.0
"""Who may mount a snapshot, and from where."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Annotated

from abaca import errors
from abaca.api.shares.share_actions import refused_as
from abaca.api.shares.snapshots import snapshot_for_look, snapshot_held_for_change
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Row
from abaca.db.shares import shares, snapshot_access_rules, snapshot_export_locations, snapshot_instances
from abaca.domain.shares import access_rules as rules
from abaca.domain.shares.shares import Share
from abaca.domain.shares.snapshots import Snapshot
from abaca.http.bodies import Body, Name, Text
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import AdminOnly, Computed, Link, Many, One, View
from abaca.operations.shares import snapshot_access_sync
from abaca.policy import admin, member, reader

LIST = reader("share_snapshot:access_list", "List who may mount a snapshot.")
ALLOW = member("share_snapshot:allow_access", "Let somebody mount a snapshot.")
DENY = member("share_snapshot:deny_access", "Take access to a snapshot away.")
INDEX = reader("share_snapshot_export_location:index", "List where a snapshot can be mounted from.")
SHOW = reader("share_snapshot_export_location:show", "See one place where a snapshot can be mounted from.")
INDEX_OF_INSTANCE = admin(
    "share_snapshot_instance_export_location:index", "List where a snapshot instance can be mounted from."
)
SHOW_OF_INSTANCE = admin("share_snapshot_instance_export_location:show", "See one such place of a snapshot instance.")

ACCESS = Resource("access to snapshots", "/snapshots", since="2.32")
LOCATIONS = Resource("export locations of snapshots", "/snapshots/{id}/export-locations", since="2.32")
OF_INSTANCE = Resource(
    "export locations of snapshot instances", "/snapshot-instances/{id}/export-locations", since="2.32"
)


class SnapshotAccessView(View):
    """An access rule of a snapshot."""

    id: str
    access_type: str
    access_to: str
    state: str


class SnapshotLocationListed(View):
    """A place in a list."""

    id: str
    path: str
    links: Annotated[
        list[Link],
        Computed(lambda call, location_id: call.links("share_snapshot_export_locations", location_id), needs=("id",)),
    ]
    share_snapshot_instance_id: Annotated[str, AdminOnly()]
    is_admin_only: Annotated[bool, AdminOnly()]


class SnapshotLocationView(SnapshotLocationListed):
    """A place by itself."""

    created_at: datetime.datetime
    updated_at: datetime.datetime | None


class AllowSnapshot(Body):
    """Whom to let in; they can read."""

    access_type: Text
    access_to: Name


class DenySnapshot(Body):
    """Which rule to take away."""

    access_id: Text


@ACCESS.action(
    "allow_access",
    since="2.32",
    body=AllowSnapshot,
    policy=ALLOW,
    view=One("snapshot_access", SnapshotAccessView),
    status=202,
)
def allow(call: Call, id: str, body: AllowSnapshot) -> Row:
    """Let somebody mount it; the rule's state tells when the back end does."""
    if body.access_type not in _TYPES:
        raise errors.Invalid(f"'access_type' must be one of: {', '.join(_TYPES)}.")
    client = rules.client_of(body.access_type, body.access_to)
    with call.db.write() as tx:
        snapshot = _open(call, tx, id)
        values = {"access_type": body.access_type, "access_to": body.access_to, "client": client}
        rule_id = snapshot_access_rules.add(tx, {"snapshot_id": id, **values})
        snapshot_access_sync.start(tx, snapshot, call.caller)
        return snapshot_access_rules.shown(tx, call.columns, id=rule_id)[0]


_TYPES = ("ip", "user", "cert")


@ACCESS.action("deny_access", since="2.32", body=DenySnapshot, policy=DENY, status=202)
def deny(call: Call, id: str, body: DenySnapshot) -> None:
    """Take a rule away, whatever became of it; to do so twice is fine."""
    with call.db.write() as tx:
        snapshot = _open(call, tx, id)
        rule = snapshot_access_rules.find(tx, body.access_id)
        if rule is None or rule.snapshot_id != id:
            raise errors.NotFound(resource="Snapshot access rule", id=body.access_id)
        if rule.state not in ("queued_to_deny", "denying"):
            with refused_as(errors.Invalid):
                snapshot_access_rules.deny(tx, rule.id)
            snapshot_access_sync.start(tx, snapshot, call.caller)


@ACCESS.get("/{id}/access-list", policy=LIST, view=Many("snapshot_access_list", SnapshotAccessView))
def index(call: Call, id: str) -> Sequence[Row]:
    """A snapshot's own rules: none where it inherits those of its share. Raises `Invalid` where it is never mounted."""
    with call.db.read() as tx:
        row = snapshot_for_look(call, tx, id, ("share_id",))
        _mountable(tx, row.share_id)
        return snapshot_access_rules.shown(tx, call.columns, snapshot_id=id)


@LOCATIONS.get(policy=INDEX, view=Many("share_snapshot_export_locations", SnapshotLocationListed))
def locations(call: Call, id: str) -> Sequence[Row]:
    """Where it can be mounted from."""
    with call.db.read() as tx:
        snapshot_for_look(call, tx, id, ())
        return snapshot_export_locations.listed(tx, call.columns, with_admin_only=call.caller.is_admin, snapshot_id=id)


@LOCATIONS.get("/{location_id}", policy=SHOW, view=One("share_snapshot_export_location", SnapshotLocationView))
def location(call: Call, id: str, location_id: str) -> Row:
    """One of them."""
    with call.db.read() as tx:
        snapshot_for_look(call, tx, id, ())
        return _location(call, tx, location_id, snapshot_id=id)


@OF_INSTANCE.get(policy=INDEX_OF_INSTANCE, view=Many("share_snapshot_export_locations", SnapshotLocationListed))
def locations_of_instance(call: Call, id: str) -> Sequence[Row]:
    """Those of one instance."""
    with call.db.read() as tx:
        _check_instance(tx, id)
        return snapshot_export_locations.listed(tx, call.columns, with_admin_only=True, snapshot_instance_id=id)


@OF_INSTANCE.get(
    "/{location_id}", policy=SHOW_OF_INSTANCE, view=One("share_snapshot_export_location", SnapshotLocationView)
)
def location_of_instance(call: Call, id: str, location_id: str) -> Row:
    """One of those."""
    with call.db.read() as tx:
        _check_instance(tx, id)
        return _location(call, tx, location_id, snapshot_instance_id=id)


def _mountable(tx: Tx, share_id: str) -> Share:
    """A share whose snapshots can be mounted. Raises `Invalid`."""
    share = shares.find(tx, share_id)
    if share is None or not share.mount_snapshot_support:
        raise errors.Invalid(f"Snapshots of share {share_id} cannot be mounted: its type does not say so.")
    return share


def _open(call: Call, tx: Tx, snapshot_id: str) -> Snapshot:
    """A snapshot whose rules may change, which nobody else changes meanwhile."""
    snapshot = snapshot_held_for_change(call, tx, snapshot_id)
    share = _mountable(tx, snapshot.share_id)
    if share.snapshot_inherit_share_access_support:
        raise errors.Invalid(
            f"Snapshot {snapshot_id} is mounted by whom its share lets in; change the access rules of share {share.id}."
        )
    if snapshot.status != "available":
        raise errors.Invalid(f"Access to snapshot {snapshot_id} cannot change while it is {snapshot.status}.")
    return snapshot


def _location(call: Call, tx: Tx, location_id: str, **of: str) -> Row:
    found = snapshot_export_locations.listed(
        tx, call.columns, with_admin_only=call.caller.is_admin, id=location_id, **of
    )
    if not found:
        raise errors.NotFound(resource="Export location", id=location_id)
    return found[0]


def _check_instance(tx: Tx, instance_id: str) -> None:
    if snapshot_instances.INSTANCES.one(tx, ("id",), {"id": instance_id}) is None:
        raise errors.NotFound(resource="Snapshot instance", id=instance_id)
