# SPDX-License-Identifier: Apache-2.0
"""Whom a rule lets in has one form, however a user wrote it."""

import pytest

from abaca import errors
from abaca.domain.shares import access_rules

SAME = (
    ("ip", "10.44.0.7", "10.44.0.7"),
    ("ip", "10.44.0.7/32", "10.44.0.7"),
    ("ip", "10.44.0.7/255.255.255.255", "10.44.0.7"),
    ("ip", "10.44.0.7/0.0.0.0", None),
    ("ip", "10.44.0.0/16", "10.44.0.0/16"),
    ("ip", "10.44.0.0/255.255.0.0", "10.44.0.0/16"),
    ("ip", "10.44.0.0/0.0.255.255", "10.44.0.0/16"),
    ("ip", "0.0.0.0/0", "0.0.0.0/0"),
    ("ip", "2001:DB8::7", "2001:db8::7"),
    ("ip", "2001:db8:0:0::7/128", "2001:db8::7"),
    ("ip", "2001:DB8::/32", "2001:db8::/32"),
    ("ip", "::/0", "::/0"),
    ("ip", "::ffff:1.2.3.4", "1.2.3.4"),
    ("ip", "::FFFF:102:304/128", "1.2.3.4"),
    ("ip", "::ffff:10.0.0.0/104", "10.0.0.0/8"),
    ("ip", "::ffff:0:0/96", "0.0.0.0/0"),
    # wider than what stands for IPv4
    ("ip", "::ffff:0:0/95", None),
    ("ip", "::fffe:0:0/95", "::fffe:0:0/95"),
    ("ip", "10.44.0.7/" + "0" * 250 + "32", None),
    ("ip", "10.44.0.7/16", None),
    ("ip", "fe80::1%eth0", None),
    ("user", "Miller", "Miller"),
    ("user", "x" * 256, None),
    ("cert", " alice ", "alice"),
    ("cert", " " * 250 + "alice", "alice"),
    ("cert", " " * 251 + "alice", None),
    ("cert", "alice\n", None),
    ("cephx", "alice", "alice"),
)


@pytest.mark.parametrize(("kind", "written", "client"), SAME, ids=[f"{kind} {to[:24]}" for kind, to, _ in SAME])
def test_a_client_is_one_however_it_is_written(kind, written, client):
    if client is None:
        with pytest.raises(errors.Invalid):
            access_rules.client_of(kind, written)
    else:
        assert access_rules.client_of(kind, written) == client
        assert access_rules.client_of(kind, client) == client
