# SPDX-License-Identifier: Apache-2.0
"""Whoever asks for whatever of share networks in any order, without waiting: each answer is one, and all agrees after.

What is asked draws WALK_SEED; WALK_STEPS is how long a walk is.
"""

import contextlib
import ipaddress
import itertools
import os
import random

import pytest
import sqlalchemy as sa

from abaca.db.tables.networks import (
    network_allocations,
    share_network_subnets,
    share_networks,
    share_server_subnets,
    share_servers,
)
from abaca.db.tables.shares import export_locations, share_instances
from tests.operations import beside, cases
from tests.operations import theatre as stage
from tests.operations.networks.test_share_servers import a_theatre

SEED = os.environ.get("WALK_SEED", "0")
STEPS = int(os.environ.get("WALK_STEPS", "120"))
HOST = "testhost@served"
# Each is met some time; what is ordered to fail does so once.
FAILURES = (
    "max_shares_per_share_server = 2\n"
    "failures = update_server_network:Refused:2,tear_down_server:Refused:2,set_up_server:Full:1:after,"
    "remove_server_network:Refused:1,check_server_network:Refused:1\n"
)
BENEATH = [
    {},
    cases.FIELDS,
    {"neutron_net_id": "hills", "neutron_subnet_id": "green"},
    {"neutron_net_id": "woods", "neutron_subnet_id": "brown"},
    {"neutron_net_id": "nosuch", "neutron_subnet_id": "nosuch"},
    {"neutron_net_id": "half"},
]
ZONES = [*[None] * 12, "nova", "nova", "nosuch"]


