# SPDX-License-Identifier: Apache-2.0
"""Share servers of the local driver in real network namespaces, seen from machines in the tenants' networks."""

import contextlib
import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path

import pytest

from abaca.drivers import contract
from abaca.drivers.exports.ganesha import Patience
from lab import processes
from tests.conftest import wait_until
from tests.drivers import held_threads
from tests.drivers.harness import LocalServersHarness, fresh_id, rules, subnet
from tests.drivers.tenants import Ear, Machine, bridge_of

pytestmark = pytest.mark.system

VLANS = iter(range(101, 4000))


@pytest.fixture(scope="module")
def local():
    made = LocalServersHarness()
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def fresh():
    """A back end that is not started."""
    made = LocalServersHarness()
    yield made
    made.close()


@pytest.fixture
def machines(request):
    """Makes machines, and takes them away again."""
    made = []

    def make(harness, vlan, *addresses):
        made.append(Machine(harness.run, bridge_of(harness, f"vlan-{vlan}"), *addresses))
        return made[-1]

    yield make
    for machine in made:
        machine.close()


def on_vlan(vlan, *addresses, **more):
    return subnet(*addresses, network_type="vlan", segmentation_id=vlan, **more)


def share_on(harness, server, *words, text="text"):
    """A share on the server with a file in it, open to these."""
    share = harness.instance(server=server)
    harness.driver.create(share)
    harness.write(share, text)
    harness.driver.set_access(share, rules(*words))
    return share


def pid_of(harness, server, daemon="ganesha"):
    return int((harness.server_directory(server.id) / f"{daemon}.pid").read_text())


def made_by(harness):
    """All that is of the back end on this host: links, namespaces, daemons."""
    links = [link.name for link in Path("/sys/class/net").iterdir()
             if f"abaca {harness.directory} " in alias_of(link)]  # fmt: skip
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if f"{harness.directory}/servers" in line]
    daemons = [line for line in harness.run.leftovers() if line.startswith("process")]
    return links, mounts, daemons


def alias_of(link):
    try:
        return (link / "ifalias").read_text()
    except OSError:  # it has just gone with its namespace
        return ""


def cut_off(harness, servers):
    """What a reboot of the host leaves of share servers: their directories."""
    pids = [pid_of(harness, server, daemon) for server in servers for daemon in ("ganesha", "bus")]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(map(processes.alive, pids)))
    cut_networks(harness, servers)


def cut_networks(harness, servers):
    """Take away the namespaces, and the bridges of all."""
    for server in servers:
        processes.command(["umount", str(harness.server_directory(server.id) / "netns")])
    for link in made_by(harness)[0]:
        if Path("/sys/class/net", link, "bridge").exists():
            processes.command(["ip", "link", "delete", link])


def test_each_subnet_reaches_the_share_at_its_own_address(local, machines):
    first, second, third = (next(VLANS) for _ in range(3))
    subnets = [
        on_vlan(first, "10.20.1.4/24", mtu=1400),
        on_vlan(second, "10.20.2.4/24"),
        on_vlan(third, "fd77:20::4/64"),
    ]
    server = local.set_up(fresh_id(), subnets)
    near = [
        machines(local, first, "10.20.1.11/24"),
        machines(local, second, "10.20.2.11/24"),
        machines(local, third, "fd77:20::11/64"),
    ]
    share = share_on(local, server, "10.20.1.11 rw", "10.20.2.0/24 ro", "fd77:20::11 rw")
    exports = local.driver.create(share).exports
    path = f"/shares/{share.id}"
    assert [export.path for export in exports] == [
        f"10.20.1.4:{path}",
        f"10.20.2.4:{path}",
        f"[fd77:20::4]:{path}",
    ]
    assert [export.preferred for export in exports] == [True, False, False]
    addresses = ["10.20.1.4", "10.20.2.4", "fd77:20::4"]
    for machine, address in zip(near, addresses, strict=True):
        assert "file" in machine.finds(address, share)
    local.driver.set_access(share, rules("10.20.1.11 rw"))
    assert "file" in near[0].finds(addresses[0], share)
    assert [near[place].sees(addresses[place], share) for place in (1, 2)] == [None, None]
    assert "mtu 1400" in processes.command(
        ["nsenter", f"--net={local.server_directory(server.id)}/netns", "ip", "link"]
    )
    assert server.details["addresses"] == ",".join(addresses)


