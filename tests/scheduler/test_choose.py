# SPDX-License-Identifier: Apache-2.0
"""A request and pools in; the chosen pool, or why there is none, out. One row a story."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abaca import settings
from abaca.domain.administration.messages import Detail
from abaca.domain.administration.pools import Pool
from abaca.scheduler import choose, filters
from abaca.scheduler.filters import ShareRequest

CAPABILITIES = {
    "driver_handles_share_servers": False,
    "snapshot_support": True,
    "storage_protocol": "NFS_CIFS",
    "share_backend_name": "FAST",
    "reserved_percentage": 0,
    "max_over_subscription_ratio": 2.0,
    "thin_provisioning": False,
}


def pool(name, total=100.0, free=100.0, *, zone="nova", state="", claimed=0, provisioned=0, **capabilities):
    """The pool here@{backend}#{pool} of the name `backend#pool`."""
    host = f"here@{name}"
    return Pool(
        host=host,
        service_host=host.partition("#")[0],
        is_up=state not in ("down", "back soon"),
        is_back_soon=state == "back soon",
        is_disabled=state == "disabled",
        availability_zone=zone,
        total_gib=total,
        free_gib=free,
        claimed_gib=claimed,
        provisioned_gib=provisioned,
        capabilities={**CAPABILITIES, **capabilities},
    )


def ask(size=10, specs=None, **wishes):
    return ShareRequest(size_gib=size, share_proto=wishes.pop("proto", "NFS"), specs=specs or {}, **wishes)


A, B = pool("a#p"), pool("b#p")

CHOSEN = {
    "the emptiest pool": (ask(), [pool("a#p", free=50), pool("b#p", free=60)], "b#p"),
    "the first by name of two that are alike": (ask(), [B, A], "a#p"),
    "what was claimed is not free any more": (ask(), [pool("a#p", claimed=40), pool("b#p", free=61)], "b#p"),
    "a pool of endless size": (ask(), [A, pool("b#p", None, float("inf"))], "b#p"),
    "a known size before an unknown one": (ask(), [pool("a#p", None, None), pool("b#p", free=20)], "b#p"),
    "an unknown size when there is no other": (ask(), [pool("a#p", None, None)], "a#p"),
    "the zone that is asked for": (ask(availability_zone="east"), [A, pool("b#p", free=20, zone="east")], "b#p"),
    "a zone of the share type": (
        ask(specs={"availability_zones": "west, east"}),
        [A, pool("b#p", free=20, zone="east")],
        "b#p",
    ),
    "the back end that the type names": (
        ask(specs={"share_backend_name": "SLOW"}),
        [A, pool("b#p", free=20, share_backend_name="SLOW")],
        "b#p",
    ),
    "the pool that the type names": (ask(specs={"pool_name": "q"}), [A, pool("a#q", free=20)], "a#q"),
    "a capability under its scope": (
        ask(specs={"capabilities:dedupe": "<is> True"}),
        [A, pool("b#p", free=20, dedupe=[True, False])],
        "b#p",
    ),
    "a spec of another scope is nothing to the scheduler": (ask(specs={"vendor:tier": "gold"}), [A], "a#p"),
    "a back end that serves the protocol": (
        ask(proto="CIFS"),
        [pool("a#p", storage_protocol="NFS"), pool("b#p", free=20)],
        "b#p",
    ),
    "the only host that is asked for": (ask(only_host="here@b#p"), [A, pool("b#p", free=20)], "b#p"),
    "the only host even when it is disabled": (ask(only_host="here@b#p"), [A, pool("b#p", state="disabled")], "b#p"),
    "a pool whose worker restarts when no other will do": (
        ask(),
        [pool("a#p", free=1), pool("b#p", state="back soon")],
        "b#p",
    ),
    "one that is up before one whose worker restarts": (
        ask(),
        [pool("a#p", state="back soon"), pool("b#p", free=20)],
        "b#p",
    ),
    "the host of the share to be near": (ask(same_hosts=["here@b#p"]), [A, pool("b#p", free=20)], "b#p"),
    "another host than the share to be far from": (ask(different_hosts=["here@a#p"]), [A, pool("b#p", free=20)], "b#p"),
    "a thin pool beyond its free room": (
        ask(150),
        [pool("a#p", free=80), pool("b#p", free=80, thin_provisioning=True)],
        "b#p",
    ),
    "a thin pool by what is promised, not by what is free": (
        ask(specs={"thin_provisioning": "True"}),
        [
            pool("a#p", free=90, provisioned=150, thin_provisioning=True),
            pool("b#p", free=60, provisioned=70, thin_provisioning=True),
        ],
        "b#p",
    ),
    "the back end's own word": (
        ask(),
        [A, pool("b#p", goodness_function="capabilities.free_capacity_gb > 50 ? 100 : 0")],
        "b#p",
    ),
    "a back end whose rule accepts the share": (
        ask(20),
        [pool("a#p", filter_function="share.size < 20"), pool("b#p", free=50, filter_function="share.size >= 20")],
        "b#p",
    ),
    "the back end of the snapshot": (
        ask(kind="from_snapshot", snapshot_host="here@b#p"),
        [A, pool("b#p", free=20), pool("b#q", free=10)],
        "b#p",
    ),
    "the snapshot's replication domain when its back end is full": (
        ask(kind="from_snapshot", snapshot_host="here@b#p"),
        [A, pool("b#p", free=1, replication_domain="D"), pool("c#p", free=20, replication_domain="D")],
        "c#p",
    ),
    "a back end whose share servers can be on several subnets": (
        ask(subnets={"nova": 2}),
        [A, pool("b#p", free=20, share_server_multiple_subnet_support=True)],
        "b#p",
    ),
    "a zone's own subnets win over those of all zones": (ask(subnets={"nova": 1, None: 2}), [A], "a#p"),
    "a zone in which the share network has a subnet": (
        ask(subnets={"east": 1}),
        [A, pool("b#p", free=20, zone="east")],
        "b#p",
    ),
    "another back end of the domain for a replica": (
        ask(active_replica_host="here@a#p", replica_hosts=["here@a#p"]),
        [
            pool("a#p", replication_domain="D"),
            pool("b#p", free=20, replication_domain="D"),
            pool("c#p", replication_domain="E"),
        ],
        "b#p",
    ),
}


