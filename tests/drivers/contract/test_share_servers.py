# SPDX-License-Identifier: Apache-2.0
"""The promises that only some drivers make: one class a promise, each call repeated."""

import inspect

import pytest

from abaca.drivers import contract
from abaca.drivers.contract import promises
from tests.drivers.contract import test_shares
from tests.drivers.contract.test_shares import twice
from tests.drivers.harness import rules, snapshot


def id_of(harness):
    """An id that nothing has yet."""
    return harness.instance().id


def subnet(harness, *addresses):
    """A subnet on which a server has these addresses."""
    allocations = [contract.Allocation(id=id_of(harness), ip_address=a, cidr="10.5.0.0/16") for a in addresses]
    return contract.Subnet(id=id_of(harness), cidr="10.5.0.0/16", allocations=allocations)


def setup(harness, *addresses):
    return contract.ServerSetup(
        id=id_of(harness), share_network_id=id_of(harness), subnets=[subnet(harness, *addresses)]
    )


def server_of(driver, wanted):
    """A server that runs."""
    return contract.ShareServer(id=wanted.id, details=twice(driver.set_up_server, wanted))


def gone(call, *arguments):
    with pytest.raises(contract.Gone):
        call(*arguments)


def test_every_capability_has_a_class_of_tests():
    tested = {
        cls.capability
        for module in (vars(test_shares), globals())
        for cls in module.values()
        if inspect.isclass(cls) and hasattr(cls, "capability")
    }
    assert set(promises.every()) - tested == set()


class TestReplicates:
    capability = contract.Replicates

    def test_a_replica_is_made_promoted_and_deleted(self, harness, driver, share):
        harness.write(share, "text")
        copy = harness.instance(share_id=share.share_id)
        active = contract.Replica(instance=share, state="active")
        outcome = twice(driver.create_replica, copy, [active], rules("10.0.0.1 rw"))
        assert (outcome.state, bool(outcome.exports)) == ("in_sync", True)
        assert harness.read(copy) == "text"
        both = [active, contract.Replica(instance=copy, state="in_sync")]
        assert twice(driver.replica_state, copy, both) == "in_sync"
        promoted = twice(driver.promote_replica, copy, both, rules("10.0.0.1 rw"))
        assert {id: one.state for id, one in promoted.items()} == {copy.id: "active", share.id: "in_sync"}
        twice(driver.delete_replica, copy, both)
        assert copy.id not in harness.held()
        gone(driver.replica_state, copy, both)


class TestSnapshotsReplicas:
    capability = contract.SnapshotsReplicas

    def test_a_snapshot_is_taken_on_all_replicas_and_reverted_to(self, harness, driver, share):
        copy = harness.instance(share_id=share.share_id)
        driver.create_replica(copy, [contract.Replica(instance=share, state="active")], [])
        harness.write(share, "before")
        taken = [snapshot(share), snapshot(copy)]
        assert set(twice(driver.create_replicated_snapshot, taken)) == {one.id for one in taken}
        harness.write(share, "after")
        twice(driver.revert_replicated_snapshot, taken, rules("10.0.0.2 ro"))
        assert (harness.read(share), harness.clients(share)) == ("before", {("10.0.0.2", "ro")})
        twice(driver.delete_replicated_snapshot, taken)
        gone(driver.revert_replicated_snapshot, taken, [])
        driver.delete_replica(copy, [])


class TestGroups:
    capability = contract.Groups

    def test_a_group_is_deleted_when_it_is_empty(self, harness, driver, share):
        group = contract.ShareGroup(id=id_of(harness), project_id="p")
        twice(driver.create_group, group)
        full = contract.ShareGroup(id=group.id, project_id="p", instances=[share])
        with pytest.raises(contract.Refused):
            driver.delete_group(full)
        twice(driver.delete_group, group)


class TestSnapshotsGroups:
    capability = contract.SnapshotsGroups

    def test_a_group_starts_with_the_content_of_a_group_snapshot(self, harness, driver, share):
        harness.write(share, "text")
        taken = snapshot(share)
        whole = contract.GroupSnapshot(id=id_of(harness), group_id=id_of(harness), snapshots=[taken])
        assert set(twice(driver.create_group_snapshot, whole)) == {taken.id}
        copy = harness.instance()
        group = contract.ShareGroup(id=id_of(harness), project_id="p", instances=[copy])
        exports = twice(driver.create_group_from_snapshot, group, whole, {copy.id: taken.id})
        assert (bool(exports[copy.id]), harness.read(copy)) == (True, "text")
        twice(driver.delete_group_snapshot, whole)
        driver.delete(copy)
        gone(driver.create_group_from_snapshot, group, whole, {copy.id: taken.id})
        driver.delete_group(group)


