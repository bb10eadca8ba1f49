# SPDX-License-Identifier: Apache-2.0
"""What drivers promise of backups."""

from abaca.drivers import contract
from tests.drivers.contract.calls import LongCallTests, SlowCallTests, gone, run, twice
from tests.drivers.harness import fresh_id


def backup_of(share):
    return contract.Backup(id=fresh_id(), share_id=share.share_id, size_gib=1)


def restored(harness, backup):
    """What a new share holds once the backup is restored into it."""
    share = harness.share()
    run(harness.driver, "restore", contract.Restore(instance=share, backup=backup))
    return harness.read(share)


class TestBacksUp(LongCallTests, SlowCallTests):
    capability = contract.BacksUp
    name = "backup_creation"

    def prepared(self, harness):
        share = harness.share("text")
        return contract.BackupCreation(instance=share, backup=backup_of(share))

    def assert_done(self, harness, creation, outcome):
        assert creation.backup.id in harness.backups()
        harness.write(creation.instance, "later")
        assert restored(harness, creation.backup) == "text"

    def assert_as_before(self, harness, creation):
        assert creation.backup.id not in harness.backups()
        assert harness.read(creation.instance) == "text"

    def test_a_backup_outlives_its_share(self, harness, driver):
        creation = self.prepared(harness)
        run(driver, "backup_creation", creation)
        driver.delete(creation.instance)
        assert restored(harness, creation.backup) == "text"

    def test_a_deleted_backup_is_gone_and_cannot_be_restored(self, harness, driver, share):
        creation = self.prepared(harness)
        run(driver, "backup_creation", creation)
        twice(driver.delete_backup, creation.backup)
        assert creation.backup.id not in harness.backups()
        gone(driver.start_restore, contract.Restore(instance=share, backup=creation.backup))

    def test_a_share_that_is_gone_is_not_backed_up(self, harness, driver):
        lost = harness.instance()
        gone(driver.start_backup_creation, contract.BackupCreation(instance=lost, backup=backup_of(lost)))


class TestRestores(LongCallTests, SlowCallTests):
    capability = contract.BacksUp
    name = "restore"

    def prepared(self, harness):
        source = harness.share("text")
        backup = backup_of(source)
        run(harness.driver, "backup_creation", contract.BackupCreation(instance=source, backup=backup))
        return contract.Restore(instance=harness.share("own"), backup=backup)

    def assert_done(self, harness, restore, outcome):
        assert harness.read(restore.instance) == "text"
        assert restore.backup.id in harness.backups()

    def assert_as_before(self, harness, restore):
        assert harness.read(restore.instance) == "own"
        assert restore.backup.id in harness.backups()

    def assert_cancelled(self, harness, restore):
        assert harness.read(restore.instance) in {"own", "text"}
        assert restore.backup.id in harness.backups()
