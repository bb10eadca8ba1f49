# SPDX-License-Identifier: Apache-2.0
"""The local driver with what it stands on: daemons that die, devices that hold something, clients that look in."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from jeepney import DBusAddress, HeaderFields, new_method_call, new_signal
from jeepney.io.blocking import open_dbus_connection

from abaca.drivers import contract
from abaca.drivers.exports.daemon import LOG_BYTES
from abaca.drivers.exports.ganesha import Patience
from lab import processes
from tests.conftest import wait_until
from tests.drivers import held_threads
from tests.drivers.harness import GIB, LocalHarness, rules, snapshot

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def local():
    """A back end with real btrfs and a real NFS-Ganesha, for all tests that leave it whole."""
    made = LocalHarness()
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def fresh():
    """A back end that is not started."""
    made = LocalHarness()
    yield made
    made.close()


@pytest.fixture
def share(local):
    instance = local.instance()
    local.driver.create(instance)
    yield instance
    local.driver.delete(instance)


def pid_of(harness, daemon):
    return int((harness.directory / "ganesha" / f"{daemon}.pid").read_text())


def exports(harness):
    return {path: shown.clients for path, shown in harness.shown().items() if path != "/"}


def answer(harness):
    """All exports, None while nobody answers."""
    try:
        return exports(harness)
    except Exception:  # noqa: BLE001 - whatever a daemon in the middle of starting does
        return None


def start_of(path, size=1 << 20):
    with path.open("rb") as file:
        return file.read(size)


def take_all(file, size):
    while True:
        os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), size)


# What outlives what


@pytest.mark.parametrize("daemon", ["ganesha", "bus"])
def test_a_killed_daemon_comes_back_by_itself_with_all_exports(local, share, daemon):
    local.driver.set_access(share, rules("10.0.0.1 rw", "10.0.0.0/8 ro"))
    before, pid = exports(local), pid_of(local, "ganesha")
    os.kill(pid_of(local, daemon), signal.SIGKILL)
    assert wait_until(lambda: answer(local)) == before
    assert pid_of(local, "ganesha") != pid


def test_a_call_finds_a_killed_daemon_started_again(local, share):
    os.kill(pid_of(local, "ganesha"), signal.SIGKILL)
    local.driver.set_access(share, rules("10.0.0.2 rw"))
    assert local.clients(share) == {("10.0.0.2", "rw")}


@pytest.fixture
def impatient(fresh):
    """A back end whose NFS server is asked again and again."""
    fresh.start()
    fresh.driver.host.ganesha.patience = Patience(every_s=0.2, answer_s=0.5, times=2)
    return fresh


def test_a_hung_daemon_is_noticed_while_calls_are_under_way(impatient):
    """One that was under way when it hung waits for its answer much longer than the watcher may."""
    instance, ended, served_by = impatient.instance(), threading.Event(), []
    impatient.driver.create(instance)

    def call():
        number = 0
        while not ended.is_set():
            number += 1
            with contextlib.suppress(contract.Unreachable):
                before = pid_of(impatient, "ganesha")
                impatient.driver.set_access(instance, rules(f"10.0.0.{number % 200 + 1} rw"))
                if before == pid_of(impatient, "ganesha"):
                    served_by.append(before)

    with ThreadPoolExecutor(1) as pool:
        calls = pool.submit(call)
        try:
            for times in range(3):
                # One that is still starting may be silent for long: its start has a limit of its own.
                wait_until(lambda times=times: len(set(served_by)) > times)
                pid = served_by[-1]
                frozen_s = time.monotonic()
                processes.freeze(pid)
                wait_until(lambda pid=pid: not processes.alive(pid))
                # Besides what its patience allows: a slow machine, and a call that waits for its own.
                assert time.monotonic() - frozen_s < Patience().within_s
        finally:
            ended.set()
        calls.result()


def test_a_daemon_that_answers_on_its_bus_and_no_client_is_noticed(impatient, caplog):
    instance = impatient.share("text")
    impatient.driver.set_access(instance, rules("127.0.0.1 ro"))
    pid = pid_of(impatient, "ganesha")
    with held_threads.held(pid):
        wait_until(lambda: not processes.alive(pid))
    assert "it answers on its bus alone" in caplog.text
    wait_until(lambda: "file" in (impatient.probe(instance) or ""))


def test_a_large_log_is_put_aside_and_the_daemon_goes_on_in_a_new_one(fresh):
    fresh.start()
    log = fresh.directory / "ganesha" / "ganesha.log"
    os.truncate(log, LOG_BYTES)
    put_aside = log.with_suffix(".log.1")
    wait_until(put_aside.exists)
    assert put_aside.stat().st_size >= LOG_BYTES
    fresh.driver.create(fresh.instance())
    os.kill(pid_of(fresh, "ganesha"), signal.SIGTERM)
    wait_until(lambda: log.exists() and log.stat().st_size)


def test_a_worker_that_starts_takes_over_the_running_daemon(local, share):
    pids = pid_of(local, "ganesha"), pid_of(local, "bus")
    local.start()
    local.driver.set_access(share, rules("10.0.0.3 ro"))
    assert (pid_of(local, "ganesha"), pid_of(local, "bus")) == pids
    assert local.clients(share) == {("10.0.0.3", "ro")}


def test_a_daemon_with_other_settings_is_replaced(fresh):
    fresh.start()
    pid, instance = pid_of(fresh, "ganesha"), fresh.instance()
    fresh.driver.create(instance)
    fresh.start(grace_s="12")
    assert pid_of(fresh, "ganesha") != pid
    assert str(fresh.mounted(instance)) in exports(fresh)


def test_a_daemon_that_nobody_can_reach_is_ended_and_its_reason_told(fresh, tmp_path, monkeypatch):
    processes.need("strace", package="strace")
    program = tmp_path / "ganesha.nfsd"
    refused = "strace -D -f -qq -o /dev/null -e trace=listen -e inject=listen:error=EADDRINUSE"
    program.write_text(f'#!/bin/sh\nexec {refused} {processes.find("ganesha.nfsd")} "$@"\n')
    program.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        with pytest.raises(contract.Unreachable, match=f"does not listen on port {fresh.port}"):
            fresh.start()
    assert not (fresh.directory / "ganesha" / "ganesha.pid").exists()
    fresh.start()
    assert exports(fresh) == {}


def test_only_one_process_works_with_a_pool(local):
    second = local.build()
    with pytest.raises(contract.Unreachable, match=str(os.getpid())):
        second.start()


def test_shutting_down_leaves_nothing_but_the_data(fresh):
    fresh.start()
    instance = fresh.instance()
    fresh.driver.create(instance)
    fresh.driver.set_access(instance, rules("10.0.0.1 rw"))
    fresh.write(instance, "kept")
    fresh.driver.stop()
    fresh.driver.shutdown()
    assert [line for line in fresh.run.leftovers() if not line.startswith("directory")] == []
    fresh.driver.start()
    assert (fresh.read(instance), fresh.clients(instance)) == ("kept", {("10.0.0.1", "rw")})


def test_it_serves_in_a_network_namespace(fresh):
    name = f"{fresh.run.prefix}n"
    processes.command(["ip", "netns", "add", name])
    processes.command(["ip", "-n", name, "link", "set", "lo", "up"])
    fresh.start(ganesha_netns=f"/run/netns/{name}")
    instance = fresh.instance()
    fresh.driver.create(instance)
    fresh.driver.set_access(instance, rules("127.0.0.1 rw"))
    fresh.write(instance, "inside")
    place = f"nfs://127.0.0.1/shares/{instance.id}?version=4&nfsport={fresh.port}"
    assert "file" in processes.command(["nsenter", f"--net=/run/netns/{name}", "nfs-ls", place])
    assert fresh.probe(instance) is None


# What clients see


def test_only_the_addresses_of_the_rules_may_mount(local, share):
    local.write(share, "text")
    assert local.probe(share) is None
    local.driver.set_access(share, rules("127.0.0.1 ro"))
    assert "file" in local.probe(share)
    assert local.probe(share, "::1") is None
    local.driver.set_access(share, rules("::1 rw"))
    assert "file" in local.probe(share, "::1")
    assert local.probe(share) is None


@pytest.mark.parametrize(("to", "open_to"), [("0.0.0.0/0", "127.0.0.1"), ("::/0", "::1"), ("127.0.0.0/8", "127.0.0.1")])
def test_a_network_opens_the_share_to_its_own_family_alone(local, share, to, open_to):
    local.write(share, "text")
    local.driver.set_access(share, rules(f"{to} ro"))
    assert {address for address in ("127.0.0.1", "::1") if local.probe(share, address)} == {open_to}


def test_a_mount_point_name_is_mounted_and_belongs_to_one_share(local):
    first, second = (local.instance(mount_point_name="books") for _ in range(2))
    local.driver.create(first)
    local.driver.set_access(first, rules("127.0.0.1 ro"))
    local.write(first, "text")
    assert "file" in local.probe(first)
    with pytest.raises(contract.Refused, match="taken"):
        local.driver.create(second)
    local.driver.delete(second)
    local.driver.delete(first)
    assert second.id not in local.held()


def test_a_snapshot_is_mounted_read_only(local, share):
    local.write(share, "then")
    taken = snapshot(share)
    local.driver.create_snapshot(taken)
    local.driver.export_snapshot(taken)
    local.driver.set_snapshot_access(taken, rules("127.0.0.1 rw"))
    shown = exports(local)[str(local.directory / "snapshots" / taken.id)]
    assert shown == [("127.0.0.1/32", "ro")]
    place = f"nfs://127.0.0.1/snapshots/{taken.id}?version=4&nfsport={local.port}"
    assert "file" in processes.command(["nfs-ls", place])
    local.driver.delete_snapshot(taken)
    assert str(local.directory / "snapshots" / taken.id) not in exports(local)


def test_a_hundred_rules_are_one_change_on_the_daemon(local, share):
    bus = f"unix:path={local.directory}/ganesha/bus.sock"
    monitoring = DBusAddress("/org/freedesktop/DBus", "org.freedesktop.DBus", "org.freedesktop.DBus.Monitoring")
    wanted = ["member='UpdateExport'", "member='TheEnd'"]
    with open_dbus_connection(bus=bus) as monitor, open_dbus_connection(bus=bus) as other:
        monitor.send_and_get_reply(new_method_call(monitoring, "BecomeMonitor", "asu", (wanted, 0)))
        local.driver.set_access(share, rules(*(f"10.0.1.{number} rw" for number in range(1, 101))))
        other.send(new_signal(DBusAddress("/", interface="abaca.tests"), "TheEnd"))
        seen = []
        while "TheEnd" not in seen:
            seen.append(monitor.receive(timeout=20).header.fields.get(HeaderFields.member))
    assert seen.count("UpdateExport") == 1


def test_a_full_share_takes_no_more_and_its_limit_is_its_own(local, share):
    with pytest.raises(OSError, match="quota") as refused:
        local.fill(share, 1.5)
    assert refused.value.errno == errno.EDQUOT
    taken = snapshot(share)
    local.driver.create_snapshot(taken)
    clone = local.instance(size_gib=3)
    local.driver.create_from_snapshot(clone, taken)
    assert (local.limit_bytes(clone), local.limit_bytes(share)) == (3 * GIB, GIB)
    local.driver.delete(clone)
    local.driver.delete_snapshot(taken)


def test_usage_is_measured(local, share):
    local.fill(share, 0.5)
    os.sync()
    assert local.driver.measure_usage([share, local.instance()])[share.id].used_gib == pytest.approx(0.5, abs=0.01)


# What is never touched


def test_what_others_left_in_its_directories_stays(fresh):
    fresh.start()
    instance = fresh.instance()
    fresh.driver.create(instance)
    foreign = [
        fresh.directory / "pool" / "shares" / "foreign" / "file",
        fresh.directory / "pool" / "private" / "file",
        fresh.directory / "shares" / "note",
        fresh.directory / "ganesha" / "exports" / "operators-own.conf",
    ]
    for path in foreign:
        path.parent.mkdir(exist_ok=True)
        path.write_text("# Export_Id = 2;\n")
    fresh.driver.ensure([instance])
    fresh.driver.delete(instance)
    fresh.driver.stop()
    fresh.driver.shutdown()
    fresh.start()
    assert all(path.read_text() == "# Export_Id = 2;\n" for path in foreign)
    second = fresh.instance()
    fresh.driver.create(second)
    assert not list((fresh.directory / "ganesha" / "exports").glob("00002-*"))


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, lambda path: path.symlink_to("/etc")])
def test_what_has_a_shares_name_but_is_no_subvolume_is_not_deleted(local, make):
    instance = local.instance()
    path = local.directory / "pool" / "shares" / instance.id
    make(path)
    for call in (local.driver.delete, local.driver.create):
        with pytest.raises(contract.Refused):
            call(instance)
    assert path.is_symlink() or path.exists()
    path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


@pytest.mark.parametrize("id", ["../b1", "", ".", "a b", "a/b", "-rf", 'a"b', "a" * 200])
def test_an_id_that_is_no_plain_name_is_refused(local, id):
    for call in (local.driver.create, local.driver.delete):
        with pytest.raises(contract.Refused):
            call(local.instance(id=id))


def test_a_share_in_use_on_the_host_is_busy_and_stays(local):
    instance = local.instance()
    local.driver.create(instance)
    with (local.mounted(instance) / "open").open("w"), pytest.raises(contract.Busy):
        local.driver.delete(instance)
    assert instance.id in local.held()
    local.driver.delete(instance)
    assert instance.id not in local.held()


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (["mkfs.ext4", "-q"], "ext4"),
        (["mkfs.btrfs", "-q", "-L", "abaca-other"], "abaca-other"),
        (["sh", "-c", 'printf data | dd of="$0" conv=notrunc seek=2 bs=1000 status=none'], "blkid"),
    ],
)
def test_a_device_that_holds_something_is_not_taken(fresh, prepare, reason):
    image = fresh.run.path("disk") / "image"
    processes.command(["truncate", "-s", "1G", str(image)])
    processes.command([*prepare, str(image)])
    before = start_of(image)
    device = processes.command(["losetup", "--find", "--show", str(image)]).strip()
    try:
        with pytest.raises(contract.Refused, match=reason):
            fresh.start(pool_device=device)
    finally:
        processes.command(["losetup", "--detach", device])
    assert start_of(image) == before


def test_an_empty_device_becomes_the_pool_and_is_known_again(fresh):
    image = fresh.run.path("disk") / "image"
    processes.command(["truncate", "-s", "1G", str(image)])
    device = processes.command(["losetup", "--find", "--show", str(image)]).strip()
    fresh.start(pool_device=device)
    instance = fresh.instance()
    fresh.driver.create(instance)
    fresh.write(instance, "text")
    fresh.start(pool_device=device)
    assert fresh.read(instance) == "text"
    fresh.driver.stop()
    fresh.driver.shutdown()
    processes.command(["losetup", "--detach", device])


def test_other_users_of_the_host_do_not_see_into_shares(local, share):
    local.write(share, "text")
    inside = local.directory / "pool" / "shares" / share.id
    for path in (local.mounted(share), inside, local.directory / "ganesha" / "exports"):
        with pytest.raises(processes.LabError, match="Permission denied"):
            processes.command(["setpriv", "--reuid=65534", "--clear-groups", "ls", str(path)])


# Room


def test_a_full_pool_takes_no_more_shares(fresh):
    fresh.start(pool_size_gib="1")
    instance = fresh.instance()
    fresh.driver.create(instance)
    with pytest.raises(OSError, match="space") as refused:
        fresh.fill(instance, 0.999)
    assert refused.value.errno == errno.ENOSPC
    for size in (1 << 26, 1 << 22, 1 << 16):
        with (fresh.directory / "pool" / "filler").open("ab") as file, pytest.raises(OSError, match="space"):
            take_all(file, size)
    with pytest.raises(contract.Full):
        fresh.driver.create(fresh.instance())
    fresh.driver.delete(instance)


# Repair


def test_exports_that_no_file_has_are_removed_at_start_and_missing_ones_added(fresh):
    fresh.start()
    kept, lost = fresh.instance(), fresh.instance()
    for instance in (kept, lost):
        fresh.driver.create(instance)
    fresh.driver.stop()
    directory = fresh.directory / "ganesha" / "exports"
    next(directory.glob(f"*{lost.id}.conf")).unlink()
    processes.command(["umount", "--lazy", str(fresh.mounted(kept))])
    fresh.driver.start()
    assert set(exports(fresh)) == {str(fresh.mounted(kept))}
    assert os.path.ismount(fresh.mounted(kept))


def test_a_damaged_export_file_is_put_aside_and_the_rules_are_asked_for(fresh):
    fresh.start()
    instance = fresh.instance()
    known = fresh.instance(id=instance.id, exports=fresh.driver.create(instance).exports)
    fresh.driver.set_access(instance, rules("10.0.0.1 rw"))
    fresh.driver.stop()
    next((fresh.directory / "ganesha" / "exports").glob(f"*{instance.id}.conf")).write_text("EXPORT { garbage")
    fresh.driver.shutdown()
    fresh.driver.start()
    assert fresh.driver.ensure([known])[instance.id].reapply_access_rules
    assert fresh.clients(instance) == set()


def test_a_share_whose_data_is_gone_is_not_served_empty(fresh):
    fresh.start()
    instance = fresh.instance()
    fresh.driver.create(instance)
    fresh.driver.stop()
    fresh.driver.shutdown()
    fresh.start()
    fresh.driver.stop()
    processes.command(["umount", "--lazy", str(fresh.mounted(instance))])
    processes.command(["btrfs", "subvolume", "delete", str(fresh.directory / "pool" / "shares" / instance.id)])
    fresh.driver.start()
    assert exports(fresh) == {}
    assert fresh.driver.ensure([instance])[instance.id].status == "error"


def test_an_export_id_is_not_used_again_soon(fresh):
    def ids():
        return {path.name[:5] for path in (fresh.directory / "ganesha" / "exports").iterdir()}

    seen = set()
    for _ in range(3):
        fresh.start()
        for _ in range(2):
            instance = fresh.instance()
            fresh.driver.create(instance)
            assert not ids() & seen
            seen |= ids()
            fresh.driver.delete(instance)


def test_what_is_missing_on_the_host_is_named_with_its_package(fresh):
    code = (
        "import sys; from pathlib import Path; from abaca.drivers import contract, load\n"
        "backend = contract.Backend(name='b1', host='h@b1', share_backend_name='B', state_dir=Path(sys.argv[1]))\n"
        "try: load.driver(backend, 'local', {}).start()\n"
        "except contract.Refused as refused: sys.stdout.write(refused.message)"
    )
    argv = [sys.executable, "-c", code, str(fresh.directory)]
    said = subprocess.run(argv, env={"PATH": "/nowhere"}, capture_output=True, text=True, check=True)
    assert "apt-get install btrfs-progs" in said.stdout