def test_a_subnet_that_is_had_twice_is_reached_at_either_address(local, machines):
    """From the beginning, and once more while it serves."""
    vlan = next(VLANS)
    either = [on_vlan(vlan, "10.31.0.4/24"), on_vlan(vlan, "10.31.0.5/24")]
    server = local.set_up(fresh_id(), either)
    share = share_on(local, server, "10.31.0.11 rw")
    near = machines(local, vlan, "10.31.0.11/24")
    local.driver.update_server_network(server, either, on_vlan(vlan, "10.31.0.6/24"), [share])
    for address in ("10.31.0.4", "10.31.0.5", "10.31.0.6"):
        assert "file" in near.finds(address, share)
    local.driver.remove_server_network(server, either[0], [share])
    assert not near.connects("10.31.0.4", within_s=0.3)
    for address in ("10.31.0.5", "10.31.0.6"):
        assert "file" in near.finds(address, share)


def test_tenants_with_the_same_addresses_reach_their_own_server_alone(local, machines):
    vlans = next(VLANS), next(VLANS)
    servers = [local.set_up(fresh_id(), [on_vlan(vlan, "10.21.0.4/24")]) for vlan in vlans]
    near = [machines(local, vlan, "10.21.0.11/24") for vlan in vlans]
    shares = [share_on(local, server, "10.21.0.11 rw") for server in servers]
    (local.mounted(shares[0]) / "first").touch()
    (local.mounted(shares[1]) / "second").touch()
    assert "first" in near[0].finds("10.21.0.4", shares[0])
    assert "second" in near[1].finds("10.21.0.4", shares[1])
    assert near[0].sees("10.21.0.4", shares[1]) is None
    assert near[1].sees("10.21.0.4", shares[0]) is None


def test_no_packet_of_one_tenant_arrives_at_another_or_at_the_host(local, machines):
    vlans = next(VLANS), next(VLANS)
    servers = [local.set_up(fresh_id(), [on_vlan(vlan, "10.22.0.4/24")]) for vlan in vlans]
    near = [machines(local, vlan, "10.22.0.11/24") for vlan in vlans]
    ears = [Ear(local.server_directory(server.id) / "netns") for server in servers]
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.bind(("0.0.0.0", 9999))
    own.settimeout(0.3)
    try:
        bridge = bridge_of(local, f"vlan-{vlans[0]}")
        address = processes.command(["hostname", "-I"]).split()[0]
        # It knows all that it can: where the host is, and the bridge's own hardware address.
        near[0].ip("route", "add", f"{address}/32", "dev", near[0].device)
        mac = Path(f"/sys/class/net/{bridge}/address").read_text().strip()
        near[0].ip("neighbor", "add", address, "lladdr", mac, "dev", near[0].device)

        def arrives():
            near[0].shout("to everybody", "10.22.0.4", address)
            return ears[0].heard("to everybody", within_s=1.0)

        wait_until(arrives)
        assert not ears[1].heard("to everybody", within_s=0.3)
        with pytest.raises(TimeoutError):
            own.recv(100)
        assert processes.command(["ip", "-6", "address", "show", "dev", bridge]) == ""
    finally:
        own.close()
        for ear in ears:
            ear.close()


