# SPDX-License-Identifier: Apache-2.0
"""Rules become an ordered list whose first match is the longest prefix, and blocks that NFS-Ganesha reads."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abaca.drivers import contract
from abaca.drivers.exports import blocks, clients
from abaca.drivers.exports.blocks import ExportBlock, GlusterVolume
from tests.drivers.harness import rules

# Few bits, so that networks overlap often; every prefix length occurs.
IPV4 = st.integers(0, 7).flatmap(
    lambda low: st.sampled_from([0, 1, 8, 24, 28, 29, 30, 31, 32]).map(
        lambda prefix: str(ipaddress.ip_network(((10 << 24) + low, prefix), strict=False))
    )
)
IPV6 = st.integers(0, 7).flatmap(
    lambda low: st.sampled_from([0, 1, 8, 64, 99, 120, 125, 126, 127, 128]).map(
        lambda prefix: str(ipaddress.IPv6Network(((0xFD77 << 112) + low, prefix), strict=False))
    )
)
LEVEL = st.sampled_from(["rw", "ro"])
RULES = st.lists(st.tuples(st.one_of(IPV4, IPV6), LEVEL).map(" ".join), max_size=12).map(lambda words: rules(*words))
ADDRESS = st.one_of(
    st.integers(0, 9).map(lambda low: str(ipaddress.IPv4Address((10 << 24) + low))),
    st.integers(0, 9).map(lambda low: str(ipaddress.IPv6Address((0xFD77 << 112) + low))),
    st.sampled_from(["192.0.2.1", "2001:db8::1"]),
)


def longest_prefix(wanted, address):
    """What the rules mean: the narrowest network decides, and of two rules for the same the wider right."""
    address = ipaddress.ip_address(address)
    fitting = [rule for rule in wanted if address in ipaddress.ip_network(rule.to)]
    narrowest = max((ipaddress.ip_network(rule.to).prefixlen for rule in fitting), default=None)
    levels = {rule.level for rule in fitting if ipaddress.ip_network(rule.to).prefixlen == narrowest}
    return max(levels, default=None)


def first_match(block, address):
    """What NFS-Ganesha does with the text: the first client that holds the address decides."""
    address, level, found = ipaddress.ip_address(address), None, None
    text = blocks.render(block)
    for chunk in text.split("CLIENT {")[1:]:
        words, _, rest = chunk.partition("Clients = ")[2].partition(";")
        level = rest.partition("Access_Type = ")[2].partition(";")[0].lower()
        networks = (ipaddress.ip_network(word.strip()) for word in words.split(","))
        if found is None and any(address in network for network in networks):
            found = level
    return found


def exported(ordered):
    return ExportBlock(name="shares/a", export_id=1, path="/s/shares/a", pseudo="/shares/a", clients=tuple(ordered))


@given(RULES, ADDRESS)
def test_the_first_match_in_the_block_is_the_longest_prefix(wanted, address):
    ordered, refused = clients.from_rules(wanted)
    assert refused == {}
    assert clients.matching(ordered, address) == longest_prefix(wanted, address)
    assert first_match(exported(ordered), address) == longest_prefix(wanted, address)


@given(RULES)
def test_the_order_in_which_rules_came_changes_nothing(wanted):
    assert clients.from_rules(wanted) == clients.from_rules(wanted[::-1])


@given(RULES)
def test_what_was_written_is_read_back(wanted):
    block = exported(clients.from_rules(wanted)[0])
    assert blocks.parse(blocks.render(block), block.export_id) == block


@given(RULES)
def test_no_word_is_one_that_the_parser_drops(wanted):
    words = [clients.word(form) for network, _ in clients.from_rules(wanted)[0] for form in clients.forms(network)]
    assert all(0 < int(word.partition("/")[2] or 32) < 100 for word in words)


@pytest.mark.parametrize(
    ("to", "meant"),
    [
        ("::ffff:10.0.0.1", "10.0.0.1/32"),
        ("::ffff:10.0.0.0/120", "10.0.0.0/24"),
        ("10.0.0.77/24", "10.0.0.0/24"),
        ("FD77::1", "fd77::1/128"),
    ],
)
def test_an_address_is_taken_as_what_it_means(to, meant):
    ordered, refused = clients.from_rules(rules(f"{to} rw"))
    assert ([network for network, _ in ordered], refused) == ([meant], {})


@pytest.mark.parametrize("to", ["10.0.0.256", "host.example.org", "fe80::1%eth0", "fd77::/112", "*", ""])
def test_what_the_server_cannot_hold_is_an_error_with_a_reason(to):
    rule = contract.AccessRule(id="r", type="ip", to=to)
    ordered, refused = clients.from_rules([rule])
    assert (ordered, refused["r"].state, bool(refused["r"].reason)) == ([], "error", True)


BLOCKS = {
    "nobody": [],
    "single_addresses_before_networks": ["10.0.0.0/8 rw", "10.1.0.0/16 ro", "10.1.2.3 rw", "10.1.2.4 ro"],
    "everybody": ["0.0.0.0/0 ro", "::/0 ro", "10.0.0.1 rw"],
    "ipv6": ["fd77::/64 rw", "fd77::5 ro", "fd77::8/126 rw"],
}


@pytest.mark.parametrize("name", BLOCKS)
def test_the_export_block_is_as_agreed(name, golden):
    golden(f"tests/golden/ganesha/{name}.conf", blocks.render(exported(clients.from_rules(rules(*BLOCKS[name]))[0])))


def of_volume(**more):
    """An export of a volume of GlusterFS to one client."""
    (client,) = clients.from_rules(rules("10.0.0.1 ro"))[0]
    volume = GlusterVolume(**{"volume": "abaca_7", "hosts": ("10.9.0.2", "10.9.0.1"), "log": "/s/gfapi.log"} | more)
    values = {"name": "abaca_7", "path": "/volumes/abaca_7", "pseudo": "/abaca_7"}
    return ExportBlock(export_id=7, clients=(client,), volume=volume, **values)


def test_the_export_block_of_a_volume_is_as_agreed_and_read_back(golden):
    text = blocks.render(of_volume())
    golden("tests/golden/ganesha/volume.conf", text)
    assert blocks.parse(text, 7) == of_volume()


@pytest.mark.parametrize("odd", [{"volume": 'a"; }'}, {"hosts": ("a;b",)}, {"log": "/s/a log"}], ids=str)
def test_a_volume_that_would_be_read_otherwise_is_no_export(odd):
    assert blocks.parse(blocks.render(of_volume(**odd)), 7) is None


def test_the_configuration_is_as_agreed(golden, tmp_path):
    text = blocks.configuration(tmp_path, port=2049, grace_s=10, minor_versions=(1, 2))
    golden("tests/golden/ganesha/ganesha.conf", text.replace(str(tmp_path), "/var/lib/abaca/backends/local/ganesha"))
