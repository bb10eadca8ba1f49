# SPDX-License-Identifier: Apache-2.0
"""`abaca share-server`: what share servers can, listed and said anew."""

import json

import pytest

from abaca.db.engine.database import Database
from abaca.db.networks import share_network_subnets, share_networks, share_servers
from abaca.domain.networks.share_servers import CAPABILITIES


@pytest.fixture
def servers(abaca, config, tmp_path):
    """The ids of two share servers of a network, which can nothing."""
    abaca("db", "upgrade", "--config-file", config())
    db = Database(f"sqlite:///{tmp_path / 'state' / 'abaca.sqlite'}")
    with db.write() as tx:
        network = share_networks.add(tx, {"project_id": "p", "user_id": None, "name": "fields", "description": None})
        subnet = share_network_subnets.add(tx, network, {})
        values = {"project_id": "p", "share_network_id": network, "host": "there@served"}
        ids = [share_servers.add(tx, {**values, **dict.fromkeys(CAPABILITIES, False)}, [subnet]) for _ in range(2)]
    db.close()
    return ids


def shown(abaca, config):
    rows = json.loads(abaca("share-server", "list", "--config-file", config(), "--json").out)
    return {row["id"]: [row[name] for name in CAPABILITIES] for row in rows}


def test_what_share_servers_can_is_said_anew_for_several_at_once(abaca, config, servers):
    one, other = servers
    said = abaca(
        *("share-server", "update-capabilities", one, other, "--config-file", config(), "--value", "True"),
        *("--capability", CAPABILITIES[0], "--capability", CAPABILITIES[1]),
    )
    assert said.status == 0, said.err
    assert shown(abaca, config) == {one: [True, True, False], other: [True, True, False]}
    said = abaca(
        *("share-server", "update-capabilities", one, "--config-file", config()),
        *("--value", "False", "--capability", CAPABILITIES[1]),
    )
    assert said.out == f"{one}: {CAPABILITIES[1]} is false\n"
    assert shown(abaca, config) == {one: [True, False, False], other: [True, True, False]}
    assert "fields" in abaca("share-server", "list", "--config-file", config()).out


def test_unless_all_are_there_none_is_changed(abaca, config, servers):
    said = abaca(
        *("share-server", "update-capabilities", servers[0], "nosuch", "--config-file", config()),
        *("--value", "True", "--capability", CAPABILITIES[0]),
    )
    assert said.status != 0
    assert "Share server nosuch could not be found" in said.err
    assert shown(abaca, config) == {server: [False, False, False] for server in servers}
