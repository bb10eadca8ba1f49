# SPDX-License-Identifier: Apache-2.0
"""The local driver with what lies below it and beside it: full disks, mounted ones, and what is in its files' way."""

import contextlib
import os
import shutil
import signal
import stat
import sys
from pathlib import Path

import pytest

from abaca.drivers import contract
from abaca.drivers.clients import btrfs
from abaca.drivers.exports.ganesha import Patience
from lab import processes
from tests.conftest import wait_until
from tests.drivers.harness import GIB, LocalHarness, rules, snapshot
from tests.drivers.test_local_system import answer, exports, pid_of

pytestmark = pytest.mark.system


@pytest.fixture
def fresh():
    """A back end that is not started."""
    made = LocalHarness()
    yield made
    made.close()


def test_a_daemon_comes_back_once_what_lay_in_the_way_of_its_files_is_gone(fresh, caplog):
    fresh.start()
    file = fresh.directory / "ganesha" / "start.log"
    file.unlink()
    file.mkdir()
    os.kill(pid_of(fresh, "ganesha"), signal.SIGKILL)
    wait_until(lambda: "does not come back" in caplog.text)
    with pytest.raises(contract.Unreachable, match="Is a directory"):
        fresh.driver.pools()
    file.rmdir()
    wait_until(lambda: answer(fresh) is not None)


def test_a_disk_that_an_operator_mounted_for_the_pool_stays_mounted(fresh):
    with contextlib.ExitStack() as stack:
        for place in (fresh.directory, fresh.directory / "other"):
            place.mkdir(exist_ok=True)
            processes.command(["mount", "-t", "tmpfs", "-o", "size=600M", "tmpfs", str(place)])
            stack.callback(processes.command, ["umount", str(place)])
        fresh.start()
        instance = fresh.instance()
        fresh.driver.create(instance)
        fresh.driver.shutdown()
        assert (fresh.directory / "other").is_mount()
        fresh.start()
        assert fresh.held() == {instance.id}
        fresh.driver.shutdown()


def test_a_pool_grows_with_its_setting(fresh):
    fresh.start(pool_size_gib="1")
    assert fresh.driver.pools()[0].total_gib == 1
    fresh.start(pool_size_gib="2")
    assert fresh.driver.pools()[0].total_gib == 2


@pytest.mark.parametrize("ended", ["stop", "shutdown"])
def test_a_pool_whose_worker_died_while_it_grew_goes_on_growing(fresh, ended):
    fresh.start(pool_size_gib="1")
    getattr(fresh.driver, ended)()
    os.truncate(fresh.directory / "pool.img", 2 * GIB)  # so far it had come
    fresh.start(pool_size_gib="2")
    assert fresh.driver.pools()[0].total_gib == 2


def test_other_users_of_the_host_cannot_read_a_pool_wherever_its_file_is(fresh):
    image = fresh.directory.parent / "elsewhere.img"
    before = os.umask(0o022)
    try:
        fresh.start(pool_image=str(image))
    finally:
        os.umask(before)
    assert stat.filemode(image.stat().st_mode) == "-rw-------"


def test_a_file_in_the_place_of_one_share_s_mount_keeps_the_others_served(fresh):
    fresh.start()
    hurt, whole = fresh.instance(), fresh.instance()
    for instance in (hurt, whole):
        fresh.driver.create(instance)
    fresh.driver.shutdown()
    fresh.mounted(hurt).rmdir()
    fresh.mounted(hurt).write_text("somebody else's")
    fresh.start()
    assert set(exports(fresh)) == {str(fresh.mounted(whole))}
    assert "is in the way" in fresh.driver.ensure([hurt])[hurt.id].reason
    assert fresh.mounted(hurt).read_text() == "somebody else's"
    fresh.mounted(hurt).unlink()
    fresh.driver.ensure([hurt])
    assert set(exports(fresh)) == {str(fresh.mounted(hurt)), str(fresh.mounted(whole))}


def test_an_export_whose_server_hung_while_it_was_made_is_found_again(fresh):
    fresh.start()
    fresh.driver.host.ganesha.patience = Patience(answer_s=60)  # it is let live, and comes to itself
    fresh.driver.host.ganesha._bus._timeout_s = 3
    instance = fresh.instance()
    pid = pid_of(fresh, "ganesha")
    with processes.frozen(pid), pytest.raises(contract.Unreachable, match="did not answer"):
        fresh.driver.create(instance)
    wait_until(lambda: str(fresh.mounted(instance)) in exports(fresh))  # it does what it was asked, late
    assert pid_of(fresh, "ganesha") == pid
    fresh.driver.create(instance)
    fresh.driver.delete(instance)
    assert exports(fresh) == {}


