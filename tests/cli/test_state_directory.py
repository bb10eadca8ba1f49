# SPDX-License-Identifier: Apache-2.0
"""A state directory is used by one at a time, on one host or from several."""

import itertools
import json
import os
import threading

import pytest

from abaca import errors
from abaca.cli import state_directory
from abaca.cli.state_directory import StateDirectory
from tests.conftest import wait_until


@pytest.fixture
def opened(tmp_path):
    made = []

    def opened(path=tmp_path / "state"):
        directory = StateDirectory(path)
        directory.prepare()
        made.append(directory)
        return directory

    yield opened
    for directory in made:
        directory.release()


def user(directory):
    return json.loads((directory.path / state_directory.SQLITE_USER).read_text())


def other_machine_writes(directory, beat=1):
    file = directory.path / state_directory.SQLITE_USER
    new = file.with_suffix(".new")
    new.write_text(json.dumps(["another-boot", "other.example.org", beat]))
    new.replace(file)


def test_it_is_made_with_what_is_above_it(opened, tmp_path):
    assert opened(tmp_path / "a" / "b").path.is_dir()


def test_a_second_user_of_a_lock_is_refused_by_the_firsts_pid(opened):
    opened().lock("run", "Mend it")
    with pytest.raises(errors.ConfigError, match=rf"is in use \(process {os.getpid()}\)\. Mend it"):
        opened().lock("run", "Mend it")


def test_a_lock_that_was_released_is_free(opened):
    first = opened()
    first.lock("run", "")
    first.release()
    opened().lock("run", "")


def test_locks_of_different_names_do_not_mind_each_other(opened):
    opened().lock("worker-a", "")
    opened().lock("worker-b", "")


def test_a_path_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.ConfigError, match="cannot be written: Not a directory"):
        StateDirectory(tmp_path / "file" / "state").prepare()


def test_a_database_that_another_machine_keeps_using_is_refused(opened):
    directory = opened()
    other_machine_writes(directory)
    is_over = threading.Event()

    def beat():
        for number in itertools.count(2):
            other_machine_writes(directory, number)
            if is_over.wait(0.05):
                return

    other_machine = threading.Thread(target=beat)
    other_machine.start()
    with pytest.raises(errors.ConfigError, match=r"in use on the host other\.example\.org.*use PostgreSQL"):
        directory.claim_sqlite(watch_s=5)
    is_over.set()
    other_machine.join()


def test_a_database_that_another_machine_has_left_is_taken_over(opened):
    directory = opened()
    other_machine_writes(directory)
    directory.claim_sqlite(watch_s=0.1)
    assert user(directory)[0] == state_directory.BOOT_ID.read_text().strip()


def test_programs_of_one_machine_share_a_database(opened):
    opened().claim_sqlite()
    opened().claim_sqlite(watch_s=0)


def test_a_kept_database_shows_that_it_is_in_use(opened):
    directory = opened()
    directory.claim_sqlite()
    before = user(directory)
    directory.keep_sqlite()
    wait_until(lambda: user(directory) != before)


def test_a_released_database_belongs_to_nobody(opened):
    directory = opened()
    directory.claim_sqlite()
    directory.keep_sqlite()
    directory.release()
    assert not (directory.path / state_directory.SQLITE_USER).exists()
