# SPDX-License-Identifier: Apache-2.0
"""What drivers promise of share servers."""

import msgspec
import pytest

from abaca.drivers import contract
from tests.drivers.contract.calls import LongCallTests, SlowCallTests, gone, twice
from tests.drivers.harness import fresh_id


def subnet(*addresses, **more):
    """A subnet on which a server has these addresses."""
    allocations = [contract.Allocation(id=fresh_id(), ip_address=one, cidr="10.5.0.0/16") for one in addresses]
    return contract.Subnet(id=fresh_id(), cidr="10.5.0.0/16", allocations=allocations, **more)


def setup(*addresses):
    return contract.ServerSetup(id=fresh_id(), share_network_id=fresh_id(), subnets=[subnet(*addresses)])


def server_of(driver, wanted):
    """A server that runs."""
    return contract.ShareServer(id=wanted.id, details=twice(driver.set_up_server, wanted))


def hosts(exports):
    """The addresses in export locations."""
    return [export.path.partition(":")[0] for export in exports]


class TestRunsServers:
    capability = contract.RunsServers

    def test_a_server_has_the_addresses_of_its_subnets(self, harness, driver):
        server = server_of(driver, setup("10.5.0.1", "10.5.0.2"))
        assert harness.servers()[server.id] == ["10.5.0.1", "10.5.0.2"]

    def test_a_server_that_is_set_up_again_has_the_subnets_that_are_told_then(self, harness, driver):
        first, second = subnet("10.5.0.1"), subnet("10.6.0.1")
        wanted = contract.ServerSetup(id=fresh_id(), share_network_id=fresh_id(), subnets=[first])
        server_of(driver, wanted)
        server = server_of(driver, msgspec.structs.replace(wanted, subnets=[first, second]))
        assert harness.servers()[server.id] == ["10.5.0.1", "10.6.0.1"]
        server_of(driver, msgspec.structs.replace(wanted, subnets=[second]))
        assert harness.servers()[server.id] == ["10.6.0.1"]

    def test_a_share_is_exported_from_its_servers_addresses(self, harness, driver):
        server = server_of(driver, setup("10.5.0.1", "10.5.0.2"))
        share = harness.instance(server=server)
        assert hosts(driver.create(share).exports) == ["10.5.0.1", "10.5.0.2"]
        assert harness.server_of(share) == server.id
        driver.delete(share)

    def test_a_server_with_shares_stays_and_one_without_goes(self, harness, driver):
        server = server_of(driver, setup("10.5.0.1"))
        share = harness.instance(server=server)
        driver.create(share)
        with pytest.raises(contract.Refused):
            driver.tear_down_server(server)
        assert server.id in harness.servers()
        driver.delete(share)
        twice(driver.tear_down_server, server)
        assert server.id not in harness.servers()

    def test_one_of_the_servers_that_run_is_chosen_or_a_new_one_asked_for(self, harness, driver):
        servers = [server_of(driver, setup(f"10.5.1.{number}")) for number in (1, 2)]
        chosen = twice(driver.choose_server, servers, harness.instance())
        assert chosen is None or chosen.id in harness.servers()
        assert {server.id for server in servers} <= set(harness.servers())
        assert driver.choose_server([], harness.instance()) is None


