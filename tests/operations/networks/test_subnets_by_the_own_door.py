# SPDX-License-Identifier: Apache-2.0
"""By the own door subnets are added in one step, taken away under servers that serve, and both can be tried dry."""

import contextlib

import pytest

from abaca.nodes.contract import Holder
from tests.conftest import wait_until
from tests.operations import cases
from tests.operations.networks.test_share_servers import a_theatre, addresses, exports, made, message, servers
from tests.reconcile.test_attachments import host, make_due, reconciler, shown

NETWORKS = "//abaca/v1/share-networks"
WANTED = {"subnet": cases.FIELDS}


@pytest.fixture
def theatre(database, tmp_path):
    with contextlib.ExitStack() as stack:
        yield a_theatre(database, tmp_path, stack, "max_shares_per_share_server = 1\n")


def network(theatre, network_id):
    (found,) = theatre.ask("GET", f"{NETWORKS}?id_prefix={network_id}")["share_networks"]
    return found


def subnet_of(theatre, network_id, version):
    (found,) = (one for one in network(theatre, network_id)["share_network_subnets"] if one["ip_version"] == version)
    return f"{NETWORKS}/{network_id}/subnets/{found['id']}"


def refused(theatre, method, path, body=None):
    answer = theatre.world.ask("member", method, path, body)
    assert answer.status >= 400, answer
    return answer.status, next(iter(answer.body.values()))["message"]


def wide(theatre):
    """A network with a share on a server of two subnets; the ids."""
    network_id = cases.a_share_network(theatre)
    theatre.ask("POST", f"/share-networks/{network_id}/subnets", {"share-network-subnet": cases.FIELDS})
    return network_id, made(theatre, network_id)["id"]


def attached(theatre, share_id):
    """To a machine of the second subnet, from where it is mounted."""
    attachment_id = cases.until_attached(theatre, cases.attach(theatre, (share_id, cases.a_wide_server(theatre))))
    found = shown(theatre, attachment_id)
    assert found["export_location"].startswith("[fd20::")
    return found


def test_a_subnet_is_asked_about_and_added_in_one_step(theatre):
    network_id = cases.a_share_network(theatre)
    shares = [made(theatre, network_id)["id"] for _ in range(2)]
    plan = theatre.ask("POST", f"{NETWORKS}/{network_id}/subnets/plan", WANTED)["plan"]
    assert plan["is_possible"]
    assert {one["id"] for one in plan["share_servers"]} == {one.id for one in servers(theatre)}
    assert len(network(theatre, network_id)["share_network_subnets"]) == 1
    added = theatre.ask("POST", f"{NETWORKS}/{network_id}/subnets", WANTED)["subnet"]
    theatre.settle()
    found = network(theatre, network_id)
    assert (found["status"], found["share_network_subnets"][1]["id"]) == ("active", added["id"])
    assert found["share_network_subnets"][1]["cidr"] == "fd20::/64"
    assert [len(exports(theatre, share_id)) for share_id in shares] == [2, 2]


def test_a_subnet_that_a_server_cannot_have_is_refused_with_the_reason_of_each(theatre):
    network_id = cases.a_share_network(theatre)
    made(theatre, network_id)
    strange = {"subnet": {"neutron_net_id": "nosuch", "neutron_subnet_id": "nosuch"}}
    plan = theatre.ask("POST", f"{NETWORKS}/{network_id}/subnets/plan", strange)["plan"]
    (server,) = plan["share_servers"]
    assert not plan["is_possible"]
    assert "nosuch" in server["refusal"]
    status, said = refused(theatre, "POST", f"{NETWORKS}/{network_id}/subnets", strange)
    assert (status, server["id"] in said, "nosuch" in said) == (400, True, True)
    assert (network(theatre, network_id)["status"], len(addresses(theatre))) == ("active", 1)


def test_what_stands_in_the_way_of_all_is_said_before_anybody_is_asked(theatre):
    network_id = cases.a_share_network(theatre)
    share_id = made(theatre, network_id)["id"]
    theatre.ask("POST", f"/shares/{share_id}/action", {"reset_status": {"status": "error"}}, who="admin")
    plan = theatre.ask("POST", f"{NETWORKS}/{network_id}/subnets/plan", WANTED)["plan"]
    assert (plan["is_possible"], [share_id in one for one in plan["refusals"]]) == (False, [True])
    assert refused(theatre, "POST", f"{NETWORKS}/{network_id}/subnets", WANTED)[0] == 400


def test_a_subnet_goes_and_what_is_attached_from_there_moves_first(theatre):
    network_id, share_id = wide(theatre)
    attachment = attached(theatre, share_id)
    path = subnet_of(theatre, network_id, 6)
    plan = theatre.ask("GET", f"{path}/removal-plan")["plan"]
    assert (plan["is_possible"], plan["uses"]) == (True, [])
    (move,) = plan["attachments"]
    assert (move["attachment_id"], move["to"][:8]) == (attachment["id"], "10.20.0.")
    theatre.ask("DELETE", path)
    theatre.settle()
    after = shown(theatre, attachment["id"])
    assert (after["state"], after["export_location"]) == ("active", move["to"])
    assert [one.status for one in servers(theatre)] == ["active"]
    assert [one[:8] for one in addresses(theatre)] == ["10.20.0."]
    assert exports(theatre, share_id) == addresses(theatre)
    found = network(theatre, network_id)
    assert (found["status"], [one["cidr"] for one in found["share_network_subnets"]]) == ("active", ["10.20.0.0/24"])


