# SPDX-License-Identifier: Apache-2.0
"""Subnets that operators declare: what may be given out, and each mistake with its mend."""

import ipaddress

import pytest

from abaca import app, errors, settings

TENANTS = "[networks]\nsubnets = tenants\n[subnet_tenants]\nnetwork_id = net-1\nsubnet_id = sub-1\n"
BOTH = "[networks]\nsubnets = a, b\n[subnet_a]\n{a}\n[subnet_b]\n{b}\n"


@pytest.fixture
def checked(tmp_path):
    """The settings that a file gives, refused as at a start."""

    def checked(text):
        file = tmp_path / "abaca.conf"
        file.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n{text}")
        read = settings.read([file], environ={}).settings
        app.check(read)
        return read

    return checked


def spans(read):
    """What the first declared subnet gives out, as text."""
    (subnet, *_) = read.declared_subnets
    of = type(subnet.network.network_address)
    return [f"{of(first)}-{of(last)}" for first, last in subnet.spans]


@pytest.mark.parametrize(
    ("said", "given_out"),
    [
        ("cidr = 10.0.0.0/24", ["10.0.0.1-10.0.0.254"]),
        ("cidr = 10.0.0.0/24\ngateway = 10.0.0.1", ["10.0.0.2-10.0.0.254"]),
        ("cidr = 10.0.0.0/24\ngateway = 10.0.0.9", ["10.0.0.1-10.0.0.8", "10.0.0.10-10.0.0.254"]),
        ("cidr = 10.0.0.0/31", ["10.0.0.0-10.0.0.1"]),
        (
            "cidr = 10.0.0.0/24\nranges = 10.0.0.250-10.0.0.255, 10.0.0.7",
            ["10.0.0.7-10.0.0.7", "10.0.0.250-10.0.0.254"],
        ),
        ("cidr = fd00::/126", ["fd00::1-fd00::3"]),
        ("cidr = fd00::/64\ngateway = fd00::1", ["fd00::2-fd00::ffff:ffff:ffff:ffff"]),
    ],
)
def test_networks_own_addresses_and_routers_are_never_given_out(checked, said, given_out):
    assert spans(checked(TENANTS + said)) == given_out