class TestManagesServers:
    capability = contract.ManagesServers

    def given_up(self, harness, *addresses):
        """What the back end calls a server that is given up, and what it was made of."""
        wanted = setup(*addresses)
        server = server_of(harness.driver, wanted)
        twice(harness.driver.unmanage_server, server)
        return server.details["identifier"], wanted

    def taken_over(self, harness, identifier, wanted):
        """The server that it becomes, under an id of its own, in a share network of its own."""
        new = msgspec.structs.replace(wanted, id=fresh_id(), share_network_id=fresh_id())
        return contract.ShareServer(id=new.id, details=twice(harness.driver.manage_server, new, identifier, {}))

    def test_a_server_is_given_up_and_taken_over(self, harness, driver):
        identifier, wanted = self.given_up(harness, "10.5.0.3")
        assert wanted.id not in harness.servers()
        assert twice(driver.find_server_addresses, identifier, {}) == ["10.5.0.3"]
        server = self.taken_over(harness, identifier, wanted)
        assert server.details["identifier"] == identifier
        assert harness.servers()[server.id] == ["10.5.0.3"]
        driver.tear_down_server(server)
        gone(driver.find_server_addresses, identifier, {})
        gone(driver.manage_server, setup("10.5.0.3"), identifier, {})

    def test_what_is_taken_over_is_a_server_as_any_other(self, harness, driver):
        identifier, wanted = self.given_up(harness, "10.5.0.3")
        server = self.taken_over(harness, identifier, wanted)
        share = harness.instance(server=server)
        assert hosts(driver.create(share).exports) == ["10.5.0.3"]
        assert harness.server_of(share) == server.id
        with pytest.raises(contract.Refused):
            driver.tear_down_server(server)
        again = msgspec.structs.replace(wanted, id=server.id)
        assert driver.set_up_server(again)["identifier"] == identifier
        driver.delete(share)
        driver.unmanage_server(server)
        assert driver.find_server_addresses(identifier, {}) == ["10.5.0.3"]
        driver.tear_down_server(self.taken_over(harness, identifier, wanted))

    def test_a_server_that_somebody_has_is_not_taken_over(self, harness, driver):
        wanted = setup("10.5.0.3")
        server = server_of(driver, wanted)
        identifier = server.details["identifier"]
        with pytest.raises(contract.Refused):
            driver.find_server_addresses(identifier, {})
        with pytest.raises(contract.Refused):
            driver.manage_server(msgspec.structs.replace(wanted, id=fresh_id()), identifier, {})
        twice(driver.unmanage_server, contract.ShareServer(id=fresh_id()))
        assert harness.servers()[server.id] == ["10.5.0.3"]
        driver.tear_down_server(server)

    def test_a_server_keeps_its_addresses_whatever_is_said_of_them(self, harness, driver):
        identifier, wanted = self.given_up(harness, "10.5.0.3")
        with pytest.raises(contract.Refused):
            driver.manage_server(setup("10.5.0.9"), identifier, {})
        assert driver.find_server_addresses(identifier, {}) == ["10.5.0.3"]
        driver.tear_down_server(self.taken_over(harness, identifier, wanted))

    def test_shares_on_a_server_are_given_up_and_taken_over_with_it(self, harness, driver):
        if not isinstance(driver, contract.Manages):
            pytest.skip("it takes no shares over")
        wanted = setup("10.5.0.3")
        server = server_of(driver, wanted)
        share = harness.instance(server=server)
        places = driver.create(share).exports
        harness.write(share, "text")
        driver.unmanage(harness.known(share, server=server))
        driver.unmanage_server(server)
        server = self.taken_over(harness, server.details["identifier"], wanted)
        found = harness.instance(server=server, exports=places[:1], size_gib=0)
        managed = driver.manage(found, {})
        found = harness.instance(
            id=found.id, server=server, exports=managed.exports, driver_data=managed.driver_data or {}
        )
        assert (managed.exports, harness.read(found), harness.server_of(found)) == (places, "text", server.id)
        driver.delete(found)
        driver.tear_down_server(server)


class TestUpdatesServerNetworks:
    capability = contract.UpdatesServerNetworks

    def test_a_new_subnet_adds_an_export_location(self, harness, driver):
        wanted = setup("10.5.0.4")
        server = server_of(driver, wanted)
        share = harness.instance(server=server)
        driver.create(share)
        outcome = twice(driver.update_server_network, server, wanted.subnets, subnet("10.6.0.4"), [share])
        assert hosts(outcome.exports[share.id]) == ["10.5.0.4", "10.6.0.4"]
        assert harness.servers()[server.id] == ["10.5.0.4", "10.6.0.4"]

    def test_a_subnet_that_goes_takes_its_export_location_with_it(self, harness, driver):
        wanted = setup("10.5.0.4")
        server = server_of(driver, wanted)
        share, new = harness.instance(server=server), subnet("10.6.0.4")
        driver.create(share)
        driver.update_server_network(server, wanted.subnets, new, [share])
        outcome = twice(driver.remove_server_network, server, wanted.subnets[0], [share])
        assert hosts(outcome.exports[share.id]) == ["10.6.0.4"]
        assert harness.servers()[server.id] == ["10.6.0.4"]
        now = contract.ShareServer(id=server.id, details=outcome.details)
        assert hosts(driver.create(harness.instance(id=share.id, server=now)).exports) == ["10.6.0.4"]
        driver.delete(share)

    def test_the_last_subnet_stays(self, harness, driver):
        wanted = setup("10.5.0.4")
        server = server_of(driver, wanted)
        with pytest.raises(contract.Refused):
            driver.remove_server_network(server, wanted.subnets[0], [])
        assert harness.servers()[server.id] == ["10.5.0.4"]
        gone(driver.remove_server_network, contract.ShareServer(id=fresh_id()), subnet("10.6.0.4"), [])

    def test_whether_a_subnet_could_be_added_is_known_and_changes_nothing(self, harness, driver):
        wanted = setup("10.5.0.4")
        server = server_of(driver, wanted)
        assert twice(driver.check_server_network, server, wanted.subnets, subnet())
        assert harness.servers()[server.id] == ["10.5.0.4"]
        assert not driver.check_server_network(contract.ShareServer(id=fresh_id()), [], subnet())

    def test_a_server_that_is_gone_gets_no_subnet(self, harness, driver):
        gone(driver.update_server_network, contract.ShareServer(id=fresh_id()), [], subnet("10.6.0.4"), [])

    def test_several_servers_get_a_subnet_each_and_one_that_is_gone_is_left_out(self, harness, driver):
        wanted = [setup(f"10.5.1.{place}") for place in (1, 2, 3)]
        servers = [server_of(driver, one) for one in wanted]
        shares = [harness.instance(server=one) for one in servers]
        for share in shares:
            driver.create(share)
        added = [
            contract.ServerNetworkChange(
                server=one, current=its.subnets, new=subnet(f"10.6.1.{place}"), instances=[share]
            )
            for place, one, its, share in zip((1, 2, 3), servers, wanted, shares, strict=True)
        ]
        nobody = contract.ShareServer(id=fresh_id())
        lost = contract.ServerNetworkChange(server=nobody, current=[], new=subnet("10.6.1.9"), instances=[])
        outcomes = twice(driver.update_server_networks, [*added[:2], lost])
        assert set(outcomes) == {one.id for one in servers[:2]}
        for place in (1, 2):
            has = [f"10.5.1.{place}", f"10.6.1.{place}"]
            assert harness.servers()[servers[place - 1].id] == has
            assert hosts(outcomes[servers[place - 1].id].exports[shares[place - 1].id]) == has
        assert harness.servers()[servers[2].id] == ["10.5.1.3"]
        for share, one in zip(shares, servers, strict=True):
            driver.delete(share)
            driver.tear_down_server(one)