@pytest.mark.parametrize(("request_", "pools", "wanted"), CHOSEN.values(), ids=CHOSEN)
def test_the_pool_that_is_chosen(request_, pools, wanted):
    placement = choose.place(request_, pools)
    assert placement.pool is not None, [str(one) for one in placement.refusals]
    assert placement.pool.host == f"here@{wanted}"
    assert placement.candidates[0].claim.size_gib == request_.size_gib


REFUSED = {
    "no pool was ever reported": (ask(), [], Detail.NOT_READY, []),
    "all are down or disabled": (
        ask(),
        [pool("a#p", state="down"), pool("b#p", state="disabled")],
        Detail.NO_VALID_HOST,
        ["here@a#p: service: here@a is down", "here@b#p: service: here@b is disabled"],
    ),
    "an only host that is down": (
        ask(only_host="here@a#p"),
        [pool("a#p", state="down"), B],
        Detail.NO_VALID_HOST,
        ["here@a#p: service: here@a is down", "here@b#p: OnlyHostFilter: only here@a#p is asked for"],
    ),
    "no zone fits": (
        ask(availability_zone="east"),
        [A],
        Detail.FILTER_AVAILABILITY,
        ["here@a#p: AvailabilityZoneFilter: it is in zone nova, zone east is asked for"],
    ),
    "the type is bound to other zones": (
        ask(specs={"availability_zones": "x,y"}),
        [A],
        Detail.FILTER_AVAILABILITY,
        ["here@a#p: AvailabilityZoneFilter: it is in zone nova, the share type is bound to x, y"],
    ),
    "no share server can be on all subnets of the share network": (
        ask(subnets={None: 2}),
        [A],
        Detail.FILTER_AVAILABILITY,
        ["here@a#p: AvailabilityZoneFilter: the share network has 2 subnets there, its share servers reach one only"],
    ),
    "the share network has no subnet there": (
        ask(subnets={"east": 1}),
        [A],
        Detail.FILTER_AVAILABILITY,
        ["here@a#p: AvailabilityZoneFilter: it is in zone nova, where the share network has no subnet"],
    ),
    "none has room": (
        ask(95),
        [pool("a#p", reserved_percentage=10), pool("b#p", free=94.5, claimed=4)],
        Detail.FILTER_CAPACITY,
        [
            "here@a#p: CapacityFilter: 95 GiB are asked for, 90 GiB are free beside the reserve of 10 GiB",
            "here@b#p: CapacityFilter: 95 GiB are asked for, 90.5 GiB are free beside the reserve of 0 GiB",
        ],
    ),
    "too much is promised of a thin pool": (
        ask(20),
        [pool("a#p", provisioned=185, thin_provisioning=True)],
        Detail.FILTER_CAPACITY,
        ["here@a#p: CapacityFilter: 20 GiB are asked for, 185 of 200 GiB are promised at a ratio of 2"],
    ),
    "a thin pool is full": (
        ask(20),
        [pool("a#p", free=14, reserved_percentage=5, thin_provisioning=True)],
        Detail.FILTER_CAPACITY,
        ["here@a#p: CapacityFilter: 20 GiB are asked for, 9 GiB are free beside the reserve at a ratio of 2"],
    ),
    "a reserve of a pool without a size": (
        ask(),
        [pool("a#p", None, 50, reserved_percentage=5)],
        Detail.FILTER_CAPACITY,
        ["here@a#p: CapacityFilter: its size is not known, so the reserve cannot be kept"],
    ),
    "the last filter that left nothing names the message": (
        ask(50, specs={"dedupe": "True"}),
        [pool("a#p", free=20, dedupe=True), B],
        Detail.FILTER_CAPABILITIES,
        [
            "here@a#p: CapacityFilter: 50 GiB are asked for, 20 GiB are free beside the reserve of 0 GiB",
            "here@b#p: CapabilitiesFilter: dedupe 'True' is asked for, the pool does not report it",
        ],
    ),
    "another back end is asked for": (
        ask(specs={"share_backend_name": "nosuch"}),
        [A],
        Detail.FILTER_CAPABILITIES,
        ["here@a#p: CapabilitiesFilter: share_backend_name 'nosuch' is asked for, the pool reports 'FAST'"],
    ),
    "the protocol is not served": (
        ask(proto="CEPHFS"),
        [A],
        Detail.FILTER_CAPABILITIES,
        ["here@a#p: CapabilitiesFilter: storage_protocol '<in> CEPHFS' is asked for, the pool reports 'NFS_CIFS'"],
    ),
    "the back end's own rule": (
        ask(),
        [pool("a#p", filter_function="share.size < 5")],
        Detail.FILTER_DRIVER,
        ["here@a#p: DriverFilter: filter_function 'share.size < 5' is not true"],
    ),
    "a rule of the back end that cannot be read": (
        ask(),
        [pool("a#p", filter_function="stats.nosuch > 5")],
        Detail.FILTER_DRIVER,
        ["here@a#p: DriverFilter: filter_function 'stats.nosuch > 5' has no value: stats.nosuch is not known here"],
    ),
    "no other back end in the replication domain": (
        ask(active_replica_host="here@a#p", replica_hosts=["here@a#p"]),
        [pool("a#p", replication_domain="D"), B],
        Detail.FILTER_REPLICATION,
        [
            "here@a#p: ShareReplicationFilter: it holds a replica of the share already",
            "here@b#p: ShareReplicationFilter: it is not in the replication domain 'D' of the active replica",
        ],
    ),
    "the snapshot cannot be read there": (
        ask(kind="from_snapshot", snapshot_host="here@z#p"),
        [A],
        Detail.FILTER_CREATE_FROM_SNAPSHOT,
        ["here@a#p: CreateFromSnapshotFilter: the snapshot lies on here@z#p and can be read there only"],
    ),
    "the share to be near is elsewhere": (
        ask(same_hosts=["here@z#p"]),
        [A],
        Detail.NO_VALID_HOST,
        ["here@a#p: AffinityFilter: a share it must be with lies on here@z#p"],
    ),
    "the share to be far from is there": (
        ask(different_hosts=["here@a#p"]),
        [A],
        Detail.NO_VALID_HOST,
        ["here@a#p: AntiAffinityFilter: it holds a share that must be elsewhere"],
    ),
}


