# SPDX-License-Identifier: Apache-2.0
"""What a mounted kernel client of the local driver lives through, without ever mounting again unless it says so."""

import os
import signal
import time

import pytest

from abaca.drivers.exports.ganesha import Patience
from lab import fabric, guest, processes
from tests.conftest import ROOT, wait_until
from tests.drivers import held_threads
from tests.drivers.harness import LocalHarness, rules, snapshot

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def local():
    made = LocalHarness()
    try:
        made.network = fabric.Fabric(made.run)
        made.start(export_ips=f"{made.network.host_ipv4},{made.network.host_ipv6}", nfs_minor_versions="1,2")
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def machine(local):
    with guest.Guest(local.network, "client") as started:
        yield started


@pytest.fixture
def share(local, machine):
    """A share that the machine may write, mounted at /mnt/share."""
    instance = local.instance()
    exports = local.driver.create(instance).exports
    local.driver.set_access(instance, rules(f"{machine.ipv4} rw", f"{machine.ipv6} rw"))
    mount(local, machine, exports[0])
    yield instance
    machine.run(["umount", "-f", "-l", "/mnt/share"])
    local.driver.delete(instance)


def mount(local, machine, export):
    machine.check(["mkdir", "-p", "/mnt/share"])
    machine.check(["mount", "-t", "nfs4", "-o", f"vers=4.2,port={local.port}", export.path, "/mnt/share"])


def write(machine, text="text"):
    return machine.script(f"echo {text} > /mnt/share/file && sync -f /mnt/share/file 2>&1")


def test_both_address_families_lead_to_the_share(local, machine, share):
    assert write(machine).code == 0
    machine.check(["umount", "/mnt/share"])
    mount(local, machine, local.driver.create(share).exports[1])
    assert machine.check(["cat", "/mnt/share/file"]) == "text\n"
    assert local.read(share) == "text\n"


def test_an_ordinary_user_has_files_of_his_own(local, machine, share):
    machine.check(["sh", "-c", "echo user:x:1234:1234::/:/bin/sh >> /etc/passwd"])
    machine.check(["su", "-s", "/bin/sh", "user", "-c", "mkdir /mnt/share/own && echo mine > /mnt/share/own/file"])
    assert (local.mounted(share) / "own" / "file").stat().st_uid == 1234
    machine.check(["chmod", "700", "/mnt/share/own"])
    assert machine.check(["su", "-s", "/bin/sh", "user", "-c", "cat /mnt/share/own/file"]) == "mine\n"


def test_changes_of_access_reach_a_mounted_client_at_once(local, machine, share):
    assert write(machine).code == 0
    local.driver.set_access(share, rules(f"{machine.ipv4} ro"))
    assert "Read-only" in write(machine).stderr
    assert machine.check(["cat", "/mnt/share/file"]) == "text\n"
    local.driver.set_access(share, [])
    assert machine.run(["ls", "/mnt/share"]).code != 0
    local.driver.set_access(share, rules("10.0.0.0/8 ro", f"{machine.ipv4} rw"))
    assert write(machine).code == 0


def test_a_full_share_says_so_and_takes_more_once_it_has_grown(local, machine, share):
    fill = ["dd", "if=/dev/zero", "of=/mnt/share/big", "bs=1M", "count=1100", "conv=fsync"]
    refused = machine.run(fill, timeout_s=120)
    assert "quota" in refused.stderr.lower()
    local.driver.extend(share, 2)
    machine.check(fill, timeout_s=120)


@pytest.mark.parametrize("daemon", ["ganesha", "bus"])
def test_a_client_that_writes_outlives_a_killed_server(local, machine, share, daemon):
    machine.script(
        "(for n in $(seq 1 60); do echo $n >> /mnt/share/log || exit 1; sleep 0.1; done; echo end >> /mnt/share/log) &"
    )
    written = local.mounted(share) / "log"
    wait_until(lambda: written.exists() and len(written.read_text().splitlines()) > 5)
    os.kill(int((local.directory / "ganesha" / f"{daemon}.pid").read_text()), signal.SIGKILL)
    wait_until(lambda: written.read_text().endswith("end\n"), every_s=0.2)
    assert written.read_text().split() == [*map(str, range(1, 61)), "end"]


