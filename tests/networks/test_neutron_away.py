# SPDX-License-Identifier: Apache-2.0
"""A Neutron that is away for longer than anybody tries: users are told, nothing is stuck, and nothing left behind."""

import contextlib

import pytest

from abaca.reconcile.network_allocations import NetworkAllocations
from tests.databases import place
from tests.networks.harness import NeutronHarness
from tests.operations import cases
from tests.operations import theatre as stage
from tests.operations.networks.test_share_servers import addresses, exports, made, message, servers

pytestmark = [
    pytest.mark.system,
    # the library's, of its own future
    pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]

AWAY = "The network service does not answer"


class OnNeutron(stage.Theatre):
    """A theatre whose share servers have ports of the Neutron of a harness."""

    def __init__(self, harness, login, database, directory, stack):
        self.networks = (
            f"[networks]\nplugin = neutron\nneutron_clouds_file = {harness.clouds}\n"
            f"neutron_deployment = {harness.options.neutron_deployment}\n"
        )
        self.harness = harness
        self._login = login
        super().__init__(database, directory, None, stack, makes_servers=True)
        stack.callback(self.answer)
        self.is_away = False
        self.enter()

    def stop_neutron(self):
        self.harness.server_process.stop()
        self.is_away = True

    def answer(self):
        """Neutron is there again, with all that it had."""
        if self.is_away:
            self.harness.server_process.start(self._login)
            self.is_away = False

    def ids(self, cidr):
        return dict(zip(("neutron_net_id", "neutron_subnet_id"), self.harness.beneath(cidr), strict=True))

    def refused(self, method, path, body=None):
        """Status and words of an answer that is none of success."""
        answer = self.world.ask("member", method, path, body, **cases.VERSION)
        assert answer.status >= 400
        return answer.status, str(answer.body)

    def ports(self):
        """How many this Abaca has, told by Neutron itself."""
        mark = f"abaca {self.harness.options.neutron_deployment} "
        return sum(one.description.startswith(mark) for one in self.harness.neutron.ports(device_owner="manila:share"))

    def left_behind(self):
        """What is at Neutron, and of no share server here."""
        acting = self.acting.queues["testhost@served"].parts.network
        return list(NetworkAllocations(self.db, acting).sweep())


@pytest.fixture
def theatre(request, tmp_path, real_cloud):
    with contextlib.ExitStack() as stack:
        directory = tmp_path / "theatre"
        directory.mkdir()
        database = place("sqlite", tmp_path, request)
        stack.callback(database.close)
        login, neutron = real_cloud
        harness = NeutronHarness(database, tmp_path, login, neutron)
        stack.callback(harness.close)
        yield OnNeutron(harness, login, database, directory, stack)


def end(theatre, network_id, *shares):
    """All goes as it came."""
    for share_id in shares:
        cases.delete(theatre, share_id)
    theatre.settle()
    for server in servers(theatre):
        theatre.ask("DELETE", f"/share-servers/{server.id}", who="admin")
    theatre.settle()
    for subnet in theatre.ask("GET", f"/share-networks/{network_id}/subnets")["share_network_subnets"][1:]:
        theatre.ask("DELETE", f"/share-networks/{network_id}/subnets/{subnet['id']}")
    theatre.ask("DELETE", f"/share-networks/{network_id}")
    assert (servers(theatre), addresses(theatre), theatre.ports(), theatre.left_behind()) == ([], [], 0, [])


def test_a_share_that_needs_a_server_fails_with_that_reason_and_the_next_one_has_it(theatre):
    """Share networks and subnets are made all the same: they are names until a share needs them."""
    ids = [theatre.ids("10.7.0.0/24"), theatre.ids("10.7.1.0/24")]
    theatre.stop_neutron()
    network_id = cases.a_share_network(theatre, **ids[0])
    theatre.ask("POST", f"/share-networks/{network_id}/subnets", {"share-network-subnet": ids[1]})
    failed = made(theatre, network_id)
    told = message(theatre, failed["id"])
    assert (failed["status"], told["detail_id"]) == ("error", "004")
    assert AWAY in told["user_message"]
    assert "127.0.0.1" not in told["user_message"], "where it is, is not for users"
    assert ([one.status for one in servers(theatre)], addresses(theatre)) == (["error"], [])
    why = theatre.operation("share-server-create", servers(theatre)[0].id).error_text
    assert "127.0.0.1" in why, "and for operators it is"
    theatre.answer()
    share = made(theatre, network_id)
    assert (share["status"], len(exports(theatre, share["id"])), theatre.ports()) == ("available", 2, 2)
    end(theatre, network_id, failed["id"], share["id"])


