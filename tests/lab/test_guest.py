# SPDX-License-Identifier: Apache-2.0
"""Guests are real NFS 4.2 clients, reached without the network, and nothing of them stays."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import client, fabric, guest, processes, runs
from tests.conftest import ROOT, wait_until
from tests.lab.nfs_server import NfsServer

pytestmark = pytest.mark.system

MIB = 1 << 20
OWNER = """
import pathlib, select, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it
from lab import fabric, guest, processes, runs
run = runs.Run()
guest.Guest(fabric.Fabric(run), "orphan").start()
pathlib.Path(sys.argv[1]).write_text(str(run.record))
while True:
    select.select([], [], [], 0.1)  # a pause would not end by a signal that comes just before it
"""


@pytest.fixture(scope="module")
def run() -> Iterator[runs.Run]:
    with runs.Run() as run:
        yield run
    assert run.leftovers() == []


@pytest.fixture(scope="module")
def network(run: runs.Run) -> fabric.Fabric:
    return fabric.Fabric(run)


@pytest.fixture(scope="module")
def server(run: runs.Run) -> NfsServer:
    return NfsServer(run).start()


@pytest.fixture(scope="module")
def machine(network: fabric.Fabric) -> Iterator[guest.Guest]:
    with guest.Guest(network, "client") as machine:
        yield machine


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_a_guest_writes_and_reads_back_over_nfs(
    family: str, network: fabric.Fabric, server: NfsServer, machine: guest.Guest
) -> None:
    address = network.host_ipv4 if family == "ipv4" else f"[{network.host_ipv6}]"
    machine.check(["mkdir", "-p", "/mnt/share"])
    machine.check(["mount", "-t", "nfs4", "-o", f"vers=4.2,port={server.port}", f"{address}:/share", "/mnt/share"])
    machine.check(["dd", "if=/dev/urandom", "of=/mnt/share/data", "bs=1M", "count=100", "conv=fsync"])
    written = server.data / "data"
    assert written.stat().st_size == 100 * MIB
    machine.check(["sh", "-c", "echo 3 > /proc/sys/vm/drop_caches"])
    seen = machine.check(["sha256sum", "/mnt/share/data"]).split()[0]
    assert seen == processes.command(["sha256sum", str(written)]).split()[0]
    assert "vers=4.2" in machine.check(["cat", "/proc/mounts"])
    machine.check(["umount", "/mnt/share"])


def test_a_command_gives_its_code_and_both_outputs(machine: guest.Guest) -> None:
    assert machine.script("echo out; echo err >&2; exit 3") == guest.Result(3, "out\n", "err\n")
    assert len(machine.run(["seq", "100000"]).stdout.splitlines()) == 100000


def test_a_command_that_hangs_is_killed_and_the_guest_goes_on(machine: guest.Guest) -> None:
    with pytest.raises(processes.TimedOut):
        machine.run(["sleep", "60"], timeout_s=1)
    assert machine.script("ps | grep -c '[s]leep 60'").stdout == "0\n"


def test_a_guest_answers_without_its_network(machine: guest.Guest) -> None:
    machine.check(["ip", "link", "set", "vec0", "down"])
    assert machine.check(["hostname"]) == "client\n"
    machine.check(["ip", "link", "set", "vec0", "up"])


def test_a_guest_is_reached_by_ssh_with_a_known_key(machine: guest.Guest, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    known.write_text(f"{machine.ssh.host} {machine.ssh.host_key}\n")
    options = ["-o", "StrictHostKeyChecking=yes", "-o", f"UserKnownHostsFile={known}", "-o", "BatchMode=yes"]
    login = f"{machine.ssh.user}@{machine.ssh.host}"
    answer = processes.command(["ssh", "-i", str(machine.ssh.private_key), *options, login, "hostname"])
    assert answer == "client\n"


def test_guests_started_together_have_their_own_addresses(network: fabric.Fabric) -> None:
    machines = guest.start_all(network, ["one", "two", "three"])
    assert len({machine.ipv4 for machine in machines} | {machine.ipv6 for machine in machines}) == 6
    assert [machine.check(["hostname"]).strip() for machine in machines] == ["one", "two", "three"]
    machines[0].check(["ping", "-c", "1", "-W", "5", machines[2].ipv4])
    machines[0].check(["ping6", "-c", "1", "-W", "5", machines[2].ipv6])
    for machine in machines:
        machine.stop()


def test_a_guest_boots_again_under_its_addresses_after_a_power_cut(network: fabric.Fabric) -> None:
    machine = guest.Guest(network, "again").start()
    machine.check(["touch", "/run/seen"])
    machine.kill()
    with pytest.raises(processes.LabError, match="is not running"):
        machine.run(["true"])
    machine.start()
    assert machine.run(["ls", "/run/seen"]).code != 0
    assert machine.ipv4 in machine.check(["ip", "address"])
    machine.stop()


def test_the_host_keeps_its_hardware_address_when_a_guest_comes_or_goes(run: runs.Run) -> None:
    """A client that has it would send to nobody until it asks again."""
    network = fabric.Fabric(run)
    place = Path("/sys/class/net") / network.bridge / "address"
    before = place.read_text()
    ports = [network.port() for _ in range(4)]
    seen = {place.read_text()}
    for port in ports:
        network.remove_port(port)
        seen.add(place.read_text())
    network.close()
    assert seen == {before}


def test_the_hosts_own_kernel_is_used_the_same_way(network: fabric.Fabric) -> None:
    with client.HostClient(network, "host") as machine:
        assert machine.script("echo out; exit 3") == guest.Result(3, "out\n", "")
        machine.check(["ping", "-c", "1", "-W", "5", network.host_ipv4] if processes.find("ping") else ["true"])
        assert machine.ipv6 in machine.check(["ip", "address"])
        machine.check(["mkdir", "/mnt/only-here"])
        assert not Path("/mnt/only-here").exists()
        with pytest.raises(processes.TimedOut):
            machine.run(["sleep", "60"], timeout_s=0.5)


@pytest.mark.usefixtures("network")
def test_a_guest_and_its_network_work_in_a_namespace(run: runs.Run) -> None:
    namespace = f"{run.prefix}-ns"
    processes.command(["ip", "netns", "add", namespace])
    inside = fabric.Fabric(run, netns=namespace)
    with guest.Guest(inside, "inside") as machine:
        machine.check(["ping", "-c", "1", "-W", "5", inside.host_ipv4])
    inside.close()


@pytest.mark.usefixtures("network")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_nothing_outlives_an_owner_that_dies(number: signal.Signals, tmp_path: Path) -> None:
    note = tmp_path / "note"
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(note)], cwd=ROOT, stderr=subprocess.DEVNULL)
    record = Path(wait_until(lambda: note.exists() and note.read_text()))
    facts = runs.read(record)
    assert facts is not None
    assert len(runs.leftovers(facts)) > 3
    os.kill(owner.pid, number)
    owner.wait(60)
    wait_until(lambda: not runs.leftovers(facts) and not record.exists())


@pytest.mark.usefixtures("network")
def test_the_next_run_clears_after_an_owner_that_died_with_its_warden(tmp_path: Path) -> None:
    note = tmp_path / "note"
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(note)], cwd=ROOT, stderr=subprocess.DEVNULL)
    record = Path(wait_until(lambda: note.exists() and note.read_text()))
    facts = runs.read(record)
    assert facts is not None
    os.kill(facts["warden"], signal.SIGKILL)
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait(60)
    with runs.Run():
        assert runs.leftovers(facts) == []
    assert not record.exists()
