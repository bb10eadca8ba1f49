# SPDX-License-Identifier: Apache-2.0
"""Certificates of machines, for real ones and for those on paper: whose key, who signs, and what is left at the end."""

import datetime

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from abaca.drivers.authority import Authority
from abaca.nodes import contract
from abaca.nodes.contract import Identity
from tests.nodes.machines import wanted

NAME = "abaca-server-1"


@pytest.fixture
def nodes(harness):
    return harness.nodes


@pytest.fixture
def login(harness):
    return harness.login


@pytest.fixture(scope="module")
def authorities(tmp_path_factory):
    """Two of them."""
    made = []
    for name in ("one", "other"):
        place = tmp_path_factory.mktemp(name)
        made.append(Authority(place / "ca.pem", place / "ca.key"))
        made[-1].make()
    return made


def certified(name=NAME, **more):
    """A mount for which there is no certificate yet."""
    return wanted(protocol="CERTIFIED", identity=Identity(name=name), **more)


def with_certificate(mount, authority, request):
    """The same with one that the authority has issued for the request."""
    pem = authority.sign(request, mount.identity.name)
    identity = Identity(name=mount.identity.name, certificate=pem, authority=authority.pem)
    return msgspec.structs.replace(mount, identity=identity)


def key_of(pem):
    """The public key of a request, or of a certificate."""
    load = x509.load_pem_x509_csr if "REQUEST" in pem else x509.load_pem_x509_certificate
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return load(pem.encode()).public_key().public_bytes(serialization.Encoding.PEM, form)


def mount(harness, authority, **more):
    """A mount that is there, by a certificate of the authority."""
    made = certified(**more)
    made = with_certificate(made, authority, harness.nodes.request(harness.login, made))
    harness.nodes.mount(harness.login, made)
    return made


def test_the_key_stays_where_it_was_made_and_asking_again_is_for_the_same(nodes, login):
    asked = certified()
    first, second = nodes.request(login, asked), nodes.request(login, asked)
    assert key_of(first) == key_of(second)
    assert "PRIVATE" not in first
    assert nodes.look(login, asked) is None


def test_what_was_issued_is_there_when_it_is_mounted_and_gone_with_it(harness, nodes, login, authorities):
    there = mount(harness, authorities[0])
    identity = there.identity
    assert nodes.look(login, there).is_persistent
    assert harness.shown() == (NAME, identity.certificate, identity.authority)
    nodes.unmount(login, there)
    nodes.unmount(login, there)
    assert (harness.shown(), harness.paths(), harness.kept()) == (None, [], [])


def test_the_last_mount_that_needs_it_takes_it_away(harness, nodes, login, authorities):
    first, second = mount(harness, authorities[0]), mount(harness, authorities[0])
    assert key_of(first.identity.certificate) == key_of(second.identity.certificate)
    nodes.unmount(login, first)
    assert harness.shown() == (NAME, second.identity.certificate, second.identity.authority)
    nodes.unmount(login, second, force=True)
    assert harness.shown() is None


def test_a_certificate_that_was_issued_anew_comes_to_a_mount_that_is_there(harness, nodes, login, authorities):
    there = mount(harness, authorities[0])
    again = with_certificate(there, authorities[0], nodes.request(login, there))
    assert again.identity.certificate != there.identity.certificate
    assert nodes.mount(login, again) == nodes.look(login, there)
    assert harness.shown()[1] == again.identity.certificate


@pytest.mark.parametrize(("left_days", "ends_soon"), [(-1, True), (29, True), (31, False)])
def test_a_look_tells_of_a_certificate_that_ends_soon_until_there_is_another(
    harness, nodes, login, tmp_path, left_days, ends_soon
):
    authority = Authority(tmp_path / "ca.pem", tmp_path / "ca.key")
    authority.make()
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=100 - left_days)
    there = mount(harness, Authority(tmp_path / "ca.pem", tmp_path / "ca.key", now=lambda: then, days=100))
    assert nodes.look(login, there).needs_certificate is ends_soon
    again = with_certificate(there, authority, nodes.request(login, there))
    nodes.mount(login, again)
    assert nodes.look(login, there).needs_certificate is False


def test_after_a_request_that_came_to_nothing_nothing_is_left(harness, nodes, login):
    asked = certified()
    nodes.request(login, asked)
    nodes.unmount(login, asked)
    assert harness.shown() is None


def test_what_was_given_up_on_a_machine_is_cleared_with_its_certificate(harness, nodes, login, authorities):
    there = mount(harness, authorities[0])
    nodes.clear(login, msgspec.structs.replace(there, identity=None))
    assert (harness.shown(), nodes.look(login, there)) == (None, None)


def test_without_a_certificate_nothing_is_mounted(harness, nodes, login):
    asked = certified()
    nodes.request(login, asked)
    with pytest.raises(contract.MountRefused, match="no certificate"):
        nodes.mount(login, asked)
    assert harness.paths() == []


def test_somebody_elses_certificate_is_left_alone(harness, nodes, login):
    harness.put("/etc/ssl/glusterfs.pem", "file")
    with pytest.raises(contract.MountRefused, match=r"glusterfs\.pem is there already"):
        nodes.request(login, certified())
    assert harness.shown() is None


def test_a_machine_has_one_authority_for_all_that_it_has_mounted(harness, nodes, login, authorities):
    first = mount(harness, authorities[0])
    second = certified()
    second = with_certificate(second, authorities[1], nodes.request(login, second))
    with pytest.raises(contract.MountRefused, match="another certificate authority"):
        nodes.mount(login, second)
    assert harness.shown()[1] == first.identity.certificate
    nodes.unmount(login, second)
    nodes.unmount(login, first)
    assert nodes.request(login, second)
    nodes.unmount(login, second)
    assert mount(harness, authorities[1])


def test_a_machine_has_one_name(harness, nodes, login, authorities):
    there = mount(harness, authorities[0])
    with pytest.raises(contract.MountRefused, match=f"known as {NAME}"):
        nodes.request(login, certified("abaca-server-2"))
    nodes.unmount(login, there)
    assert nodes.request(login, certified("abaca-server-2"))


def test_whoever_takes_a_mount_over_has_it_under_another_name(harness, nodes, login, authorities):
    there = mount(harness, authorities[0])
    heir = certified("abaca-server-2", mount_point=there.mount_point, source=there.source, former=there.name)
    heir = with_certificate(heir, authorities[0], nodes.request(login, heir))
    nodes.mount(login, heir)
    assert harness.shown() == ("abaca-server-2", heir.identity.certificate, heir.identity.authority)
    nodes.unmount(login, heir)
    assert (harness.shown(), harness.paths(), harness.kept()) == (None, [], [])


@pytest.mark.parametrize("name", ["", "a/CN=b", "two\nlines", "x" * 65])
def test_what_is_no_name_never_comes_to_a_machine(nodes, login, name):
    with pytest.raises(contract.MountRefused, match="no name for a certificate"):
        nodes.request(login, certified(name))