HOLD_AND_WRITE = """
    exec 9> /mnt/share/held
    flock -n 9 || exit 1
    rm -f /tmp/said /tmp/stop
    (
        n=0
        while [ ! -e /tmp/stop ]; do
            n=$((n + 1))
            echo $n | dd bs=64 conv=fsync >&9 2>> /tmp/said || echo failed >> /tmp/said
        done
        echo end >&9
    ) > /dev/null 2>&1 &
"""


@pytest.fixture
def neighbour(local):
    """A second machine, which would take whatever lock the first one loses."""
    with guest.Guest(local.network, "neighbour") as started:
        yield started


@pytest.mark.parametrize("hung", ["ganesha", "bus", "nfs"])
def test_a_hung_server_is_noticed_in_time_and_its_client_keeps_its_open_file_and_its_lock(
    local, machine, neighbour, share, hung
):
    """The file is opened once, before, and has no other name for its writer than the descriptor."""
    daemon = "bus" if hung == "bus" else "ganesha"
    ganesha, record = local.driver.host.ganesha, local.directory / "ganesha" / f"{daemon}.pid"
    local.driver.set_access(share, rules(f"{machine.ipv4} rw", f"{neighbour.ipv4} rw"))
    mount(local, neighbour, local.driver.create(share).exports[0])
    assert machine.script(HOLD_AND_WRITE).code == 0
    written = local.mounted(share) / "held"
    wait_until(lambda: len(written.read_text().splitlines()) > 5)
    assert neighbour.run(["flock", "-n", "/mnt/share/held", "true"]).code == 1
    usual, ganesha.patience = ganesha.patience, Patience(every_s=0.2, answer_s=0.5)
    pid, frozen_s = int(record.read_text()), time.monotonic()
    with held_threads.held(pid) if hung == "nfs" else processes.frozen(pid):
        wait_until(lambda: not processes.alive(pid))
    noticed_s = time.monotonic() - frozen_s
    ganesha.patience = usual
    assert noticed_s < usual.within_s
    before = len(written.read_text().splitlines())
    wait_until(lambda: len(written.read_text().splitlines()) > before + 5, every_s=0.2)
    assert neighbour.run(["flock", "-n", "/mnt/share/held", "true"], timeout_s=60).code == 1
    machine.script(": > /tmp/stop")
    wait_until(lambda: written.read_text().endswith("end\n"))
    numbers = written.read_text().split()
    assert numbers == [*map(str, range(1, len(numbers))), "end"]
    assert "failed" not in machine.check(["cat", "/tmp/said"])
    assert neighbour.run(["flock", "-n", "/mnt/share/held", "true"], timeout_s=30).code == 0
    neighbour.check(["umount", "/mnt/share"])


def test_the_page_says_how_soon_a_hung_server_is_noticed():
    assert f"within {Patience().within_s:g} seconds" in (ROOT / "docs/drivers/local.md").read_text()


def test_a_client_does_not_notice_that_the_worker_starts_again(local, machine, share):
    local.driver.stop()
    assert write(machine, "meanwhile").code == 0
    local.driver.start()
    assert machine.check(["cat", "/mnt/share/file"]) == "meanwhile\n"


def test_after_a_revert_the_client_mounts_again_and_sees_the_old_content(local, machine, share):
    write(machine, "before")
    taken = snapshot(share)
    local.driver.create_snapshot(taken)
    write(machine, "after")
    local.driver.revert(taken, rules(f"{machine.ipv4} rw"))
    assert "Stale" in machine.run(["cat", "/mnt/share/file"]).stderr
    machine.check(["umount", "-f", "/mnt/share"])
    mount(local, machine, local.driver.create(share).exports[0])
    assert machine.check(["cat", "/mnt/share/file"]) == "before\n"
    local.driver.delete_snapshot(taken)


def test_a_share_is_deleted_while_a_client_has_it_open(local, machine, share):
    machine.script("exec 9> /mnt/share/open; (sleep 30 >&9) >/dev/null 2>&1 &")
    local.driver.delete(share)
    assert share.id not in local.held()
    assert machine.run(["ls", "/mnt/share"]).code != 0