def test_an_export_whose_server_hangs_while_it_is_made_is_made_by_the_next(fresh):
    fresh.driver = fresh.build()
    fresh.driver.host.ganesha.patience = Patience(every_s=0.2, answer_s=0.5, times=2)
    fresh.driver.start()
    instance = fresh.instance()
    pid = pid_of(fresh, "ganesha")
    processes.freeze(pid)
    fresh.driver.create(instance)
    assert pid_of(fresh, "ganesha") != pid
    assert set(exports(fresh)) == {str(fresh.mounted(instance))}


def disk(image, place, *, is_new=False):
    """Mounts a file with ext4 in it."""
    if is_new:
        with image.open("wb") as file:
            file.truncate(64 << 20)
        processes.command(["mkfs.ext4", "-q", str(image)])
    place.mkdir(exist_ok=True)
    processes.command(["mount", "-o", "loop", str(image), str(place)])


@pytest.mark.parametrize("last", ["rules", "deletion"])
def test_a_power_cut_brings_no_rule_and_no_export_back(fresh, last):
    place, image, cut = (fresh.directory.parent / name for name in ("cut", "disk.img", "cut.img"))
    with contextlib.ExitStack() as stack:
        disk(image, fresh.directory / "ganesha", is_new=True)
        stack.callback(processes.command, ["umount", str(fresh.directory / "ganesha")])
        fresh.start()
        stack.callback(fresh.driver.shutdown)
        kept, gone = fresh.instance(), fresh.instance()
        for instance in (kept, gone):
            fresh.driver.create(instance)
        fresh.driver.set_access(kept, rules("10.0.0.1 rw", "10.0.0.2 rw"))
        os.sync()
        if last == "rules":
            fresh.driver.delete(gone)
        fresh.driver.set_access(kept, rules("10.0.0.1 rw"))
        fresh.driver.delete(gone)
        shutil.copy(image, cut)  # what had reached the disk at this moment
        disk(cut, place)
        stack.callback(processes.command, ["umount", str(place)])
        (file,) = (place / "exports").iterdir()
        assert "10.0.0.1" in file.read_text()
        assert "10.0.0.2" not in file.read_text()


@pytest.fixture
def cramped(fresh):
    """A back end with a disk of 2 MiB for its exports, and a way to fill it but for one page."""
    place = fresh.directory / "ganesha"
    place.mkdir()
    processes.command(["mount", "-t", "tmpfs", "-o", "size=2M", "tmpfs", str(place)])

    def fill():
        assert place.is_mount()
        with (place / "filler").open("ab", buffering=0) as file, contextlib.suppress(OSError):
            for _ in range(512):
                file.write(bytes(4096))
        os.truncate(place / "filler", (place / "filler").stat().st_size - 4096)

    fresh.start()
    yield fresh, fill
    fresh.driver.shutdown()
    processes.command(["umount", str(place)])


def test_a_full_disk_leaves_exports_as_they_were_until_there_is_room(cramped):
    harness, fill = cramped
    instance = harness.instance()
    harness.driver.create(instance)
    harness.driver.set_access(instance, rules("10.0.0.1 rw"))
    file = next((harness.directory / "ganesha" / "exports").iterdir())
    written, many = file.read_text(), rules(*(f"10.0.{number}.1 rw" for number in range(250)))
    fill()
    with pytest.raises(contract.Unreachable, match="No space left"):
        harness.driver.set_access(instance, many)
    assert file.read_text() == written
    os.kill(pid_of(harness, "ganesha"), signal.SIGKILL)
    with pytest.raises(contract.Unreachable):
        harness.driver.set_access(instance, many)
    (harness.directory / "ganesha" / "filler").unlink()
    assert wait_until(lambda: answer(harness)) == {str(harness.mounted(instance)): [("10.0.0.1/32", "rw")]}
    harness.driver.set_access(instance, many)
    assert len(harness.clients(instance)) == 250


def make_full(fresh, share):
    """Not one block more finds room there."""
    used_bytes = btrfs.usage(fresh.mounted(share), btrfs.tree_id(fresh.mounted(share)))[0]
    processes.command(["btrfs", "qgroup", "limit", str(used_bytes), str(fresh.mounted(share))])
    with pytest.raises(OSError, match="quota"):
        fresh.mounted(share).chmod(0o700)


def test_a_share_that_is_full_to_the_last_byte_grows_and_goes_as_any_other(fresh):
    fresh.start()
    share, other = fresh.share(), fresh.share()
    for one in (share, other):
        fresh.fill(one, 0.5)
    os.sync()
    for one in (share, other):
        make_full(fresh, one)
    taken = snapshot(share)
    fresh.driver.create_snapshot(taken)
    fresh.driver.extend(share, 2)
    fresh.write(share, "there is room")
    fresh.driver.revert(taken, [])
    assert fresh.read(share) != "there is room"
    assert fresh.limit_bytes(share) == GIB
    for one in (share, other):
        fresh.driver.delete(one)
    fresh.driver.delete_snapshot(taken)
    assert fresh.held() == fresh.snapshots() == set()


