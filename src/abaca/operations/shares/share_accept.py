# SPDX-License-Identifier: Apache-2.0
"""Accept a new share: everything that is checked and written in the one transaction that makes it exist.

Type, zone and quota are checked, a pool is chosen and its room taken, and the rows and the operation are written. The
contended rows (the project's usage, the pool) come last, so that their locks are held only for the commit. A share
that no pool can hold is accepted too: the answer says `creating`, and who looks next finds `error` with a message,
because clients of this API announce what the first says and look for a change.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from abaca import errors
from abaca.db.administration import messages, pools
from abaca.db.catalog import availability_zones, quotas, share_types
from abaca.db.shares import share_instances, shares
from abaca.domain import metadata
from abaca.domain.administration.messages import About, Action, Detail
from abaca.domain.catalog import extra_specs
from abaca.domain.catalog.quotas import METADATA
from abaca.domain.ids import new_id
from abaca.domain.shares import shares as rules
from abaca.drivers import contract
from abaca.operations import events
from abaca.operations.networks import share_network_use
from abaca.operations.shares import (
    affinities,
    encryption_keys,
    metadata_limits,
    share_clone,
    share_create,
    share_sources,
)
from abaca.operations.shares.share_instances import pool_name
from abaca.scheduler import choose
from abaca.scheduler.filters import ShareRequest

if TYPE_CHECKING:
    from abaca.db.engine.database import Database, Tx
    from abaca.db.engine.statements import Row
    from abaca.domain.administration.pools import Pool
    from abaca.domain.callers import Caller
    from abaca.operations.shares.share_sources import Source
    from abaca.scheduler.known_pools import KnownPools
    from abaca.settings import Settings

log = logging.getLogger(__name__)

# How often it is tried again when somebody else took the room in between.
TRIES = 4


class CreateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A share as its user wants it; `share_type` is a name or an id, sizes are in GiB."""

    share_proto: str
    size_gib: int | None = None
    name: str | None = None
    description: str | None = None
    share_type: str | None = None
    share_network_id: str | None = None
    snapshot_id: str | None = None
    # whether the type of the snapshot's share must say that shares can be made from its snapshots
    clones_by_type: bool = True
    # whether it lies in one of the zones to which its type is bound
    zones_by_type: bool = True
    is_public: bool = False
    metadata: object = None
    availability_zone: str | None = None
    share_group_id: str | None = None
    scheduler_hints: Mapping[str, Any] = msgspec.field(default_factory=dict)
    mount_point_name: str | None = None
    encryption_key_ref: str | None = None


def filled(wanted: CreateRequest, source: Source) -> CreateRequest:
    """With what the snapshot says where its user says nothing."""
    return msgspec.structs.replace(
        wanted,
        size_gib=wanted.size_gib or source.snapshot.size,
        share_type=wanted.share_type or source.share_type_id,
        share_network_id=wanted.share_network_id or source.share_network_id,
        encryption_key_ref=wanted.encryption_key_ref or source.encryption_key_ref,
    )


def _in_zone(tx: Tx, wanted: CreateRequest) -> CreateRequest:
    """With the name of the zone where its user says an id. Raises `NotFound`."""
    if wanted.availability_zone is None:
        return wanted
    name = availability_zones.find(tx, wanted.availability_zone)
    if name is None:
        raise errors.NotFound(resource="Availability zone", id=wanted.availability_zone)
    return msgspec.structs.replace(wanted, availability_zone=name)


class ResolvedType(msgspec.Struct, frozen=True):
    """The share type that was found; None when there is none to be had."""

    id: str | None
    name: str | None
    specs: dict[str, str]

    @property
    def shown(self) -> shares.ItsType:
        """What its shares show of it."""
        return shares.ItsType(self.name, None if self.id is None else self.specs)


def _binding(wanted: CreateRequest, resolved: ResolvedType) -> dict[str, str]:
    """What of the type says where the share may lie."""
    if wanted.zones_by_type:
        return resolved.specs
    return {key: value for key, value in resolved.specs.items() if key != extra_specs.ZONES}


class _RoomTaken(Exception):
    """Another request was faster."""