class TestManages:
    capability = contract.Manages

    def test_a_share_is_given_up_and_taken_over_with_its_content(self, harness, driver):
        old = harness.instance(size_gib=3)
        exports = driver.create(old)
        harness.write(old, "text")
        twice(driver.unmanage, old)
        new = harness.instance(exports=exports, size_gib=0)
        managed = twice(driver.manage, new, {})
        assert (managed.size_gib, bool(managed.exports), harness.read(new)) == (3, True, "text")
        assert harness.size_gib(new) == 3
        driver.delete(new)

    def test_nothing_is_taken_over_where_nothing_is(self, harness, driver):
        place = contract.Export(path=f"127.0.0.1:/dummy/{id_of(harness)}")
        gone(driver.manage, harness.instance(exports=[place]), {})


class TestManagesSnapshots:
    capability = contract.ManagesSnapshots

    def test_a_snapshot_is_given_up_and_taken_over(self, harness, driver, share):
        old = snapshot(share)
        place = driver.create_snapshot(old)
        twice(driver.unmanage_snapshot, old)
        new = snapshot(share, provider_location=place)
        assert twice(driver.manage_snapshot, new, {}) == 1
        driver.delete_snapshot(new)
        gone(driver.manage_snapshot, snapshot(share, provider_location=place), {})


class TestMigrates:
    capability = contract.Migrates

    def test_a_share_moves_to_another_pool_with_its_snapshots(self, harness, driver):
        source = harness.instance()
        driver.create(source)
        harness.write(source, "text")
        taken = snapshot(source)
        driver.create_snapshot(taken)
        pool = driver.pools()[-1].name
        destination = harness.instance(share_id=source.share_id, pool=pool)
        assert twice(driver.check_migration, source, destination, f"h@b1#{pool}").compatible
        twice(driver.start_migration, source, destination)
        while driver.continue_migration(source, destination) < 100:
            pass
        result = driver.complete_migration(source, destination, rules("10.0.0.1 rw"))
        assert (bool(result.exports), set(result.snapshots)) == (True, {taken.id})
        assert (harness.read(destination), harness.clients(destination)) == ("text", {("10.0.0.1", "rw")})
        assert source.id not in harness.held()
        assert driver.complete_migration(source, destination, rules("10.0.0.1 rw")).exports == result.exports
        driver.delete_snapshot(taken)
        driver.delete(destination)

    def test_a_cancelled_move_leaves_the_source_as_it_was(self, harness, driver, share):
        harness.write(share, "text")
        destination = harness.instance(share_id=share.share_id)
        driver.start_migration(share, destination)
        twice(driver.cancel_migration, share, destination)
        assert (harness.read(share), destination.id in harness.held()) == ("text", False)
        gone(driver.continue_migration, share, destination)

    def test_no_other_back_end_is_reached(self, harness, driver, share):
        assert not driver.check_migration(share, harness.instance(), "h@other#pool1").compatible


class TestRunsServers:
    capability = contract.RunsServers

    def test_a_share_is_exported_from_its_servers_addresses(self, harness, driver):
        server = server_of(driver, setup(harness, "10.5.0.1", "10.5.0.2"))
        instance = harness.instance(server=server)
        assert driver.choose_server([server], instance) == server
        assert [export.path.partition(":")[0] for export in driver.create(instance)] == ["10.5.0.1", "10.5.0.2"]
        with pytest.raises(contract.Refused):
            driver.tear_down_server(server)
        driver.delete(instance)
        twice(driver.tear_down_server, server)

    def test_without_a_server_a_new_one_is_asked_for(self, harness, driver):
        assert driver.choose_server([], harness.instance()) is None


class TestManagesServers:
    capability = contract.ManagesServers

    def test_a_server_is_given_up_and_taken_over(self, harness, driver):
        server = server_of(driver, setup(harness, "10.5.0.3"))
        twice(driver.unmanage_server, server)
        new = id_of(harness)
        details = twice(driver.manage_server, new, server.details["identifier"], {})
        assert details == server.details
        driver.tear_down_server(contract.ShareServer(id=new, details=details))
        gone(driver.manage_server, id_of(harness), server.details["identifier"], {})