class Walk:
    """Who walks, and what they have seen."""

    def __init__(self, theatre, seed):
        self.theatre = theatre
        self.random = random.Random(seed)
        self.asked = []

    def ask(self, method, path, body=None, who="member"):
        answer = self.theatre.world.ask(who, method, path, body, **cases.VERSION)
        self.asked.append((who, method, path, body, answer.status))
        assert answer.status in (200, 202, 204, 400, 403, 404, 409, 503), (self.asked[-1], answer.body)
        if answer.status >= 400:
            (told,) = answer.body.values()
            assert len(told["message"]) > 20, (self.asked[-1], answer.body)
        return answer

    def of(self, table):
        """The ids of all there are, in no order that tells anything."""
        with self.theatre.db.read() as tx:
            return sorted(row.id for row in tx.rows(sa.select(table.c.id)))

    def some(self, found):
        """One of them, or now and then one that is not there."""
        return self.random.choice(found) if found and self.random.random() > 0.02 else "nosuch"

    def network(self):
        return self.some(self.of(share_networks))

    def subnet(self):
        """Of a network, or now and then of another one."""
        with self.theatre.db.read() as tx:
            found = tx.rows(sa.select(share_network_subnets.c.share_network_id, share_network_subnets.c.id))
        network_id, subnet_id = self.random.choice([tuple(row) for row in found] or [("nosuch", "nosuch")])
        return (network_id if self.random.random() > 0.05 else self.network()), subnet_id

    def wanted(self):
        zone = self.random.choice(ZONES)
        return {
            **self.random.choices(BENEATH, [3, 6, 3, 2, 0.3, 0.3])[0],
            **({"availability_zone": zone} if zone else {}),
        }

    def step(self):
        self.random.choices(self.STEPS, [weight for weight, _ in self.WEIGHTED])[0](self)

    def make_network(self):
        if len(self.of(share_networks)) < 4:
            self.ask("POST", "/share-networks", {"share_network": self.wanted()})

    def move_network(self):
        self.ask("PUT", f"/share-networks/{self.network()}", {"share_network": self.wanted()})

    def delete_network(self):
        self.ask("DELETE", f"/share-networks/{self.network()}")

    def check(self):
        body = {**self.wanted(), "reset_operation": self.random.random() < 0.2}
        self.ask("POST", f"/share-networks/{self.network()}/action", {"share_network_subnet_create_check": body})

    def add(self):
        self.ask("POST", f"/share-networks/{self.network()}/subnets", {"share-network-subnet": self.wanted()})

    def check_and_add(self):
        """As a patient user does."""
        network_id, wanted = self.network(), self.wanted()
        for _ in range(2):
            self.ask("POST", f"/share-networks/{network_id}/action", {"share_network_subnet_create_check": wanted})
            self.settle()
        self.ask("POST", f"/share-networks/{network_id}/subnets", {"share-network-subnet": wanted})

    def take_away(self):
        network_id, subnet_id = self.subnet()
        self.ask("DELETE", f"/share-networks/{network_id}/subnets/{subnet_id}")

    def own_add(self):
        self.ask("POST", f"//abaca/v1/share-networks/{self.network()}/subnets", {"subnet": self.wanted()})

    def own_plan(self):
        self.ask("POST", f"//abaca/v1/share-networks/{self.network()}/subnets/plan", {"subnet": self.wanted()})

    def own_take_away(self):
        network_id, subnet_id = self.subnet()
        self.ask("GET", f"//abaca/v1/share-networks/{network_id}/subnets/{subnet_id}/removal-plan")
        force = self.random.choice(["", "?force=true"])
        self.ask("DELETE", f"//abaca/v1/share-networks/{network_id}/subnets/{subnet_id}{force}")

    def make_share(self):
        wish = {"share_proto": "NFS", "size": 1, "share_type": "served", "share_network_id": self.network()}
        self.ask("POST", "/shares", {"share": wish})

    def delete_share(self):
        self.ask("DELETE", f"/shares/{self.share()}")

    def release_share(self):
        self.ask("POST", f"/shares/{self.share()}/action", {"unmanage": None}, who="admin")

    def share(self):
        with self.theatre.db.read() as tx:
            return self.some(sorted({row.share_id for row in tx.rows(sa.select(share_instances.c.share_id))}))

    def let_in(self):
        client = self.random.choice(["10.20.0.200", "10.20.0.0/24", "fd20::9", "10.99.0.1"])
        body = {"allow_access": {"access_type": "ip", "access_to": client, "access_level": "rw"}}
        self.ask("POST", f"/shares/{self.share()}/action", body)

    def delete_server(self):
        self.ask("DELETE", f"/share-servers/{self.some(self.of(share_servers))}", who="admin")

    def mend_server(self):
        self.ask("POST", f"//abaca/v1/share-servers/{self.some(self.of(share_servers))}/mend", who="admin")

    def release_server(self):
        body = {"unmanage": {"force": self.random.random() < 0.5}}
        self.ask("POST", f"/share-servers/{self.some(self.of(share_servers))}/action", body, who="admin")

    def take_over_server(self):
        given_up = self.theatre.drivers[1].contents().get("unmanaged_server", {})
        wanted = {"host": HOST, "share_network_id": self.network(), "identifier": self.some(sorted(given_up))}
        self.ask("POST", "/share-servers/manage", {"share_server": wanted}, who="admin")

    def change_directories(self):
        found = self.ask("GET", "/security-services").body["security_services"]
        if len(found) < 3:
            kind = self.random.choice(["ldap", "kerberos"])
            self.ask("POST", "/security-services", {"security_service": {"type": kind}})
            return
        one, other = self.random.choice(found)["id"], self.random.choice(found)["id"]
        alone, both = {"security_service_id": one}, {"current_service_id": one, "new_service_id": other}
        verbs = {
            "add_security_service_check": alone,
            "add_security_service": alone,
            "remove_security_service": alone,
            "update_security_service_check": both,
            "update_security_service": both,
        }
        verb = self.random.choice(sorted(verbs))
        self.ask("POST", f"/share-networks/{self.network()}/action", {verb: verbs[verb]})

    def describe(self):
        network_id, subnet_id = self.subnet()
        body = {"metadata": {"mtu": str(self.random.randrange(1000, 9000))}}
        self.ask("POST", f"/share-networks/{network_id}/subnets/{subnet_id}/metadata", body)

    def settle(self):
        self.theatre.settle()
        found = wrong(self.theatre)
        assert found == [], [*found, *self.asked[-30:]]

    WEIGHTED = (
        (3, make_network),
        (1, move_network),
        (1, delete_network),
        (4, check),
        (4, add),
        (5, check_and_add),
        (4, take_away),
        (4, own_add),
        (2, own_plan),
        (7, own_take_away),
        (6, make_share),
        (4, delete_share),
        (1, release_share),
        (2, let_in),
        (2, delete_server),
        (3, mend_server),
        (1, release_server),
        (2, take_over_server),
        (4, change_directories),
        (1, describe),
        (14, settle),
    )
    STEPS = tuple(step for _, step in WEIGHTED)


