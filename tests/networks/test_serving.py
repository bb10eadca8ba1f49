# SPDX-License-Identifier: Apache-2.0
"""A share on a network of a real Neutron: its share server has ports there, and leaves none behind."""

import pytest

from lab import caller, runs, service
from tests.conftest import wait_until
from tests.databases import place
from tests.networks.harness import PROJECT, NeutronHarness

pytestmark = [
    pytest.mark.system,
    # the library's, of its own future
    pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]


@pytest.fixture
def harness(request, tmp_path, real_cloud):
    """Networks of the Neutron; the database is that of nobody."""
    database = place("sqlite", tmp_path, request)
    made = NeutronHarness(database, tmp_path, *real_cloud)
    yield made
    made.close()
    database.close()


@pytest.fixture
def admin(harness):
    """An administrator of an Abaca whose back end makes share servers in these networks."""
    with runs.Run() as run:
        directory = run.path("abaca")
        passwords = service.write_users(directory / "users", {"admin": (PROJECT, "admin")})
        sections = {
            "DEFAULT": {
                "auth_strategy": "http_basic",
                "http_basic_auth_user_file": directory / "users",
                "enabled_share_backends": "served",
            },
            "networks": {
                "plugin": "neutron",
                "neutron_clouds_file": harness.clouds,
                "neutron_deployment": harness.options.neutron_deployment,
            },
            "served": {"driver": "dummy", "driver_handles_share_servers": "true"},
        }
        with service.Service(run, sections, directory=directory) as made:
            user = caller.Caller(made.url, caller.basic("admin", passwords["admin"]))
            specs = {"driver_handles_share_servers": "True"}
            user.post("/types", "share_type", name="served", extra_specs=specs)
            yield user
    assert run.leftovers() == []


def share_network(admin, *several):
    """A share network with a subnet for each pair of ids; its id."""
    first, *more = ({"neutron_net_id": ids[0], "neutron_subnet_id": ids[1]} for ids in several)
    network_id = admin.post("/share-networks", "share_network", **first)["id"]
    for one in more:
        admin.post(f"/share-networks/{network_id}/subnets", "share-network-subnet", **one)
    return network_id


def test_a_share_server_has_ports_on_its_subnets_until_it_is_deleted(harness, admin):
    four, six = harness.beneath("10.7.0.0/24", "10.7.0.1"), harness.beneath("fd07::/64", "fd07::1")
    network_id = share_network(admin, four, six)
    share = admin.post("/shares", "share", share_proto="NFS", size=1, share_type="served", share_network_id=network_id)
    share = admin.wait(f"/shares/{share['id']}", "available")
    server_id = share["share_server_id"]
    ports = harness.ports(server_id)
    assert {one.network_id for one in ports} == {four[0], six[0]}
    assert {one.device_owner for one in ports} == {"manila:share"}
    paths = [one["path"] for one in admin.get(f"/shares/{share['id']}/export_locations")]
    for address in harness.seen(server_id):
        assert [one for one in paths if address in one] != []
    admin.call("DELETE", f"/shares/{share['id']}")
    admin.wait_gone(f"/shares/{share['id']}")
    admin.call("DELETE", f"/share-servers/{server_id}")
    admin.wait_gone(f"/share-servers/{server_id}")
    assert harness.ports(server_id) == []


def test_a_network_without_an_address_fails_the_share_and_leaves_no_port(harness, admin):
    full = harness.beneath("10.8.0.0/30")
    for _ in range(2):
        harness.neutron.create_port(network_id=full[0], project_id=PROJECT)
    other = harness.beneath("10.7.0.0/24")
    network_id = share_network(admin, other, full)
    share = admin.post("/shares", "share", share_proto="NFS", size=1, share_type="served", share_network_id=network_id)
    admin.wait(f"/shares/{share['id']}", "error")
    assert list(harness.neutron.ports(network_id=other[0])) == []
    assert [one.device_owner for one in harness.neutron.ports(network_id=full[0])] == ["", ""]
    (message,) = admin.get(f"/messages?resource_id={share['id']}")
    assert "address" in message["user_message"]
    told = admin.call("GET", "//abaca/v1/operations?kind=share-server-create").body
    assert "No more IP addresses available on network" in str(told)


def waiting_for_neutron(admin, kind):
    """Until an operation of that kind says that it has asked in vain, and that it will again."""

    def said():
        found = admin.get(f"//abaca/v1/operations?kind={kind}&state=waiting")
        return "The network service does not answer" in str(found)

    wait_until(said, every_s=0.1)


def test_what_waits_for_a_neutron_that_is_away_goes_on_when_it_is_back(harness, admin, real_cloud):
    login, neutron = real_cloud
    one, other = harness.beneath("10.7.0.0/24"), harness.beneath("10.7.1.0/24")
    wanted = {"neutron_net_id": other[0], "neutron_subnet_id": other[1]}
    check = {"share_network_subnet_create_check": wanted}
    neutron.stop()
    try:
        network_id = share_network(admin, one)
        wish = {"share_proto": "NFS", "size": 1, "share_type": "served", "share_network_id": network_id}
        share = admin.post("/shares", "share", **wish)
        waiting_for_neutron(admin, "share-server-create")
        assert admin.get(f"/shares/{share['id']}")["status"] == "creating"
        neutron.start(login)
        share = admin.wait(f"/shares/{share['id']}", "available")
        neutron.stop()
        asked = admin.call("POST", f"/share-networks/{network_id}/action", check)
        assert (asked.status, asked.body["compatible"]) == (202, None)
        waiting_for_neutron(admin, "share-network-check")
        with pytest.raises(caller.Refused, match=r"has not ended.*The network service does not answer") as refused:
            admin.post(f"/share-networks/{network_id}/subnets", "share-network-subnet", **wanted)
        assert refused.value.status == 400
        neutron.start(login)
        wait_until(lambda: admin.call("POST", f"/share-networks/{network_id}/action", check).body["compatible"])
        admin.post(f"/share-networks/{network_id}/subnets", "share-network-subnet", **wanted)
        admin.wait(f"/share-networks/{network_id}", "active")
        assert len(harness.ports(share["share_server_id"])) == 2
        admin.call("DELETE", f"/shares/{share['id']}")
        admin.wait_gone(f"/shares/{share['id']}")
        neutron.stop()
        admin.call("DELETE", f"/share-servers/{share['share_server_id']}")
        waiting_for_neutron(admin, "share-server-delete")
        neutron.start(login)
        admin.wait_gone(f"/share-servers/{share['share_server_id']}")
        assert harness.ports(share["share_server_id"]) == []
    finally:
        neutron.stop()
        neutron.start(login)
