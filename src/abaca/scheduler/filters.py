# SPDX-License-Identifier: Apache-2.0
"""The filters: each looks at one request and one pool and gives the reason for which it refuses, or None.

A reason is for operators: it names hosts and figures. Users are told the filter's detail instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from abaca.domain.administration import pools
from abaca.domain.administration.messages import Detail
from abaca.domain.administration.pools import Pool
from abaca.domain.catalog import extra_specs
from abaca.scheduler import formula


class ShareRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A share to be placed. `kind` is create, from_snapshot or extend; hosts are `host@backend#pool`.

    An extension's `size_gib` is what is to be added. `snapshot_host` is where the parent snapshot lies, `replica_hosts`
    where all copies lie that exist, `same_hosts` and `different_hosts` where the shares of the scheduler hints lie.
    """

    size_gib: int
    share_proto: str | None = None
    specs: Mapping[str, str] = msgspec.field(default_factory=dict)
    kind: str = "create"
    project_id: str | None = None
    availability_zone: str | None = None
    only_host: str | None = None
    same_hosts: Sequence[str] = ()
    different_hosts: Sequence[str] = ()
    snapshot_host: str | None = None
    active_replica_host: str | None = None
    replica_hosts: Sequence[str] = ()
    attempted_hosts: Sequence[str] = ()
    # how many subnets its share network has in each availability zone, and under None those that are for all others;
    # None where it is on no share network
    subnets: Mapping[str | None, int] | None = None

    @property
    def is_relative(self) -> bool:
        """Whether the share is to lie where a snapshot or a replica is near."""
        return self.snapshot_host is not None or self.active_replica_host is not None or bool(self.replica_hosts)


class Surroundings(msgspec.Struct, frozen=True):
    """What is the same for all pools: replication domains by back end, and what is asked of capabilities."""

    domains: Mapping[str, str]
    wanted: Mapping[str, str]

    def domain(self, host: str | None) -> str | None:
        """The replication domain of the back end that serves `host`."""
        return self.domains.get(pools.service_host_of(host)) if host else None


Refuses = Callable[[ShareRequest, Pool, Surroundings], str | None]


class Filter(msgspec.Struct, frozen=True):
    """One filter: the pools that it refuses, and what users are told when it leaves no pool.

    One that `is_lasting` judges a pool alike for all requests of a kind, until the back end says else of itself. One
    that `judges_zones` judges by zones, in which share networks have subnets.
    """

    refuses: Refuses
    detail: Detail
    is_lasting: bool = False
    judges_zones: bool = False


def only_host(request: ShareRequest, pool: Pool, _: Surroundings) -> str | None:
    """The hint `only_host` names one pool."""
    if request.only_host and pool.host != request.only_host:
        return f"only {request.only_host} is asked for"
    return None


def availability_zone(request: ShareRequest, pool: Pool, _: Surroundings) -> str | None:
    """The zone asked for, the zones that the type is bound to, and those in which its share network has subnets."""
    zone = pool.availability_zone
    if request.availability_zone and zone != request.availability_zone:
        return f"it is in zone {zone}, zone {request.availability_zone} is asked for"
    bound = extra_specs.zones(request.specs)
    if bound and zone not in bound:
        return f"it is in zone {zone}, the share type is bound to {', '.join(bound)}"
    return None if request.subnets is None else _unreached(request.subnets, pool)


def subnets_in_the_way(request: ShareRequest, pools: Iterable[Pool]) -> list[str]:
    """What users are told of their share network's subnets where these left no pool: a sentence a zone, and no host."""
    found: dict[str, str] = {}
    for pool in pools:
        zone = pool.availability_zone
        if request.subnets is None or request.availability_zone not in (None, zone):
            continue
        number = request.subnets.get(zone) or request.subnets.get(None, 0)
        if number == 0:
            found[zone] = f"The share network has no subnet for zone {zone}."
        elif _unreached(request.subnets, pool) is not None:
            found[zone] = f"The share network has {number} subnets for zone {zone}, of which share servers reach one."
    return [found[zone] for zone in sorted(found)]


def _unreached(subnets: Mapping[str | None, int], pool: Pool) -> str | None:
    """Why a share server there cannot be on all subnets of its zone, or None."""
    zone = pool.availability_zone
    number = subnets.get(zone) or subnets.get(None, 0)
    if number == 0:
        return f"it is in zone {zone}, where the share network has no subnet"
    if number > 1 and pool.capabilities.get("share_server_multiple_subnet_support") is not True:
        return f"the share network has {number} subnets there, its share servers reach one only"
    return None


def capacity(request: ShareRequest, pool: Pool, _: Surroundings) -> str | None:
    """Room for the size beside the reserve; the terms that the claim in the database checks again."""
    if pool.total_gib is None and pool.free_gib is not None and pool.reserved_percentage(request.kind):
        return "its size is not known, so the reserve cannot be kept"
    return shortage(pool, pool.claim(request.size_gib, request.kind, request.specs))


def shortage(pool: Pool, claim: pools.Claim) -> str | None:
    """Why the pool cannot meet the claim, or None."""
    size = claim.size_gib
    if claim.ratio is not None and claim.provisionable_gib is not None:
        if pool.provisioned_gib + size > claim.provisionable_gib:
            promised = f"{pool.provisioned_gib} of {_gib(claim.provisionable_gib)} are promised"
            return f"{size} GiB are asked for, {promised} at a ratio of {claim.ratio:g}"
        if pool.free_gib is not None and (pool.free_gib - claim.reserved_gib) * claim.ratio < size:
            left = _gib(pool.free_gib - claim.reserved_gib)
            return f"{size} GiB are asked for, {left} are free beside the reserve at a ratio of {claim.ratio:g}"
        return None
    if pool.free_gib is not None and pool.free_gib - pool.claimed_gib - claim.reserved_gib < size:
        left = _gib(max(0.0, pool.free_gib - pool.claimed_gib - claim.reserved_gib))
        return f"{size} GiB are asked for, {left} are free beside the reserve of {_gib(claim.reserved_gib)}"
    return None