def test_open_files_are_waited_for_and_kept(theatre):
    network_id, share_id = wide(theatre)
    attachment = attached(theatre, share_id)
    theatre.nodes.hold(host(attachment), attachment["mount_point"], Holder(7, "tail -f log"))
    theatre.ask("DELETE", subnet_of(theatre, network_id, 6))
    until(theatre, attachment, "error")
    assert [one.status for one in servers(theatre)] == ["network_change"]
    assert len(addresses(theatre)) == 2, "it serves there as long as somebody needs it"
    assert exports(theatre, share_id) == [one for one in addresses(theatre) if ":" not in one]
    theatre.nodes.hold(host(attachment), attachment["mount_point"], None)
    make_due(theatre)
    reconciler(theatre).heal()
    theatre.settle()
    assert shown(theatre, attachment["id"])["export_location"].startswith("10.20.0.")
    assert len(addresses(theatre)) == 1


def until(theatre, attachment, state):
    wait_until(lambda: shown(theatre, attachment["id"])["state"] == state, 15.0)


def test_by_force_open_files_are_lost(theatre):
    network_id, share_id = wide(theatre)
    attachment = attached(theatre, share_id)
    theatre.nodes.hold(host(attachment), attachment["mount_point"], Holder(7, "tail -f log"))
    theatre.ask("DELETE", f"{subnet_of(theatre, network_id, 6)}?force=true")
    theatre.settle()
    assert shown(theatre, attachment["id"])["export_location"].startswith("10.20.0.")
    assert len(addresses(theatre)) == 1


def test_clients_that_a_rule_lets_in_from_there_stand_in_the_way_unless_forced(theatre):
    network_id, share_id = wide(theatre)
    rule_id = cases.allow(theatre, share_id, "fd20::77")
    cases.allow(theatre, share_id, "10.20.0.77")
    theatre.settle()
    path = subnet_of(theatre, network_id, 6)
    plan = theatre.ask("GET", f"{path}/removal-plan")["plan"]
    assert [rule_id in one for one in plan["uses"]] == [True]
    status, said = refused(theatre, "DELETE", path)
    assert (status, rule_id in said) == (409, True)
    theatre.ask("DELETE", f"{path}?force=true")
    theatre.settle()
    assert len(network(theatre, network_id)["share_network_subnets"]) == 1


def test_a_machine_that_reaches_nothing_else_stands_in_the_way(theatre):
    network_id, share_id = wide(theatre)
    only_six = cases.a_server(theatre, "fd20::99")
    attachment_id = cases.until_attached(theatre, cases.attach(theatre, (share_id, only_six)))
    status, said = refused(theatre, "DELETE", subnet_of(theatre, network_id, 6))
    assert (status, attachment_id in said) == (409, True)


def test_no_server_loses_its_last_subnet(theatre):
    network_id = cases.a_share_network(theatre)
    made(theatre, network_id)
    path = subnet_of(theatre, network_id, 4)
    for said in ("", "?force=true"):
        status, reason = refused(theatre, "DELETE", f"{path}{said}")
        assert (status, servers(theatre)[0].id in reason) == (400, True)
    assert not theatre.ask("GET", f"{path}/removal-plan")["plan"]["is_possible"]


def test_a_subnet_on_which_no_server_is_goes_at_once(theatre):
    network_id = cases.a_share_network(theatre)
    made(theatre, network_id)
    zone = theatre.ask("GET", "/availability-zones")["availability_zones"][0]["name"]
    elsewhere = {"share-network-subnet": {"availability_zone": zone}}
    subnet = theatre.ask("POST", f"/share-networks/{network_id}/subnets", elsewhere)["share_network_subnet"]
    theatre.ask("DELETE", f"{NETWORKS}/{network_id}/subnets/{subnet['id']}")
    assert [one["id"] == subnet["id"] for one in network(theatre, network_id)["share_network_subnets"]] == [False]


def test_a_back_end_that_refuses_leaves_all_as_it_was(database, tmp_path):
    with contextlib.ExitStack() as stack:
        theatre = a_theatre(database, tmp_path, stack, "failures = remove_server_network:Refused:1\n")
        network_id, share_id = wide(theatre)
        theatre.ask("DELETE", subnet_of(theatre, network_id, 6))
        theatre.settle()
        assert (theatre.status(share_id), [one.status for one in servers(theatre)]) == ("available", ["active"])
        assert (network(theatre, network_id)["status"], len(addresses(theatre))) == ("active", 2)
        assert len(exports(theatre, share_id)) == 2


def test_a_back_end_that_cannot_even_go_back_is_said_to_be_in_error(database, tmp_path):
    with contextlib.ExitStack() as stack:
        failures = "failures = remove_server_network:Refused:1:after,update_server_network:Refused\n"
        theatre = a_theatre(database, tmp_path, stack, failures)
        network_id, share_id = wide(theatre)
        theatre.ask("DELETE", subnet_of(theatre, network_id, 6))
        theatre.settle()
        assert (theatre.status(share_id), [one.status for one in servers(theatre)]) == ("error", ["error"])
        assert "remove_server_network was ordered to fail" in message(theatre, share_id)["user_message"]
        assert network(theatre, network_id)["status"] == "active"


def test_members_see_which_share_servers_did_not_get_a_subnet(database, tmp_path):
    with contextlib.ExitStack() as stack:
        theatre = a_theatre(database, tmp_path, stack, "failures = update_server_network:Refused:1\n")
        network_id = cases.a_share_network(theatre)
        made(theatre, network_id)
        assert network(theatre, network_id)["share_servers_in_error"] == []
        theatre.ask("POST", f"{NETWORKS}/{network_id}/subnets", WANTED)
        theatre.settle()
        (server,) = servers(theatre)
        assert network(theatre, network_id)["share_servers_in_error"] == [server.id]
