# SPDX-License-Identifier: Apache-2.0
"""What drivers promise that fence: a call that comes too late changes nothing, whatever it is and whoever makes it."""

import inspect

import msgspec
import pytest

from abaca.drivers import contract
from abaca.drivers.contract import promises
from tests.drivers.contract.test_share_servers import setup, subnet
from tests.drivers.harness import rules, snapshot

FIRST, SECOND, THIRD = 1_700_000_000_000_000, 1_700_000_000_000_007, 1_700_000_000_000_019


def at(generation, given):
    """The same instance, or snapshot of it, in a call of that generation."""
    if isinstance(given, contract.Snapshot):
        return msgspec.structs.replace(given, instance=at(generation, given.instance))
    return msgspec.structs.replace(given, generation=generation)


# Late calls: of the driver, and what they are about at the generation of the call.
LATE = {
    "create": lambda driver, share, taken: driver.create(share),
    "delete": lambda driver, share, taken: driver.delete(share),
    "set_access": lambda driver, share, taken: driver.set_access(share, rules("10.6.6.6 rw")),
    "extend": lambda driver, share, taken: driver.extend(share, 4),
    "shrink": lambda driver, share, taken: driver.shrink(share, 1),
    "fence": lambda driver, share, taken: driver.fence(share),
    "unmanage": lambda driver, share, taken: driver.unmanage(share),
    "accept_transfer": lambda driver, share, taken: driver.accept_transfer(share, "another"),
    "update_metadata": lambda driver, share, taken: driver.update_metadata(share, {"late": "yes"}),
    "create_snapshot": lambda driver, share, taken: driver.create_snapshot(snapshot(share)),
    "delete_snapshot": lambda driver, share, taken: driver.delete_snapshot(taken),
    "export_snapshot": lambda driver, share, taken: driver.export_snapshot(taken),
    "set_snapshot_access": lambda driver, share, taken: driver.set_snapshot_access(taken, rules("10.6.6.6 rw")),
    "create_from_snapshot": lambda driver, share, taken: driver.create_from_snapshot(share, taken),
    "manage": lambda driver, share, taken: driver.manage(share, {"size": "7"}),
    "manage_snapshot": lambda driver, share, taken: driver.manage_snapshot(taken, {}),
    "unmanage_snapshot": lambda driver, share, taken: driver.unmanage_snapshot(taken),
    "delete_replica": lambda driver, share, taken: driver.delete_replica(share, []),
    "revert": lambda driver, share, taken: driver.revert(taken, []),
    "end_revert": lambda driver, share, taken: driver.end_revert(contract.Revert(snapshot=taken)),
    "start_clone": lambda driver, share, taken: driver.start_clone(contract.Clone(instance=share, snapshot=taken)),
}
# What is about one instance and is not in LATE: it changes nothing, or looks at each by itself.
NOT_LATE = {"ensure_share", "open_for_copy", "close_after_copy", "replica_state"}
# What back ends do at once, by the method that they inherit for it.
AT_ONCE = {"start_clone": contract.ClonesSnapshotsAtOnce}


class TestFences:
    capability = contract.Fences

    def test_a_call_that_comes_too_late_is_refused_and_changes_nothing(self, harness, driver):
        share, taken = self.made(harness)
        known = set(promises.methods(type(driver)))
        for call in LATE.keys() & known - {name for name, base in AT_ONCE.items() if isinstance(driver, base)}:
            with pytest.raises(contract.Superseded):
                LATE[call](driver, at(SECOND, share), at(SECOND, taken))
            assert (call, *self.seen(harness, share, taken)) == (call, {("10.0.0.1", "rw")}, 2, "kept", True, True)
        driver.delete_snapshot(at(THIRD, taken))
        driver.delete(at(THIRD, share))

    def made(self, harness):
        """A share that has known the third generation, with a snapshot."""
        driver, share = harness.driver, harness.instance(size_gib=2)
        driver.create(at(FIRST, share))
        harness.write(share, "kept")
        taken = snapshot(share)
        driver.create_snapshot(at(SECOND, taken))
        driver.set_access(at(THIRD, share), rules("10.0.0.1 rw"))
        return share, taken

    def seen(self, harness, share, taken):
        return (
            harness.clients(share),
            harness.size_gib(share),
            harness.read(share),
            share.id in harness.held(),
            taken.id in harness.snapshots(),
        )

    def test_a_call_may_be_repeated(self, harness, driver):
        share = harness.instance()
        for _ in range(2):
            driver.create(at(FIRST, share))
            driver.extend(at(FIRST, share), 2)
        assert harness.size_gib(share) == 2
        with pytest.raises(contract.Superseded):
            driver.delete(at(FIRST - 1, share))
        driver.delete(at(FIRST, share))

    def test_what_was_deleted_is_not_made_again(self, harness, driver):
        share = harness.instance()
        driver.create(at(FIRST, share))
        driver.delete(at(SECOND, share))
        with pytest.raises(contract.Superseded):
            driver.create(at(FIRST, share))
        assert share.id not in harness.held()

    def test_a_fence_is_kept_without_a_share_and_makes_none(self, harness, driver):
        share = harness.instance()
        for _ in range(2):
            driver.fence(at(SECOND, share))
        with pytest.raises(contract.Superseded):
            driver.create(at(FIRST, share))
        assert share.id not in harness.held()

    def test_a_worker_that_starts_again_remembers(self, harness, driver):
        share = harness.instance()
        driver.create(at(SECOND, share))
        follower = harness.start()
        with pytest.raises(contract.Superseded):
            follower.set_access(at(FIRST, share), rules("10.6.6.6 rw"))
        assert harness.clients(share) == set()
        follower.delete(at(SECOND, share))

    def test_one_instance_says_nothing_of_another(self, harness, driver):
        first, second = harness.instance(), harness.instance()
        driver.create(at(THIRD, first))
        driver.create(at(FIRST, second))
        with pytest.raises(contract.Superseded):
            driver.delete(at(SECOND, first))
        driver.delete(at(SECOND, second))
        assert (first.id in harness.held(), second.id in harness.held()) == (True, False)
        driver.delete(at(THIRD, first))

    def test_without_a_generation_nothing_is_compared(self, harness, driver):
        share = harness.instance()
        driver.create(at(THIRD, share))
        driver.extend(share, 2)
        assert harness.size_gib(share) == 2
        with pytest.raises(contract.Superseded):
            driver.extend(at(SECOND, share), 3)
        driver.delete(share)

    def test_ensuring_leaves_alone_what_is_newer_and_says_so(self, harness, driver):
        share = harness.instance()
        exports = driver.create(at(FIRST, share)).exports
        driver.extend(at(THIRD, share), 2)
        known = harness.instance(id=share.id, exports=exports)
        assert driver.ensure([at(SECOND, known)])[share.id].is_superseded
        assert harness.size_gib(share) == 2
        driver.ensure([at(THIRD, known)])
        assert harness.size_gib(share) == 1
        driver.delete(at(THIRD, share))