def wrong(theatre):
    """What does not agree when nothing is left to do."""
    with theatre.db.read() as tx:
        found = [*stage.stuck(tx), *stage.counted_wrong(tx), *theatre.differences(tx)]
        found += beside.share_servers_wrong(tx, theatre.drivers)
        found += [f"stuck: network {row.id}" for row in tx.rows(sa.select(share_networks)) if row.status != "active"]
        serving = {row.id: row for row in tx.rows(sa.select(share_servers)) if row.status == "active"}
        its = {one: [] for one in serving}
        for row in tx.rows(sa.select(network_allocations)):
            its.get(row.share_server_id, []).append(row)
        on = {one: set() for one in serving}
        for row in tx.rows(sa.select(share_server_subnets)):
            on.get(row.share_server_id, set()).add(row.share_network_subnet_id)
        for one, rows in its.items():
            if on[one] != {row.share_network_subnet_id for row in rows}:
                found.append(f"share server {one} is on {on[one]}, and has addresses {rows}")
            for left, right in itertools.combinations(rows, 2):
                overlaps = ipaddress.ip_network(left.cidr).overlaps(ipaddress.ip_network(right.cidr))
                if overlaps and left.network != right.network:
                    found.append(f"share server {one} has the same addresses of two networks")
        for row in tx.rows(sa.select(share_instances)):
            if row.status == "available" and row.share_server_id in serving:
                paths = tx.rows(sa.select(export_locations).where(export_locations.c.share_instance_id == row.id))
                at = {one.path.rpartition(":/")[0].strip("[]") for one in paths}
                if at != {one.ip_address for one in its[row.share_server_id]}:
                    found.append(f"share {row.share_id} is at {at}, its server at {its[row.share_server_id]}")
    return found


def clear(walk):
    """All goes, whatever became of it."""
    theatre = walk.theatre
    with theatre.db.read() as tx:
        of_shares = sorted({row.share_id for row in tx.rows(sa.select(share_instances))})
    for share_id in of_shares:
        walk.ask("POST", f"/shares/{share_id}/action", {"force_delete": None}, who="admin")
    theatre.settle()
    for _ in range(3):
        for server_id in walk.of(share_servers):
            walk.ask("DELETE", f"/share-servers/{server_id}", who="admin")
            walk.ask("POST", f"/share-servers/{server_id}/action", {"unmanage": {"force": True}}, who="admin")
        theatre.settle()
    for network_id in walk.of(share_networks):
        its = theatre.ask("GET", f"/share-networks/{network_id}/subnets")["share_network_subnets"]
        for subnet in its[1:]:
            theatre.ask("DELETE", f"/share-networks/{network_id}/subnets/{subnet['id']}")
        theatre.ask("DELETE", f"/share-networks/{network_id}")
    theatre.settle()
    return [*wrong(theatre), *walk.of(share_servers), *theatre.drivers[1].contents().get("server", {})]


@pytest.mark.parametrize("number", range(int(os.environ.get("WALKS", "2"))))
def test_whatever_is_asked_of_share_networks_all_agrees_after(database, tmp_path, number):
    with contextlib.ExitStack() as stack:
        walk = Walk(a_theatre(database, tmp_path, stack, FAILURES), f"{SEED} {number}")
        for _ in range(STEPS):
            walk.step()
        walk.settle()
        assert clear(walk) == [], walk.asked[-60:]
