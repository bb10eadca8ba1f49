# SPDX-License-Identifier: Apache-2.0
"""Extra specs: what may be said, who sees it, and when a capability is what was asked for."""

import pytest

from abaca import errors
from abaca.domain.catalog import extra_specs

SATISFIED = [
    (True, "True"),
    (True, "<is> True"),
    (False, "<is> no"),
    (False, "false"),
    ([True, False], "<is> False"),
    (["NFS", "CIFS"], "NFS"),
    ("NFS_CIFS", "<in> CIFS"),
    ("gold", "gold"),
    ("gold", "<or> silver <or> gold"),
    ("two words", "<or> two words <or> x"),
    ("gold", "s== gold"),
    ("gold", "s!= silver"),
    ("b", "s> a"),
    ("b", "s<= b"),
    (10, "10"),
    (10, "= 9"),
    (10.5, ">= 10"),
    (10, "<= 10"),
    (10, "== 10.0"),
    (10, "!= 11"),
]
UNSATISFIED = [
    (None, "True"),
    (True, "False"),
    (True, "<is> maybe"),
    ([True], "False"),
    ([], "True"),
    ("NFS", "<in> CIFS"),
    ("gold", "Gold"),
    ("gold", "<or> silver <or> tin"),
    ("gold", "<or>"),
    ("gold", ">= 5"),
    ("gold", ">="),
    (10, ">= eleven"),
    (10, "= 11"),
    (10, "!= 10"),
    ("a", "s> b"),
]


@pytest.mark.parametrize(("capability", "wanted"), SATISFIED)
def test_a_capability_satisfies(capability, wanted):
    assert extra_specs.satisfies(capability, wanted)


@pytest.mark.parametrize(("capability", "wanted"), UNSATISFIED)
def test_a_capability_does_not_satisfy(capability, wanted):
    assert not extra_specs.satisfies(capability, wanted)


def test_only_unscoped_specs_and_capabilities_are_for_the_scheduler():
    specs = {"dedupe": "True", "capabilities:qos": "True", "vendor:tier": "1", "availability_zones": "a"}
    assert extra_specs.wanted_capabilities(specs) == {"dedupe": "True", "qos": "True"}


def test_users_see_what_concerns_them():
    specs = {"driver_handles_share_servers": "False", "share_backend_name": "x", "replication_type": "dr"}
    assert extra_specs.visible(specs) == {"driver_handles_share_servers": "False", "replication_type": "dr"}
    assert extra_specs.required(specs) == {"driver_handles_share_servers": "False"}


GOOD = [
    {"driver_handles_share_servers": "yes"},
    {"vendor:a-b.c_d": "x" * 255},
    {"provisioning:min_share_size": "1", "provisioning:max_share_size": "1"},
    {"availability_zones": "a,b"},
]
BAD = [
    [],
    {"two words": "x"},
    {"": "x"},
    {"k" * 256: "x"},
    {"key": ""},
    {"key": "x" * 256},
    {"key": {"nested": 1}},
    {"snapshot_support": "maybe"},
    {"replication_type": "magic"},
    {"encryption_support": "all"},
    {"availability_zones": "a,,b"},
    {"provisioning:max_share_size": "0"},
    {"provisioning:max_share_extend_size": "many"},
    {"provisioning:min_share_size": "5", "provisioning:max_share_size": "4"},
]


@pytest.mark.parametrize("specs", GOOD)
def test_specs_that_can_be_set(specs):
    assert extra_specs.check(specs) == specs


@pytest.mark.parametrize("specs", BAD, ids=str)
def test_specs_that_cannot_be_set(specs):
    with pytest.raises(errors.Invalid):
        extra_specs.check(specs)


def test_a_type_must_say_who_handles_share_servers():
    with pytest.raises(errors.Invalid, match="driver_handles_share_servers"):
        extra_specs.check_required({})