class TestUpdatesServerNetworks:
    capability = contract.UpdatesServerNetworks

    def test_a_new_subnet_adds_an_export_location(self, harness, driver):
        wanted = setup(harness, "10.5.0.4")
        server = server_of(driver, wanted)
        instance = harness.instance(server=server)
        driver.create(instance)
        new = subnet(harness, "10.6.0.4")
        assert twice(driver.check_server_network, server, wanted.subnets, new)
        outcome = twice(driver.update_server_network, server, wanted.subnets, new, [instance])
        assert [one.path.partition(":")[0] for one in outcome.exports[instance.id]] == ["10.5.0.4", "10.6.0.4"]
        driver.delete(instance)
        driver.tear_down_server(server)
        gone(driver.update_server_network, server, wanted.subnets, new, [])


class TestUpdatesSubnetMetadata:
    capability = contract.UpdatesSubnetMetadata

    def test_a_servers_subnet_learns_its_metadata(self, harness, driver):
        wanted = setup(harness, "10.5.0.5")
        server = server_of(driver, wanted)
        twice(driver.update_subnet_metadata, server, wanted.subnets[0])
        driver.tear_down_server(server)
        gone(driver.update_subnet_metadata, server, wanted.subnets[0])


class TestUpdatesSecurityServices:
    capability = contract.UpdatesSecurityServices

    def test_a_service_is_replaced_by_one_of_its_type_only(self, harness, driver):
        server = server_of(driver, setup(harness, "10.5.0.6"))
        old, new = (contract.SecurityService(id=id_of(harness), type="ldap") for _ in range(2))
        other = contract.SecurityService(id=id_of(harness), type="kerberos")
        assert twice(driver.check_security_service, server, old, None)
        assert driver.check_security_service(server, new, old)
        assert not driver.check_security_service(server, other, old)
        assert twice(driver.update_security_service, server, new, old) == server.details
        driver.tear_down_server(server)


class TestMigratesServers:
    capability = contract.MigratesServers

    def test_a_server_moves_with_its_shares(self, harness, driver):
        source = server_of(driver, setup(harness, "10.5.0.7"))
        instance = harness.instance(server=source)
        driver.create(instance)
        destination = setup(harness, "10.5.0.8")
        assert twice(driver.check_server_migration, source, [instance]).compatible
        twice(driver.start_server_migration, source, destination, [instance])
        while driver.continue_server_migration(source, destination) < 100:
            pass
        outcome = twice(driver.complete_server_migration, source, destination, [instance])
        assert [one.path.partition(":")[0] for one in outcome.exports[instance.id]] == ["10.5.0.8"]
        driver.tear_down_server(source)
        driver.delete(instance)
        driver.tear_down_server(contract.ShareServer(id=destination.id))

    def test_a_cancelled_move_leaves_the_server_as_it_was(self, harness, driver):
        source, destination = server_of(driver, setup(harness, "10.5.0.9")), setup(harness, "10.5.0.10")
        driver.start_server_migration(source, destination, [])
        twice(driver.cancel_server_migration, source, destination)
        gone(driver.continue_server_migration, source, destination)
        driver.tear_down_server(source)


class TestBacksUp:
    capability = contract.BacksUp

    def test_a_backup_outlives_the_share_and_is_restored_into_another(self, harness, driver):
        lost, new = harness.instance(), harness.instance()
        driver.create(lost)
        harness.write(lost, "text")
        backup = contract.Backup(id=id_of(harness), share_id=lost.share_id, size_gib=1)
        twice(driver.create_backup, lost, backup)
        while driver.continue_backup(lost, backup) < 100:
            pass
        driver.delete(lost)
        driver.create(new)
        twice(driver.restore_backup, new, backup)
        while driver.continue_restore(new, backup) < 100:
            pass
        assert harness.read(new) == "text"
        twice(driver.delete_backup, backup)
        gone(driver.restore_backup, new, backup)
        driver.delete(new)


class TestMeasuresUsage:
    capability = contract.MeasuresUsage

    def test_what_is_not_there_is_left_out(self, harness, driver, share):
        assert set(driver.measure_usage([share, harness.instance()])) == {share.id}

    def test_usage_is_within_the_share(self, harness, driver, share):
        assert 0 <= driver.measure_usage([share])[share.id].used_gib <= 1


class TestAcceptsTransfers:
    capability = contract.AcceptsTransfers

    def test_a_share_passes_to_another_project(self, harness, driver, share):
        twice(driver.accept_transfer, share, "other")
        gone(driver.accept_transfer, harness.instance(), "other")


class TestUpdatesMetadata:
    capability = contract.UpdatesMetadata

    def test_metadata_reaches_the_back_end(self, harness, driver, share):
        twice(driver.update_metadata, share, {"tier": "gold"})
        gone(driver.update_metadata, harness.instance(), {})