def test_what_a_check_could_not_find_out_is_said_and_asked_anew(theatre):
    ids, more = theatre.ids("10.7.0.0/24"), theatre.ids("10.7.1.0/24")
    network_id = cases.a_share_network(theatre, **ids)
    share = made(theatre, network_id)
    theatre.stop_neutron()
    path, check = f"/share-networks/{network_id}/action", {"share_network_subnet_create_check": more}
    theatre.ask("POST", path, check)
    theatre.settle()
    assert theatre.ask("POST", path, check)["compatible"] is False
    status, said = theatre.refused("POST", f"/share-networks/{network_id}/subnets", {"share-network-subnet": more})
    assert (status, AWAY in said, "127.0.0.1" in said) == (400, True, False)
    own = f"//abaca/v1/share-networks/{network_id}/subnets"
    plan = theatre.ask("POST", f"{own}/plan", {"subnet": more})["plan"]
    (planned,) = plan["share_servers"]
    assert (plan["is_possible"], AWAY in planned["refusal"], "127.0.0.1" in planned["refusal"]) == (False, True, False)
    status, said = theatre.refused("POST", own, {"subnet": more})
    assert (status, AWAY in said) == (400, True)
    assert theatre.status(share["id"]) == "available"
    theatre.answer()
    anew = {"share_network_subnet_create_check": {**more, "reset_operation": True}}
    theatre.ask("POST", path, anew)
    theatre.settle()
    assert theatre.ask("POST", path, check)["compatible"] is True
    theatre.ask("POST", f"/share-networks/{network_id}/subnets", {"share-network-subnet": more})
    theatre.settle()
    assert len(exports(theatre, share["id"])) == 2
    end(theatre, network_id, share["id"])


def test_a_server_that_gets_a_subnet_just_then_says_why_it_did_not_and_is_mended(theatre):
    ids, more = theatre.ids("10.7.0.0/24"), theatre.ids("10.7.1.0/24")
    network_id = cases.a_share_network(theatre, **ids)
    share = made(theatre, network_id)
    path, check = f"/share-networks/{network_id}/action", {"share_network_subnet_create_check": more}
    theatre.ask("POST", path, check)
    theatre.settle()
    theatre.stop_neutron()
    body = {"share-network-subnet": more}
    subnet_id = theatre.ask("POST", f"/share-networks/{network_id}/subnets", body)["share_network_subnet"]["id"]
    theatre.settle()
    (server,) = servers(theatre)
    assert (server.status, theatre.status(share["id"])) == ("error", "error")
    for about in (share["id"], subnet_id):
        said = message(theatre, about)["user_message"]
        assert (AWAY in said, "127.0.0.1" in said) == (True, False)
    shown = theatre.ask("GET", f"/share-networks/{network_id}")["share_network"]
    assert (shown["status"], len(exports(theatre, share["id"]))) == ("active", 1)
    theatre.answer()
    theatre.ask("POST", f"//abaca/v1/share-servers/{server.id}/mend", who="admin")
    theatre.settle()
    assert (theatre.status(share["id"]), len(exports(theatre, share["id"])), theatre.ports()) == ("available", 2, 2)
    end(theatre, network_id, share["id"])


def test_a_server_that_cannot_give_its_ports_back_is_in_error_and_goes_when_it_can(theatre):
    network_id = cases.a_share_network(theatre, **theatre.ids("10.7.0.0/24"))
    share = made(theatre, network_id)
    cases.delete(theatre, share["id"])
    theatre.settle()
    (server,) = servers(theatre)
    theatre.stop_neutron()
    theatre.ask("DELETE", f"/share-servers/{server.id}", who="admin")
    theatre.settle()
    assert ([one.status for one in servers(theatre)], len(addresses(theatre))) == (["error"], 1)
    ended = theatre.operation("share-server-delete", server.id)
    assert (ended.state, AWAY.lower() in ended.error_text.lower()) == ("failed", True)
    theatre.answer()
    assert theatre.ports() == 1
    end(theatre, network_id)


def test_a_share_network_goes_though_its_server_cannot_and_that_is_deleted_later(theatre):
    network_id = cases.a_share_network(theatre, **theatre.ids("10.7.0.0/24"))
    share = made(theatre, network_id)
    cases.delete(theatre, share["id"])
    theatre.settle()
    theatre.stop_neutron()
    theatre.ask("DELETE", f"/share-networks/{network_id}")
    theatre.settle()
    (server,) = servers(theatre)
    assert (server.status, server.share_network_id, len(addresses(theatre))) == ("error", None, 1)
    theatre.answer()
    theatre.ask("DELETE", f"/share-servers/{server.id}", who="admin")
    theatre.settle()
    assert (servers(theatre), addresses(theatre), theatre.ports(), theatre.left_behind()) == ([], [], 0, [])