class TestUpdatesSubnetMetadata:
    capability = contract.UpdatesSubnetMetadata

    def test_a_servers_subnet_learns_its_metadata(self, harness, driver):
        wanted = setup("10.5.0.5")
        server = server_of(driver, wanted)
        place = wanted.subnets[0]
        changed = contract.Subnet(id=place.id, allocations=place.allocations, metadata={"mtu": "9000"})
        twice(driver.update_subnet_metadata, server, changed)
        assert harness.subnet_metadata(server, place) == {"mtu": "9000"}

    def test_a_server_that_is_gone_learns_nothing(self, harness, driver):
        gone(driver.update_subnet_metadata, contract.ShareServer(id=fresh_id()), subnet("10.5.0.5"))


class TestUpdatesSecurityServices:
    capability = contract.UpdatesSecurityServices

    def test_a_service_is_replaced(self, harness, driver):
        server = server_of(driver, setup("10.5.0.6"))
        old, new = (contract.SecurityService(id=fresh_id(), type="ldap") for _ in range(2))
        assert twice(driver.update_security_service, server, old, None) == server.details
        assert harness.security_services(server) == {old.id}
        assert twice(driver.update_security_service, server, new, old) == server.details
        assert harness.security_services(server) == {new.id}

    def test_only_one_of_its_type_can_take_a_services_place(self, harness, driver):
        server = server_of(driver, setup("10.5.0.6"))
        old, new = (contract.SecurityService(id=fresh_id(), type="ldap") for _ in range(2))
        other = contract.SecurityService(id=fresh_id(), type="kerberos")
        assert twice(driver.check_security_service, server, old, None)
        assert driver.check_security_service(server, new, old)
        assert not driver.check_security_service(server, other, old)
        assert harness.security_services(server) == set()


class TestMigratesServers(LongCallTests, SlowCallTests):
    capability = contract.MigratesServers
    name = "server_migration"

    def prepared(self, harness):
        source = server_of(harness.driver, setup("10.5.0.7"))
        share = harness.share("text", server=source)
        return contract.ServerMigration(source=source, destination=setup("10.5.0.8"), instances=[share])

    def assert_done(self, harness, migration, outcome):
        (share,) = migration.instances
        assert hosts(outcome.exports[share.id]) == ["10.5.0.8"]
        assert harness.servers()[migration.destination.id] == ["10.5.0.8"]
        assert migration.source.id not in harness.servers()
        assert (harness.server_of(share), harness.read(share)) == (migration.destination.id, "text")

    def assert_as_before(self, harness, migration):
        (share,) = migration.instances
        assert harness.servers()[migration.source.id] == ["10.5.0.7"]
        assert migration.destination.id not in harness.servers()
        assert (harness.server_of(share), harness.read(share)) == (migration.source.id, "text")

    def test_whether_a_server_could_move_is_known_and_changes_nothing(self, harness, driver):
        migration = self.prepared(harness)
        assert twice(driver.check_server_migration, migration).compatible
        self.assert_as_before(harness, migration)

    def test_a_server_that_is_gone_does_not_move(self, harness, driver):
        move = contract.ServerMigration(source=contract.ShareServer(id=fresh_id()), destination=setup("10.5.0.9"))
        assert not driver.check_server_migration(move).compatible
        gone(driver.start_server_migration, move)
