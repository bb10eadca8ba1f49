# SPDX-License-Identifier: Apache-2.0
"""From where a machine mounts: what is on-link before what is preferred, and what is in use before what is as near."""

import pytest

from abaca.domain.attachments.sources import address_of, choose

FAR, NEAR, ALSO_NEAR, SIX = "10.9.0.4:/x", "10.1.0.4:/x", "10.1.0.5:/x", "[fd20::4]:/x"
CIDRS = {"10.9.0.4": "10.9.0.0/24", "10.1.0.4": "10.1.0.0/24", "10.1.0.5": "10.1.0.0/24", "fd20::4": "fd20::/64"}


@pytest.mark.parametrize(
    ("paths", "addresses", "current", "chosen"),
    [
        ([FAR, NEAR], ["10.1.0.9"], None, NEAR),
        ([FAR, NEAR], ["10.1.0.9"], FAR, NEAR),
        ([FAR, NEAR, ALSO_NEAR], ["10.1.0.9"], ALSO_NEAR, ALSO_NEAR),
        ([FAR, SIX], ["10.1.0.9", "fd20::9"], FAR, SIX),
        ([FAR, NEAR], ["192.0.2.9"], NEAR, NEAR),
        ([FAR, NEAR], ["192.0.2.9"], None, FAR),
        ([SIX, FAR], ["10.1.0.9"], None, FAR),
        ([SIX], ["10.1.0.9"], None, SIX),
        (["elsewhere:/x", NEAR], ["10.1.0.9"], None, NEAR),
        ([], ["10.1.0.9"], NEAR, None),
    ],
)
def test_the_nearest_is_chosen(paths, addresses, current, chosen):
    assert choose(paths, CIDRS, addresses, current) == chosen


@pytest.mark.parametrize(
    ("path", "address"), [(NEAR, "10.1.0.4"), (SIX, "fd20::4"), ("host:/x", "host"), ("strange", "")]
)
def test_an_address_is_found_in_each_form_of_a_location(path, address):
    assert address_of(path) == address