def test_a_declared_subnet_says_all_that_a_network_has(checked):
    (subnet,) = checked(
        TENANTS + "cidr = fd20::/64\nmtu = 1450\nnetwork_type = vlan\nsegmentation_id = 7\navailability_zone = east"
    ).declared_subnets
    assert (subnet.name, subnet.key, subnet.ip_version) == ("tenants", "net-1", 6)
    assert subnet.network == ipaddress.ip_network("fd20::/64")
    assert (subnet.mtu, subnet.network_type, subnet.segmentation_id) == (1450, "vlan", 7)
    assert (subnet.availability_zone, subnet.is_default) == ("east", False)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("[networks]\nsubnets = lost", "The subnet lost is named in [networks] but has no section. Add [subnet_lost]"),
        ("[networks]\nsubnets = a, a\n[subnet_a]\ncidr = 10.0.0.0/24", "subnets in [networks] names one twice"),
        ("[subnet_a]\ncidr = 10.0.0.0/24", "Take it out, or add its name to subnets in [networks]"),
        (TENANTS, "[subnet_tenants] does not set cidr. Add `cidr = ...`"),
        (TENANTS + "cidr = 10.0.0.1/24", "its cidr is none: 10.0.0.1/24 has host bits set. Write one such as"),
        (TENANTS + "cidr = 10.0.0.0/24\ncidrs = x", "unknown option cidrs in [subnet_tenants]. Did you mean cidr?"),
        (TENANTS + "cidr = 10.0.0.0/24\nranges = 10.0.1.1", "10.0.1.1 is not within 10.0.0.0/24. Write them as"),
        (TENANTS + "cidr = 10.0.0.0/24\nranges = fd00::1", "fd00::1 is not within 10.0.0.0/24"),
        (TENANTS + "cidr = 10.0.0.0/24\nranges = 10.0.0.9-10.0.0.1", "10.0.0.9-10.0.0.1 ends before it begins"),
        (TENANTS + "cidr = 10.0.0.0/24\nranges = 10.0.0.1-10.0.0.9, 10.0.0.9", "two of its ranges overlap"),
        (TENANTS + "cidr = 10.0.0.0/24\nranges = some", "its ranges are wrong: 'some' does not appear to be"),
        (TENANTS + "cidr = 10.0.0.0/24\nranges = 10.0.0.255", "it has no address to give out. Widen ranges or cidr"),
        (
            TENANTS + "cidr = 10.0.0.0/24\ngateway = 10.0.1.1",
            "gateway = 10.0.1.1 is no address of a host in 10.0.0.0/24",
        ),
        (TENANTS + "cidr = 10.0.0.0/24\ngateway = 10.0.0.255", "gateway = 10.0.0.255 is no address of a host"),
        (TENANTS + "cidr = 10.0.0.0/24\ngateway = router", "its gateway is none"),
        (TENANTS + "cidr = fd00::/64\nmtu = 1000", "IPv6 does not work with mtu = 1000. Set it to 1280 or more"),
        (TENANTS + "cidr = 10.0.0.0/24\nsegmentation_id = 5", "of no use with network_type = flat. Take it out"),
        (TENANTS + "cidr = 10.0.0.0/24\nnetwork_type = vlan", "Set it to a number from 1 to 4094"),
        (TENANTS + "cidr = 10.0.0.0/24\nnetwork_type = vxlan\nsegmentation_id = 16777216", "from 1 to 16777215"),
        (TENANTS + "cidr = 10.0.0.0/24\nnetwork_type = token-ring", "Choose one of flat, vlan"),
        (
            "[networks]\nsubnets = a\n[subnet_a]\ncidr = 10.0.0.0/24\nsubnet_id = x",
            "it has one of network_id and subnet_id without the other. Set both, or neither",
        ),
        (
            "[networks]\nsubnets = a\n[subnet_a]\ncidr = 10.0.0.0/24",
            "nobody could ask for it. Set network_id and subnet_id, or is_default = true",
        ),
        (
            BOTH.format(a="cidr = 10.0.0.0/24\nis_default = yes", b="cidr = 10.0.1.0/24\nis_default = yes"),
            "[subnet_a] and [subnet_b] are both the default of all zones. Take is_default from one",
        ),
        (
            BOTH.format(
                a="cidr = 10.0.0.0/24\nnetwork_id = n\nsubnet_id = s",
                b="cidr = 10.0.1.0/24\nnetwork_id = n\nsubnet_id = s",
            ),
            "[subnet_a] and [subnet_b] have the same network_id and subnet_id. Rename one",
        ),
        (
            BOTH.format(
                a="cidr = 10.0.0.0/16\nnetwork_id = n\nsubnet_id = s",
                b="cidr = 10.0.1.0/24\nnetwork_id = n2\nsubnet_id = s2",
            ),
            "[subnet_a] and [subnet_b] have overlapping addresses on the same segment. Change cidr of one",
        ),
        (
            "[networks]\nip_versions = 6\nsubnets = a\n[subnet_a]\ncidr = 10.0.0.0/24\nis_default = yes",
            "[subnet_a] has addresses of IPv4, which ip_versions leaves out. Add 4 to ip_versions in [networks]",
        ),
        ("[networks]\nip_versions = 5", "ip_versions in [networks] cannot be '5'"),
        ("[networks]\nip_versions =", "ip_versions in [networks] cannot be ''"),
        ("[networks]\nplugin = quantum", "Choose one of standalone, neutron"),
        ("[networks]\nplugin = neutron", "plugin = neutron needs neutron_deployment. Set it to a name that no other"),
    ],
)
def test_each_mistake_is_told_with_its_mend(checked, said, told):
    with pytest.raises(errors.ConfigError) as caught:
        checked(said)
    assert told in caught.value.message


def test_tenants_may_have_the_same_addresses_on_segments_of_their_own(checked):
    one, other = checked(
        BOTH.format(
            a="cidr = 10.0.0.0/24\nnetwork_id = n\nsubnet_id = s\nnetwork_type = vlan\nsegmentation_id = 7",
            b="cidr = 10.0.0.0/24\nnetwork_id = n2\nsubnet_id = s\nnetwork_type = vlan\nsegmentation_id = 8",
        )
    ).declared_subnets
    assert (one.key, other.key) == ("n", "n2")