# The same of share servers: of the driver, and of the server, what it is made of, and a subnet that it is not on.
LATE_FOR_SERVERS = {
    "set_up_server": lambda driver, wanted, server, new: driver.set_up_server(wanted),
    "tear_down_server": lambda driver, wanted, server, new: driver.tear_down_server(server),
    "update_server_network": lambda driver, wanted, server, new: driver.update_server_network(
        server, wanted.subnets, new, []
    ),
    "remove_server_network": lambda driver, wanted, server, new: driver.remove_server_network(
        server, wanted.subnets[1], []
    ),
    "update_subnet_metadata": lambda driver, wanted, server, new: driver.update_subnet_metadata(
        server, wanted.subnets[0]
    ),
    "update_security_service": lambda driver, wanted, server, new: driver.update_security_service(
        server, contract.SecurityService(id="late", type="ldap"), None
    ),
    "manage_server": lambda driver, wanted, server, new: driver.manage_server(wanted, "late", {}),
    "unmanage_server": lambda driver, wanted, server, new: driver.unmanage_server(server),
}
# What is about a share server and is not above: it changes nothing.
NOT_LATE_FOR_SERVERS = {"check_server_network", "check_security_service"}


class TestFencesServers:
    capability, without = contract.RunsServers, contract.EnsuresEach

    def test_a_call_that_comes_too_late_is_refused_and_changes_nothing(self, harness, driver):
        wanted, new = setup("10.5.3.1"), subnet("10.5.3.3")
        wanted = msgspec.structs.replace(wanted, subnets=[*wanted.subnets, subnet("10.5.3.2")])
        server = contract.ShareServer(id=wanted.id, details=driver.set_up_server(at(THIRD, wanted)))
        for call in LATE_FOR_SERVERS.keys() & set(promises.methods(type(driver))):
            with pytest.raises(contract.Superseded):
                LATE_FOR_SERVERS[call](driver, at(SECOND, wanted), at(SECOND, server), new)
            assert (call, harness.servers()[server.id]) == (call, ["10.5.3.1", "10.5.3.2"])
        driver.tear_down_server(at(THIRD, server))
        with pytest.raises(contract.Superseded):
            driver.set_up_server(at(SECOND, wanted))
        assert server.id not in harness.servers()

    def test_of_several_servers_those_for_which_it_comes_too_late_are_left_out(self, harness, driver):
        late, other = (server_of(driver, address) for address in ("10.5.4.1", "10.5.4.2"))
        changes = [
            contract.ServerNetworkChange(server=at(SECOND, one), current=[], new=subnet(address), instances=[])
            for one, address in ((late, "10.5.4.3"), (other, "10.5.4.4"))
        ]
        driver.remove_server_network(at(THIRD, late), subnet("10.5.4.5"), [])
        assert set(driver.update_server_networks(changes)) == {other.id}
        assert harness.servers()[late.id] == ["10.5.4.1"]
        for one in (late, other):
            driver.tear_down_server(at(THIRD, one))


def server_of(driver, address):
    wanted = setup(address)
    return contract.ShareServer(id=wanted.id, details=driver.set_up_server(at(FIRST, wanted)))


def takes_an_instance(promise, name, kinds):
    """Whether the method's first argument is of one of these types."""
    _, *given = inspect.signature(getattr(promise, name)).parameters.values()
    return bool(given) and given[0].annotation in kinds


def about(*kinds):
    return {
        name
        for promise in promises.every()
        for name, value in vars(promise).items()
        if inspect.isfunction(value) and name[0] != "_" and takes_an_instance(promise, name, kinds)
    }


def test_every_method_that_is_about_one_instance_is_tried_too_late():
    assert about("ShareInstance", "Snapshot") - set(LATE) - NOT_LATE == set()


def test_every_method_that_is_about_one_share_server_is_tried_too_late():
    assert about("ShareServer", "ServerSetup") - set(LATE_FOR_SERVERS) - NOT_LATE_FOR_SERVERS == set()


def test_the_generations_of_a_call_are_those_of_all_its_instances():
    first, second = (at(generation, contract_instance(str(generation))) for generation in (FIRST, SECOND))
    taken = contract.Snapshot(id="s", instance=second)
    given = [contract.Clone(instance=first, snapshot=taken), {"more": [contract_instance("3")]}]
    assert contract.generations(given) == {str(FIRST): FIRST, str(SECOND): SECOND}


def contract_instance(id):
    return contract.ShareInstance(id=id, share_id=id, project_id="p", size_gib=1, protocol="NFS", pool="pool")