def capabilities(_: ShareRequest, pool: Pool, around: Surroundings) -> str | None:
    """Every extra spec that is about capabilities, and the protocol."""
    return lacking(pool, around.wanted)


def wanted(request: ShareRequest) -> dict[str, str]:
    """What a request asks of capabilities."""
    asked = extra_specs.wanted_capabilities(request.specs)
    if request.share_proto:
        asked.setdefault("storage_protocol", f"<in> {request.share_proto}")
    return asked


def lacking(pool: Pool, asked: Mapping[str, str]) -> str | None:
    """The first capability that is not as asked, and how it is; None when all are."""
    for key, value in asked.items():
        reported = pool.reports(key)
        if not extra_specs.satisfies(reported, value):
            has = "does not report it" if reported is None else f"reports {reported!r}"
            return f"{key} {value!r} is asked for, the pool {has}"
    return None


def driver(request: ShareRequest, pool: Pool, _: Surroundings) -> str | None:
    """The back end's own `filter_function`; one that cannot be evaluated refuses."""
    text = pool.capabilities.get("filter_function")
    if not text:
        return None
    try:
        if formula.evaluate(str(text), names(request, pool)):
            return None
    except formula.Broken as broken:
        return f"filter_function {text!r} has no value: {broken}"
    return f"filter_function {text!r} is not true"


def names(request: ShareRequest, pool: Pool) -> formula.Names:
    """What a back end's formula may speak of."""
    stats: dict[str, object] = {
        "total_capacity_gb": pool.total_gib,
        "free_capacity_gb": pool.free_gib,
        "provisioned_capacity_gb": pool.provisioned_gib,
        "allocated_capacity_gb": pool.provisioned_gib,
        "host": pool.host,
    }
    share = {"size": request.size_gib, "share_proto": request.share_proto, "project_id": request.project_id}
    return {"capabilities": {**stats, **pool.capabilities}, "stats": stats, "share": share, "extra": request.specs}


def share_replication(request: ShareRequest, pool: Pool, around: Surroundings) -> str | None:
    """Another copy goes to the same replication domain, and to a back end that holds none yet."""
    if request.active_replica_host is None:
        return None
    domain = around.domain(request.active_replica_host)
    if not domain or pool.capabilities.get("replication_domain") != domain:
        return f"it is not in the replication domain {domain!r} of the active replica"
    if pool.service_host in {pools.service_host_of(host) for host in request.replica_hosts}:
        return "it holds a replica of the share already"
    return None


def create_from_snapshot(request: ShareRequest, pool: Pool, around: Surroundings) -> str | None:
    """A share from a snapshot stays on the snapshot's back end, or in its replication domain."""
    if request.snapshot_host is None or pools.service_host_of(request.snapshot_host) == pool.service_host:
        return None
    domain = around.domain(request.snapshot_host)
    if domain and pool.capabilities.get("replication_domain") == domain:
        return None
    return f"the snapshot lies on {request.snapshot_host} and can be read there only"


def affinity(request: ShareRequest, pool: Pool, _: Surroundings) -> str | None:
    """The hint `same_host`."""
    elsewhere = [host for host in request.same_hosts if host != pool.host]
    return f"a share it must be with lies on {elsewhere[0]}" if elsewhere else None


def anti_affinity(request: ShareRequest, pool: Pool, _: Surroundings) -> str | None:
    """The hint `different_host`."""
    return "it holds a share that must be elsewhere" if pool.host in request.different_hosts else None


def ignore_attempted(request: ShareRequest, pool: Pool, _: Surroundings) -> str | None:
    """Pools that were tried for this request before."""
    return "it was tried for this share already" if pool.host in request.attempted_hosts else None


def _gib(size: float) -> str:
    return "endless" if math.isinf(size) else f"{size:.10g} GiB"


FILTERS: dict[str, Filter] = {
    "OnlyHostFilter": Filter(only_host, Detail.NO_VALID_HOST),
    "AvailabilityZoneFilter": Filter(availability_zone, Detail.FILTER_AVAILABILITY, is_lasting=True, judges_zones=True),
    "CapacityFilter": Filter(capacity, Detail.FILTER_CAPACITY),
    "CapabilitiesFilter": Filter(capabilities, Detail.FILTER_CAPABILITIES, is_lasting=True),
    "DriverFilter": Filter(driver, Detail.FILTER_DRIVER),
    "ShareReplicationFilter": Filter(share_replication, Detail.FILTER_REPLICATION),
    "CreateFromSnapshotFilter": Filter(create_from_snapshot, Detail.FILTER_CREATE_FROM_SNAPSHOT),
    "AffinityFilter": Filter(affinity, Detail.NO_VALID_HOST),
    "AntiAffinityFilter": Filter(anti_affinity, Detail.NO_VALID_HOST),
    "IgnoreAttemptedHostsFilter": Filter(ignore_attempted, Detail.FILTER_ATTEMPTED),
}

DEFAULT = tuple(FILTERS)[:9]
EXTEND = ("CapacityFilter", "DriverFilter")