@pytest.mark.parametrize(("request_", "pools", "detail", "reasons"), REFUSED.values(), ids=REFUSED)
def test_the_reason_when_there_is_none(request_, pools, detail, reasons):
    placement = choose.place(request_, pools)
    assert placement.pool is None
    assert placement.refusal.detail == detail
    assert [str(refusal) for refusal in placement.refusals] == reasons


@pytest.mark.parametrize("row", REFUSED.values(), ids=REFUSED)
def test_what_the_user_is_told_names_no_host(row):
    assert "here" not in choose.place(row[0], row[1]).refusal.text


@pytest.mark.parametrize(("kind", "fits"), [("create", 90), ("from_snapshot", 80), ("extend", 100)], ids=str)
def test_each_kind_of_request_has_its_own_reserve(kind, fits):
    one = pool("a#p", reserved_percentage=10, reserved_snapshot_percentage=20, reserved_share_extend_percentage=1)
    one = msgspec.structs.replace(one, total_gib=100.0, free_gib=101.0 if kind == "extend" else 100.0)
    assert choose.place(ask(fits, kind=kind), [one]).pool is one
    assert choose.place(ask(fits + 1, kind=kind), [one]).pool is None


def test_a_reserve_that_is_not_set_is_that_of_plain_creates():
    one = pool("a#p", reserved_percentage=10)
    assert choose.place(ask(91, kind="extend"), [one]).pool is None


