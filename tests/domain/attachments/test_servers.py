# SPDX-License-Identifier: Apache-2.0
"""What may be said of a server."""

import pytest

from abaca import errors
from abaca.domain.attachments import servers
from tests.compute.harness import host_key


@pytest.mark.parametrize(
    ("said", "kept"),
    [("10.0.0.1", "10.0.0.1"), ("2001:DB8:0::1", "2001:db8::1"), ("::ffff:10.0.0.1", "10.0.0.1")],
)
def test_an_address_is_kept_in_its_shortest_form(said, kept):
    assert servers.check_ip(said) == kept


@pytest.mark.parametrize("said", ["", "10.0.0", "10.0.0.1/24", "224.0.0.1", "0.0.0.0", "fe80::1%eth0", "a\nb", "::"])
def test_what_is_no_address_of_one_machine_is_refused(said):
    with pytest.raises(errors.Invalid):
        servers.check_ip(said)


def test_an_address_is_given_once():
    with pytest.raises(errors.Invalid, match="twice"):
        servers.check_addresses([("10.0.0.1", "a"), ("::ffff:10.0.0.1", "b")])


@pytest.mark.parametrize("said", ["", " web", "web ", "a\nb", "x" * 256, "a\x7f"])
def test_a_name_that_would_mislead_is_refused(said):
    with pytest.raises(errors.Invalid):
        servers.check_name(said)


def test_a_host_key_is_kept_without_its_comment():
    key = host_key()
    assert servers.check_host_key(f"{key} root@web") == key


@pytest.mark.parametrize(
    "change",
    [
        lambda key: "",
        lambda key: key.split()[1],
        lambda key: key.replace("ed25519", "dss"),
        lambda key: key.replace("ssh-ed25519", "ssh-rsa"),
        lambda key: key[:40],
        lambda key: key + "\nssh-rsa AAAA",
        lambda key: "example.org " + key,
        lambda key: key.replace("A", "!"),
    ],
)
def test_what_is_no_host_key_is_refused(change):
    with pytest.raises(errors.Invalid, match="host_key"):
        servers.check_host_key(change(host_key()))


def test_a_key_is_a_file_in_the_directory_of_keys():
    assert servers.check_key("file:/etc/abaca/keys/a/id", "/etc/abaca/keys") == "file:/etc/abaca/keys/a/id"


@pytest.mark.parametrize(
    "said",
    [
        "/etc/abaca/keys/id",
        "file:etc/abaca/keys/id",
        "file:/etc/abaca/keys/../../shadow",
        "file:/etc/abaca/keys",
        "file:/etc/abaca/keys/",
        "file:/etc/abaca/keys-of-others/id",
        "file:/etc/abaca/keys//id",
        "file:/etc/abaca/keys/a b",
        "file:/etc/abaca/keys/$(id)",
        "file:/etc/abaca/keys/id\n",
        "https://example.org/id",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
    ],
)
def test_any_other_key_is_refused(said):
    with pytest.raises(errors.Invalid, match="key"):
        servers.check_key(said, "/etc/abaca/keys")


@pytest.mark.parametrize("said", ["", "-oProxyCommand=x", "ro ot", "root;id", "a" * 33, "root\n"])
def test_a_login_that_is_none_is_refused(said):
    with pytest.raises(errors.Invalid):
        servers.check_ssh_user(said)


@pytest.mark.parametrize("said", ["", "-h", "a b", "a..b", "1.2.3", "x" * 254, "host;id", "host\n"])
def test_a_host_that_is_none_is_refused(said):
    with pytest.raises(errors.Invalid):
        servers.check_ssh_host(said)