def test_who_comes_by_a_gateway_is_answered_by_that_gateway(local, machines):
    """Two subnets with a gateway each: the default way is the first one's, and does not lead back to the second's."""
    first, second, far = (next(VLANS) for _ in range(3))
    subnets = [
        on_vlan(first, "10.23.1.4/24", gateway="10.23.1.1"),
        on_vlan(second, "10.23.2.4/24", "fd77:23::4/64", gateway="10.23.2.1"),
    ]
    server = local.set_up(fresh_id(), subnets)
    beyond = local.set_up(fresh_id(), [on_vlan(far, "10.23.9.4/24")])
    router = machines(local, second, "10.23.2.1/24")
    router.plug_in(bridge_of(local, f"vlan-{far}"), "10.23.9.1/24")
    router.command("sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
    client = machines(local, far, "10.23.9.11/24")
    client.ip("route", "add", "default", "via", "10.23.9.1")
    client.reaches("10.23.2.4")
    assert not client.connects("10.23.1.4", within_s=0.3)
    for one in (server, beyond):
        local.driver.tear_down_server(one)


def test_nothing_is_left_of_a_server_that_was_torn_down(fresh):
    fresh.start()
    before = made_by(fresh)
    vlans = [next(VLANS) for _ in range(3)]
    servers = [
        fresh.set_up(fresh_id(), [on_vlan(vlan, "10.24.0.4/24"), on_vlan(vlans[0], "fd77:24::4/64")]) for vlan in vlans
    ]
    during = made_by(fresh)
    assert [len(now) - len(then) for now, then in zip(during, before, strict=True)] == [6 + 3, 3, 6]
    for server in servers:
        fresh.driver.tear_down_server(server)
    assert made_by(fresh) == before
    assert [path.name for path in (fresh.directory / "servers").iterdir()] == [fresh.server.id]


@contextlib.contextmanager
def programs():
    """The words of all programs that this process starts meanwhile."""
    started, is_over = [], threading.Event()

    def heard(event, arguments):
        if event in {"subprocess.Popen", "os.posix_spawn", "os.exec", "os.system"} and not is_over.is_set():
            started.append([os.fsdecode(word) for word in arguments[1]] if len(arguments) > 1 else [*arguments])

    sys.addaudithook(heard)  # it stays as long as the process
    yield started
    is_over.set()


def test_the_kernel_itself_is_asked_for_networks(fresh):
    """Programs are started for what serves, in the server's namespace; another subnet and the end need none."""
    fresh.start()
    with programs() as started:
        server = fresh.set_up(fresh_id(), [on_vlan(next(VLANS), "10.25.0.4/24")])
    serving = [{"dbus-daemon", "ganesha.nfsd"} & {Path(word).name for word in words} for words in started]
    assert serving == [{"dbus-daemon"}, {"ganesha.nfsd"}]
    with programs() as started:
        new = on_vlan(next(VLANS), "fd77:25::4/64")
        fresh.driver.update_server_network(server, [], new, [])
        fresh.driver.remove_server_network(server, new, [])
        fresh.driver.tear_down_server(server)
    assert started == []


def test_its_nfs_server_is_in_its_network_and_under_its_limits(fresh):
    fresh.start(server_memory_mib="300", server_open_files="777")
    pid = pid_of(fresh, fresh.server)
    limits = Path(f"/proc/{pid}/limits").read_text()
    assert [line.split()[3:5] for line in limits.splitlines() if line.startswith(("Max data", "Max open"))] == [
        [str(300 << 20)] * 2,
        ["777"] * 2,
    ]
    own = (fresh.server_directory(fresh.server.id) / "netns").stat()
    for daemon in ("ganesha", "bus"):
        assert os.path.samestat(Path(f"/proc/{pid_of(fresh, fresh.server, daemon)}/ns/net").stat(), own)
    fresh.start(server_memory_mib="400")
    assert pid_of(fresh, fresh.server) != pid


# What outlives what


@pytest.mark.parametrize("daemon", ["ganesha", "bus"])
def test_a_killed_one_comes_back_by_itself_and_the_others_notice_nothing(local, machines, daemon):
    vlan = next(VLANS)
    server, other = (local.set_up(fresh_id(), [on_vlan(vlan, f"10.25.0.{n}/24")]) for n in (4, 5))
    client = machines(local, vlan, "10.25.0.11/24")
    share = share_on(local, server, "10.25.0.11 rw")
    pid, others = pid_of(local, server), pid_of(local, other)
    os.kill(pid_of(local, server, daemon), signal.SIGKILL)
    assert "file" in client.finds("10.25.0.4", share)
    assert (pid_of(local, server) != pid, pid_of(local, other)) == (True, others)


@pytest.mark.parametrize("hung", ["all", "nfs"])
def test_a_hung_one_is_noticed_like_the_hosts_own(local, machines, hung):
    vlan = next(VLANS)
    server = local.set_up(fresh_id(), [on_vlan(vlan, "10.26.0.4/24")])
    local.driver.servers.need(server.id).ganesha.patience = Patience(every_s=0.2, answer_s=0.5, times=2)
    pid = pid_of(local, server)
    with held_threads.held(pid) if hung == "nfs" else processes.frozen(pid):
        wait_until(lambda: not processes.alive(pid))
    client = machines(local, vlan, "10.26.0.11/24")
    client.reaches("10.26.0.4")


def test_a_worker_that_starts_takes_over_what_runs(local):
    pids = pid_of(local, local.server), pid_of(local, local.server, "bus")
    links = made_by(local)[0]
    local.start()
    assert (pid_of(local, local.server), pid_of(local, local.server, "bus")) == pids
    assert made_by(local)[0] == links


def test_after_a_reboot_all_servers_are_made_again(fresh, machines):
    vlans = [next(VLANS) for _ in range(2)]
    fresh.start()
    servers = [
        fresh.set_up(fresh_id(), [on_vlan(vlan, "10.27.0.4/24"), on_vlan(vlan, "fd77:27::4/64")]) for vlan in vlans
    ]
    shares = [share_on(fresh, server, "10.27.0.0/24 rw", "fd77:27::/64 rw") for server in servers]
    fresh.driver.stop()
    cut_off(fresh, [*servers, fresh.server])
    wait_until(lambda: made_by(fresh) == ([], [], []))
    fresh.driver.start()
    for vlan, share in zip(vlans, shares, strict=True):
        client = machines(fresh, vlan, "10.27.0.11/24", "fd77:27::11/64")
        assert "file" in client.finds("10.27.0.4", share)
        assert "file" in client.finds("fd77:27::4", share)
    known = [fresh.known(share, server=share.server) for share in shares]
    assert fresh.driver.ensure(known) == {}


def test_a_network_that_vanishes_under_a_worker_comes_back(fresh, machines):
    vlan = next(VLANS)
    fresh.start()
    server = fresh.set_up(fresh_id(), [on_vlan(vlan, "10.28.0.4/24")])
    share = share_on(fresh, server, "10.28.0.0/24 rw")
    fresh.driver.servers.need(server.id).ganesha.patience = Patience(every_s=0.2)
    cut_networks(fresh, [server])
    client = wait_until(lambda: bridged(fresh, machines, vlan, "10.28.0.11/24"))
    assert "file" in client.finds("10.28.0.4", share)


def bridged(harness, machines, vlan, address):
    """A machine on the vlan, None while that has no bridge."""
    try:
        return machines(harness, vlan, address)
    except (StopIteration, processes.LabError):
        return None


# Subnets that come and go


def test_a_subnet_comes_and_goes_while_the_server_serves(local, machines):
    vlans = [next(VLANS) for _ in range(2)]
    server = local.set_up(fresh_id(), [on_vlan(vlans[0], "10.29.1.4/24")])
    share, pid = share_on(local, server, "10.29.0.0/16 rw"), pid_of(local, server)
    first = machines(local, vlans[0], "10.29.1.11/24")
    new = on_vlan(vlans[1], "10.29.2.4/24")
    assert local.driver.check_server_network(server, [], new)
    outcome = local.driver.update_server_network(server, [], new, [share])
    second = machines(local, vlans[1], "10.29.2.11/24")
    assert "file" in second.finds("10.29.2.4", share)
    assert [export.path.partition(":")[0] for export in outcome.exports[share.id]] == ["10.29.1.4", "10.29.2.4"]
    assert outcome.details["addresses"] == "10.29.1.4,10.29.2.4"
    local.driver.remove_server_network(server, new, [share])
    assert not second.connects("10.29.2.4", within_s=0.3)
    assert "file" in first.finds("10.29.1.4", share)
    assert pid_of(local, server) == pid


def test_a_subnet_that_cannot_be_added_changes_nothing(fresh):
    fresh.start(segment_bridges="vlan-4001:nobody0")
    before, links = fresh.servers(), made_by(fresh)
    new = on_vlan(4001, "10.30.0.4/24")
    assert not fresh.driver.check_server_network(fresh.server, [], new)
    with pytest.raises(contract.Unreachable, match="nobody0"):
        fresh.driver.update_server_network(fresh.server, [], new, [])
    assert (fresh.servers(), made_by(fresh)) == (before, links)
    with pytest.raises(contract.Unreachable, match="nobody0"):
        fresh.set_up(fresh_id(), [on_vlan(next(VLANS), "10.30.1.4/24"), new])
    assert (fresh.servers(), made_by(fresh)) == (before, links)


def test_an_operators_bridge_is_used_and_stays(fresh):
    bridge = f"{fresh.run.prefix}br"
    processes.command(["ip", "link", "add", bridge, "type", "bridge"])
    processes.command(["ip", "link", "set", bridge, "up"])
    vlan = next(VLANS)
    fresh.start(segment_bridges=f"vlan-{vlan}:{bridge}")
    server = fresh.set_up(fresh_id(), [on_vlan(vlan, "10.31.0.4/24")])
    client = Machine(fresh.run, bridge, "10.31.0.11/24")
    client.reaches("10.31.0.4")
    client.close()
    fresh.driver.tear_down_server(server)
    assert list(Path(f"/sys/class/net/{bridge}/brif").iterdir()) == []
    processes.command(["ip", "link", "delete", bridge])


def test_a_link_of_somebody_else_is_not_touched(local):
    wanted = on_vlan(next(VLANS), "10.32.0.4/24")
    id = fresh_id()
    outer, _ = local.driver.servers.segments.cable_names(id, wanted.id)
    processes.command(["ip", "link", "add", outer, "type", "bridge"])
    processes.command(["ip", "link", "set", outer, "alias", "of somebody"])
    try:
        with pytest.raises(contract.Refused, match=outer):
            local.set_up(id, [wanted])
        assert "of somebody" in processes.command(["ip", "link", "show", outer])
    finally:
        processes.command(["ip", "link", "delete", outer])
    assert id not in local.servers()


def test_a_directory_with_a_long_path_is_no_obstacle(fresh):
    """With the ids of its servers it is longer than a socket's path may be."""
    fresh.directory = fresh.run.path("state-of-a-service", "backends", "local")
    fresh.start()
    assert len(str(fresh.server_directory(fresh.server.id) / "bus.sock")) > 107
    assert list(fresh.servers()) == [fresh.server.id]


# What is refused


def test_a_server_without_an_address_is_refused(local):
    with pytest.raises(contract.Refused, match="address"):
        local.set_up(fresh_id(), [on_vlan(next(VLANS))])


def test_a_directory_that_it_cannot_join_is_refused(local):
    service = contract.SecurityService(id=fresh_id(), type="ldap")
    setup = contract.ServerSetup(
        id=fresh_id(), share_network_id="n", subnets=[subnet("10.33.0.4/24")], security_services=[service]
    )
    with pytest.raises(contract.Refused, match="ldap"):
        local.driver.set_up_server(setup)
    assert setup.id not in local.servers()


@pytest.mark.parametrize("address", ["10.34.0/24", "10.34.0.4/33", "fe80::%eth0/64"])
def test_an_address_that_is_none_is_refused_and_leaves_nothing(local, address):
    allocation = contract.Allocation(id="a", ip_address=address.partition("/")[0], cidr=address)
    wanted = contract.Subnet(id=fresh_id(), allocations=[allocation])
    before = made_by(local)
    with pytest.raises(contract.Refused):
        local.set_up(fresh_id(), [wanted])
    with pytest.raises(contract.Refused):
        local.driver.update_server_network(local.server, [], wanted, [])
    assert made_by(local) == before


@pytest.mark.parametrize("id", ["../b1", "", ".", "a b", "a/b", "-rf", "a" * 200])
def test_an_id_that_is_no_plain_name_is_refused(local, id):
    with pytest.raises(contract.Refused):
        local.set_up(id, [subnet("10.33.0.4/24")])
    with pytest.raises(contract.Refused):
        local.set_up(fresh_id(), [subnet("10.33.0.4/24", id=id)])


def test_a_worker_that_may_not_make_networks_is_told_what_it_lacks(fresh):
    code = (
        "from tests.drivers.crashing_servers import build, subnet\n"
        "import json, sys; from abaca.drivers import contract\n"
        "driver = build(sys.argv[1], json.loads(sys.argv[2])); driver.start()\n"
        "setup = contract.ServerSetup(id='s', share_network_id='n', subnets=[subnet('a', '10.34.0.4/24')])\n"
        "try: driver.set_up_server(setup)\n"
        "except contract.Refused as refused: print(refused.message)\n"
        "driver.stop(); driver.shutdown()"
    )
    argv = ["setpriv", "--bounding-set", "-net_admin", sys.executable, "-c", code, str(fresh.directory)]
    assert "CAP_NET_ADMIN" in processes.command([*argv, json.dumps(fresh.section)])
    assert (made_by(fresh), list((fresh.directory / "servers").iterdir())) == (([], [], []), [])


def test_a_share_needs_a_server_that_is_there(local):
    with pytest.raises(contract.Refused, match="no share server"):
        local.driver.create(local.instance(server=None))
    with pytest.raises(contract.Gone):
        local.driver.create(local.instance(server=contract.ShareServer(id=fresh_id())))