def test_an_extension_is_refused_where_the_share_lies_when_there_is_no_room():
    assert choose.fits(ask(50, kind="extend", specs={"dedupe": "True"}), pool("a#p", state="disabled")) is None
    assert choose.fits(ask(101, kind="extend"), A).filter == "CapacityFilter"


def test_a_negative_multiplier_fills_one_pool_after_the_other():
    loaded = settings.Settings(capacity_weight_multiplier=-1.0)
    pools = [pool("a#p", free=50), pool("b#p", free=60)]
    assert choose.place(ask(), pools, choose.rules_of(loaded)).pool is pools[0]


def test_filters_that_are_not_configured_do_not_count():
    loaded = settings.Settings(scheduler_default_filters=("CapacityFilter",))
    assert choose.place(ask(specs={"dedupe": "True"}), [A], choose.rules_of(loaded)).pool is A


def test_pools_that_were_tried_can_be_left_out():
    rules = choose.Rules(names=(*filters.DEFAULT, "IgnoreAttemptedHostsFilter"))
    assert choose.place(ask(attempted_hosts=["here@a#p"]), [A], rules).refusal.detail == Detail.FILTER_ATTEMPTED


def test_the_settings_know_all_filters_and_weighers_and_have_the_defaults_of_the_scheduler():
    assert choose.rules_of(settings.Settings()) == choose.DEFAULT_RULES
    assert set(settings.tree.typing.get_args(settings.tree.Filter)) == set(filters.FILTERS)


names = st.sampled_from(["a#p", "a#q", "b#p", "c#p"])
sizes = st.one_of(st.none(), st.just(float("inf")), st.floats(0, 200))
yes_or_no = st.sampled_from([True, False, [True, False]])
some_pools = st.lists(
    st.builds(
        pool,
        names,
        sizes,
        sizes,
        zone=st.sampled_from(["nova", "east"]),
        state=st.sampled_from(["", "", "", "down", "disabled", "back soon"]),
        claimed=st.integers(0, 50),
        provisioned=st.integers(0, 300),
        thin_provisioning=yes_or_no,
        snapshot_support=yes_or_no,
        reserved_percentage=st.sampled_from([0, 5, 50]),
        replication_domain=st.sampled_from([None, "D"]),
        filter_function=st.sampled_from([None, "share.size < 20", "broken("]),
        goodness_function=st.sampled_from([None, "share.size", "50"]),
    ),
    max_size=6,
    unique_by=lambda one: one.host,
)
hosts = names.map(lambda name: f"here@{name}")
some_requests = st.builds(
    ask,
    st.integers(1, 150),
    st.dictionaries(
        st.sampled_from(["snapshot_support", "thin_provisioning", "availability_zones"]),
        st.sampled_from(["True", "False", "east"]),
    ),
    kind=st.sampled_from(["create", "from_snapshot", "extend"]),
    availability_zone=st.sampled_from([None, "nova", "east"]),
    only_host=st.one_of(st.none(), hosts),
    same_hosts=st.lists(hosts, max_size=1),
    different_hosts=st.lists(hosts, max_size=2),
    snapshot_host=st.one_of(st.none(), hosts),
)


@given(some_requests, some_pools)
def test_no_pool_is_chosen_that_a_filter_refuses(request_, pools):
    placement = choose.place(request_, pools)
    around = choose.surroundings(request_, pools)
    for candidate in placement.candidates:
        assert candidate.pool.is_up or candidate.pool.is_back_soon
        for name in choose.DEFAULT_RULES.filters_for(request_):
            assert filters.FILTERS[name].refuses(request_, candidate.pool, around) is None
    assert {one.pool.host for one in placement.candidates} | {one.host for one in placement.refusals} == {
        one.host for one in pools
    }
    assert (placement.pool is None) == (placement.refusal is not None)


@given(some_requests, some_pools, st.randoms())
def test_the_order_in_which_pools_are_read_does_not_matter(request_, pools, random):
    mixed = list(pools)
    random.shuffle(mixed)
    assert choose.place(request_, mixed) == choose.place(request_, pools)