class Admission:
    """Accepts shares for one caller."""

    def __init__(self, settings: Settings, caller: Caller, known: KnownPools) -> None:
        self.settings = settings
        self.caller = caller
        self._known = known

    def share(self, db: Database, wanted: CreateRequest, columns: tuple[str, ...]) -> Row:
        """The new share as it was accepted, with these columns.

        Raises `Invalid`, `NotFound`, `Forbidden`, `OverLimit`, `Unavailable`; then nothing is written.
        """
        protocol = rules.check_protocol(wanted.share_proto, self.settings.enabled_share_protocols)
        pairs = self._metadata(wanted)
        if wanted.size_gib is not None:
            rules.check_size(wanted.size_gib)
        elif wanted.snapshot_id is None:
            raise errors.Invalid("The share needs a 'size', a whole number of GiB greater than 0.")
        if not isinstance(wanted.scheduler_hints.get("only_host"), str | None):
            raise errors.Invalid("Scheduler hint only_host must be the name of a pool: host@backend#pool.")
        for _ in range(TRIES):
            try:
                with db.write() as tx:
                    return self._write(tx, wanted, (protocol, pairs), columns)
            except _RoomTaken:
                # the next try sees what is left
                continue
        raise errors.Unavailable(part="The scheduler")

    def _metadata(self, wanted: CreateRequest) -> dict[str, str]:
        pairs = metadata.check(wanted.metadata) if wanted.metadata is not None else {}
        metadata.check_admin_only(pairs, self.settings.admin_only_metadata, is_admin=self.caller.is_admin)
        return {**pairs, **affinities.pairs(wanted.scheduler_hints)}

    # ---------------------------------------------------------------- inside the transaction

    def _write(
        self, tx: Tx, wanted: CreateRequest, checked: tuple[str, dict[str, str]], columns: tuple[str, ...]
    ) -> Row:
        protocol, pairs = checked
        source = self._source(tx, wanted)
        if source is not None:
            wanted = filled(wanted, source)
        wanted = _in_zone(tx, wanted)
        resolved = self._resolve(tx, wanted)
        if source is not None:
            source.check(wanted.size_gib or 0, protocol, resolved.id, wanted.share_network_id)
            source.check_key(wanted.encryption_key_ref)
        subnets = None
        if (network_id := wanted.share_network_id) is not None:
            zone = wanted.availability_zone
            subnets = share_network_use.subnets_by_zone(tx, network_id, self.caller.project_id, zone)
        self._check(tx, wanted, resolved)
        taken = {"shares": 1, "gigabytes": wanted.size_gib or 0}
        limits = self.settings.quota.limits
        if pairs:
            taken[METADATA] = metadata_limits.check(self.settings, {}, pairs)
            limits = {**limits, METADATA: self.settings.limits.project_metadata_characters}
        share_id, instance_id = new_id(), new_id()
        where = (protocol, subnets, source)
        placement = self._place(tx, wanted, resolved, where) if resolved.id else None
        candidate = placement.candidates[0] if placement and placement.candidates else None
        share = self._add(tx, wanted, resolved, share_id, {"share_proto": protocol, "metadata": pairs})
        ids = {"id": instance_id, "share_id": share_id}
        place = {"host": None, "availability_zone": wanted.availability_zone}
        if candidate is not None:
            place = {"host": candidate.pool.host, "availability_zone": candidate.pool.availability_zone}
        on_network = {"share_network_id": wanted.share_network_id}
        instance = share_instances.add(
            tx, {**ids, **place, **on_network, "share_type_id": resolved.id, "progress": None}
        )
        # The answer shows what was asked for, and not yet what came of it.
        row = shares.show_added(share, instance, resolved.shown, columns)
        if candidate is None:
            self._refuse(tx, share_id, instance_id, placement)
        else:
            value = self._value(wanted, resolved, ids, candidate.pool, checked)
            if source is None:
                share_create.start(tx, value, candidate.pool.host, self.caller, wanted.share_network_id)
            else:
                args = share_clone.Args(value, source.value, source.snapshot.id, wanted.share_network_id)
                share_clone.start(tx, args, candidate.pool.host, self.caller)
        others = affinities.add(tx, self.settings, self.caller, share_id, wanted.scheduler_hints)
        if pairs:
            taken[METADATA] += others.pop(self.caller.project_id, 0)
            metadata_limits.count_anyway(tx, others)
        if wanted.encryption_key_ref is not None:
            encryption_keys.count(tx, self.caller.project_id, share_id, wanted.encryption_key_ref, limits)
        taker = quotas.Taker(self.caller.project_id, self.caller.user_id, resolved.id)
        if candidate is None:
            quotas.take(tx, *taker, taken, limits)
        elif not pools.take_and_claim(tx, taker, taken, limits, candidate.claim):
            raise _RoomTaken
        return row

    def _source(self, tx: Tx, wanted: CreateRequest) -> Source | None:
        if wanted.snapshot_id is None:
            return None
        return share_sources.find(tx, wanted.snapshot_id, self.caller, by_type=wanted.clones_by_type)

    def _value(
        self,
        wanted: CreateRequest,
        resolved: ResolvedType,
        ids: dict[str, str],
        pool: Pool,
        checked: tuple[str, dict[str, str]],
    ) -> contract.ShareInstance:
        return contract.ShareInstance(
            id=ids["id"],
            share_id=ids["share_id"],
            project_id=self.caller.project_id,
            size_gib=wanted.size_gib or 0,
            protocol=checked[0],
            pool=pool_name(pool.host),
            mount_point_name=self._mount_point(wanted, resolved),
            share_metadata=checked[1],
            extra_specs=resolved.specs,
            encryption_key_ref=wanted.encryption_key_ref,
        )

    def _resolve(self, tx: Tx, wanted: CreateRequest) -> ResolvedType:
        name_or_id = wanted.share_type or self.settings.default_share_type
        if not name_or_id:
            return ResolvedType(None, None, {})
        visible = {} if self.caller.is_admin else {"open_to": self.caller.project_id}
        row = share_types.find(tx, name_or_id, **visible)
        if row is None:
            if wanted.share_type:
                raise errors.NotFound(f"Share type {name_or_id} could not be found.")
            return ResolvedType(None, None, {})
        return ResolvedType(row.id, row.name, row.extra_specs)

    def _check(self, tx: Tx, wanted: CreateRequest, resolved: ResolvedType) -> None:
        if wanted.share_group_id is not None:
            raise errors.NotFound(resource="Share group", id=wanted.share_group_id)
        if resolved.id is not None:
            share_network_use.check(resolved.specs, wanted.share_network_id)
        if wanted.availability_zone is not None:
            specs = _binding(wanted, resolved)
            if not extra_specs.may_lie_in(specs, [wanted.availability_zone]):
                bound = ", ".join(extra_specs.zones(specs))
                raise errors.Invalid(f"The share type allows only these availability zones: {bound}.")
        encryption_keys.check(wanted.encryption_key_ref, resolved.specs)
        self._mount_point(wanted, resolved)
        rules.check_smallest(wanted.size_gib or 0, resolved.specs)
        rules.check_largest(wanted.size_gib or 0, resolved.specs)

    def _mount_point(self, wanted: CreateRequest, resolved: ResolvedType) -> str | None:
        if wanted.mount_point_name is None:
            return None
        if not extra_specs.is_true(resolved.specs, "mount_point_name_support"):
            raise errors.Invalid("The share type does not let its users choose a mount point name.")
        prefix = resolved.specs.get("provisioning:mount_point_prefix", self.caller.project_id)
        return rules.check_mount_point_name(f"{prefix}_{wanted.mount_point_name}")

    def _place(
        self,
        tx: Tx,
        wanted: CreateRequest,
        resolved: ResolvedType,
        where: tuple[str, Mapping[str | None, int] | None, Source | None],
    ) -> choose.Placement:
        protocol, subnets, source = where
        request = ShareRequest(
            size_gib=wanted.size_gib or 0,
            share_proto=protocol,
            specs=_binding(wanted, resolved),
            project_id=self.caller.project_id,
            availability_zone=wanted.availability_zone,
            # it reaches what is disabled; from others it is, as always, no hint at all
            only_host=wanted.scheduler_hints.get("only_host") if self.caller.is_admin else None,
            subnets=subnets,
            kind="create" if source is None else "from_snapshot",
            snapshot_host=None if source is None else source.host,
            same_hosts=self._hosts(tx, wanted, "same_host"),
            different_hosts=self._hosts(tx, wanted, "different_host"),
        )
        read = functools.partial(pools.read_for_scheduling, tx, self.settings.service_down_time)
        return self._known.place(request, read, choose.rules_of(self.settings))

    def _hosts(self, tx: Tx, wanted: CreateRequest, hint: str) -> list[str]:
        found = []
        for share_id in affinities.hinted(wanted.scheduler_hints, hint):
            share = shares.find(tx, share_id)
            if share is None or (share.project_id != self.caller.project_id and not self.caller.is_admin):
                raise errors.NotFound(resource="Share", id=share_id)
            if share.host:
                found.append(share.host)
        return found

    def _add(
        self, tx: Tx, wanted: CreateRequest, resolved: ResolvedType, share_id: str, checked: Mapping[str, object]
    ) -> Mapping[str, object]:
        traits = {name: extra_specs.is_true(resolved.specs, name) for name in shares.TRAITS}
        return shares.add(
            tx,
            {
                "id": share_id,
                "project_id": self.caller.project_id,
                "user_id": self.caller.user_id,
                "name": wanted.name,
                "description": wanted.description,
                "size": wanted.size_gib,
                "is_public": wanted.is_public,
                "snapshot_id": wanted.snapshot_id,
                "replication_type": resolved.specs.get("replication_type"),
                "mount_point_name": self._mount_point(wanted, resolved),
                "encryption_key_ref": wanted.encryption_key_ref,
                **traits,
                **checked,
            },
        )

    def _refuse(self, tx: Tx, share_id: str, instance_id: str, placement: choose.Placement | None) -> None:
        share_instances.move(tx, instance_id, "refuse")
        events.notify_share(tx, "share.create.start", share_id, self.caller)
        events.notify_share(tx, "share.create.error", share_id, self.caller)
        about = About(self.caller.project_id, self.caller.request_id, "SHARE", share_id)
        if placement is None:
            messages.record(tx, about, Action.CREATE, Detail.NO_DEFAULT_SHARE_TYPE)
            return
        unplaced = placement.refusal or placement.taken_meanwhile
        reasons = "; ".join(map(str, placement.refusals[:20]))
        log.warning("share=%s no pool can take it: %s", share_id, reasons or unplaced.text)
        messages.record(tx, about, Action.ALLOCATE_HOST, unplaced.detail, reason=unplaced.text)
