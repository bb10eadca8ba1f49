# SPDX-License-Identifier: Apache-2.0
"""What drivers promise of moving shares: by themselves, and by letting a host copy."""

from abaca.drivers import contract
from tests.drivers.contract.calls import LongCallTests, SlowCallTests, gone, run, twice
from tests.drivers.harness import fresh_id, rules, snapshot


def move_of(harness, source, pool):
    destination = harness.instance(share_id=source.share_id, pool=pool)
    return contract.Migration(
        source=source, destination=destination, destination_host=f"h@b1#{pool}", rules=rules("10.0.0.1 rw")
    )


class TestMigrates(LongCallTests, SlowCallTests):
    capability = contract.Migrates
    name = "migration"

    def prepared(self, harness):
        return move_of(harness, harness.share("text"), harness.driver.pools()[-1].name)

    def assert_done(self, harness, migration, result):
        source, destination = migration.source, migration.destination
        assert all(destination.id in export.path for export in result.exports)
        assert result.exports
        assert (harness.read(destination), harness.clients(destination)) == ("text", {("10.0.0.1", "rw")})
        assert source.id not in harness.held()

    def assert_as_before(self, harness, migration):
        assert harness.read(migration.source) == "text"
        assert migration.destination.id not in harness.held()

    def test_what_was_written_meanwhile_moves_too(self, harness, driver):
        migration = self.prepared(harness)
        driver.start_migration(migration)
        harness.write(migration.source, "later")
        run(driver, "migration", migration)
        assert harness.read(migration.destination) == "later"

    def test_snapshots_move_with_their_share(self, harness, driver):
        migration = self.prepared(harness)
        taken = snapshot(migration.source)
        driver.create_snapshot(taken)
        assert driver.check_migration(migration).preserve_snapshots
        assert set(run(driver, "migration", migration).snapshots) == {taken.id}
        clone = contract.Clone(
            instance=harness.instance(), snapshot=contract.Snapshot(id=taken.id, instance=migration.destination)
        )
        run(driver, "clone", clone)
        assert harness.read(clone.instance) == "text"

    def test_whether_it_could_move_is_known_and_changes_nothing(self, harness, driver):
        migration = self.prepared(harness)
        assert twice(driver.check_migration, migration).compatible
        self.assert_as_before(harness, migration)

    def test_no_other_back_end_is_reached(self, harness, driver, share):
        elsewhere = contract.Migration(
            source=share, destination=harness.instance(), destination_host="h@other#pool1", rules=()
        )
        assert not driver.check_migration(elsewhere).compatible

    def test_what_is_gone_does_not_move(self, harness, driver):
        gone(driver.start_migration, move_of(harness, harness.instance(), harness.driver.pools()[-1].name))


class TestAllowsCopying:
    capability = contract.AllowsCopying

    def test_a_host_copies_from_one_share_to_another(self, harness, driver):
        source, destination = harness.share("text"), harness.share()
        harness.copy(
            twice(driver.open_for_copy, source, ["10.0.0.8"], "ro"),
            twice(driver.open_for_copy, destination, ["10.0.0.8"], "rw"),
        )
        twice(driver.close_after_copy, source)
        twice(driver.close_after_copy, destination)
        assert (harness.read(destination), harness.read(source)) == ("text", "text")

    def test_users_keep_what_access_they_have(self, harness, driver):
        share = harness.share("text")
        driver.set_access(share, rules("10.0.0.1 ro"))
        driver.open_for_copy(share, ["10.0.0.8"], "rw")
        driver.close_after_copy(share)
        assert harness.clients(share) == {("10.0.0.1", "ro")}

    def test_what_is_gone_is_not_copied(self, harness, driver):
        gone(driver.open_for_copy, harness.instance(id=fresh_id()), ["10.0.0.8"], "ro")