# What is counted


def lose_count(fresh):
    """The kernel cannot follow any more what is used, and says so."""
    about_to_lose_count(fresh)()
    assert not is_counted(fresh)


def about_to_lose_count(fresh):
    """What makes the kernel lose count when it is called: a group is given what is shared with others."""
    pool, share = str(fresh.directory / "pool"), fresh.share()
    fresh.fill(share, 0.5)
    fresh.driver.create_snapshot(snapshot(share))
    os.sync()
    tree = processes.command(["btrfs", "inspect-internal", "rootid", str(fresh.mounted(share))]).strip()
    processes.command(["btrfs", "qgroup", "create", "1/1", pool])

    def lose():
        processes.command(["btrfs", "qgroup", "assign", "--no-rescan", f"0/{tree}", "1/1", pool])
        os.sync()

    return lose


def is_counted(fresh):
    uuid = processes.command(["findmnt", "-n", "-o", "UUID", str(fresh.directory / "pool")]).strip()
    return Path(f"/sys/fs/btrfs/{uuid}/qgroups/inconsistent").read_text() == "0\n"


def test_a_share_does_not_shrink_while_the_kernel_has_lost_count_of_what_is_in_it(fresh):
    fresh.start()
    instance = fresh.instance(size_gib=2)
    lose_count(fresh)
    fresh.driver.create(instance)
    fresh.fill(instance, 2)
    usual, fresh.driver.pool.counting_s = fresh.driver.pool.counting_s, 0
    with pytest.raises(contract.Refused, match="counted anew: try again later"):
        fresh.driver.shrink(instance, 1)
    fresh.driver.pool.counting_s = usual
    with pytest.raises(contract.Refused, match=r"2\.00 GiB are in use"):
        fresh.driver.shrink(instance, 1)
    assert (fresh.size_gib(instance), is_counted(fresh)) == (2, True)


def test_a_usage_of_which_the_kernel_has_lost_count_is_unknown_until_the_next_report_has_it_counted(fresh):
    fresh.start()
    share = fresh.instance(size_gib=2)
    lose_count(fresh)
    fresh.driver.create(share)
    fresh.fill(share, 1)
    fresh.settle()
    assert fresh.driver.measure_usage([share]) == {}
    fresh.driver.pools()
    seen = wait_until(lambda: fresh.driver.measure_usage([share]), 30)
    assert seen[share.id].used_gib == pytest.approx(1, abs=0.05)


@pytest.fixture
def when_it_is_asked():
    """`when_it_is_asked.append(moment)`: called with the request's number before the kernel is asked anything."""
    moments = []

    def hook(event, arguments):
        if event == "fcntl.ioctl":
            for moment in [*moments]:
                moment(arguments[1])

    sys.addaudithook(hook)  # for ever
    yield moments
    moments.clear()


def test_a_shrink_whose_outcome_is_not_known_keeps_the_old_limit(fresh, when_it_is_asked):
    """The kernel loses count once the new limit is in force, before it says what is in use."""
    fresh.start()
    instance = fresh.instance(size_gib=2)
    fresh.driver.create(instance)
    lose = about_to_lose_count(fresh)
    asked = []

    def moment(number):
        asked.append(number)
        if number == btrfs._INO_LOOKUP and btrfs._SET_LIMIT in asked:
            when_it_is_asked.remove(moment)
            lose()

    when_it_is_asked.append(moment)
    with pytest.raises(contract.UnderWay, match="counted anew"):
        fresh.driver.shrink(instance, 1)
    assert fresh.size_gib(instance) == 2


def test_one_that_was_deleted_is_not_forgotten_before_the_kernel_has_counted_it_out(fresh, when_it_is_asked):
    """It is gone from the list of subvolumes a moment before."""
    fresh.start()
    pool, share = fresh.directory / "pool", fresh.share()
    fresh.fill(share, 0.5)
    for number in range(500):
        (fresh.mounted(share) / str(number)).write_text("text" * 500)
    os.sync()
    tree = int(processes.command(["btrfs", "inspect-internal", "rootid", str(fresh.mounted(share))]))

    def until_it_is_gone():
        btrfs.sync(pool)
        wait_until(lambda: tree not in btrfs.trees(pool), 60, every_s=0)

    when_it_is_asked.append(lambda number: until_it_is_gone() if number == btrfs._QGROUP_CREATE else None)
    fresh.driver.delete(share)
    os.sync()
    assert is_counted(fresh)
