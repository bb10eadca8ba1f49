# SPDX-License-Identifier: Apache-2.0
"""Shares attached to machines with kernels of their own: mounted there, kept, moved and taken back."""

import contextlib
import shlex
import socket
import time
from pathlib import Path

import pytest
import yaml

from lab import caller, guest, processes
from tests.conftest import wait_until
from tests.system.world import PROJECT, World, Writer

DOOR = "//abaca/v1/attachments"


@pytest.fixture(scope="module")
def machines(network):
    started = guest.start_all(network, ["one", "two", "three", "four", "five"])
    yield started
    for machine in started:
        machine.stop()


@pytest.fixture(scope="module")
def world(run, network):
    sections = {
        "local": {"nfs_minor_versions": "1,2"},
        "compute": {"key_directory": run.directory},
        "nodes": {"verify_interval_s": 3, "command_timeout_s": 20, "connect_timeout_s": 5, "longest_pause_s": 2},
    }
    made = World(run, sections, network=network)
    made.abaca.configure("nodes", nfs_port=made.nfs_port)
    return made.start()


@pytest.fixture(scope="module")
def servers(world, machines):
    """The id of each machine in the inventory, by its name."""
    return {machine.name: register(world, machine) for machine in machines}


def register(world, machine):
    ssh = machine.ssh
    said = {
        "name": machine.name,
        "project_id": PROJECT,
        "addresses": [{"ip": machine.ipv4}, {"ip": machine.ipv6}],
        "ssh_host": ssh.host,
        "ssh_port": ssh.port,
        "ssh_user": ssh.user,
        "host_key": ssh.host_key,
        "key": f"file:{ssh.private_key}",
    }
    return world.user.call("POST", "//abaca/v1/servers", {"server": said}).body["server"]["id"]


def attach(world, share_id, server_ids, **more):
    wish = {"attachment": {"share_id": share_id, "server_ids": list(server_ids), **more}}
    body = world.user.call("POST", DOOR, wish).body
    assert body["refused"] == []
    return [until(world, one["id"], "active") for one in body["attachments"]]


def shown(world, attachment_id):
    return world.user.get(f"{DOOR}/{attachment_id}")


def until(world, attachment_id, state, timeout_s=60):
    def there():
        found = shown(world, attachment_id)
        return found if found["state"] == state else None

    try:
        return wait_until(there, timeout_s, 0.1)
    except pytest.fail.Exception:
        pytest.fail(f"not {state}: {shown(world, attachment_id)}")


def verified(world, attachment_id, timeout_s=60):
    """The attachment once its machine was looked at and mended; it may be `active` before that."""
    world.user.call("POST", f"{DOOR}/{attachment_id}/verify")
    under_way = f"//abaca/v1/operations?resource_id={attachment_id}&live=true"
    wait_until(lambda: not world.user.get(under_way), timeout_s, 0.1)
    return until(world, attachment_id, "active", timeout_s)


def detach(world, *attachment_ids, force=False):
    for one in attachment_ids:
        world.user.call("DELETE", f"{DOOR}/{one}" + ("?force=true" if force else ""))
    for one in attachment_ids:
        wait_until(lambda one=one: is_gone(world, one), every_s=0.1)


def is_gone(world, attachment_id):
    try:
        shown(world, attachment_id)
    except caller.Refused as refused:
        return refused.status == 404
    return False


def answers(machine):
    with contextlib.suppress(OSError), socket.create_connection((machine.ssh.host, machine.ssh.port), 1):
        return True
    return False


def mounts(machine):
    return [line.split()[1] for line in machine.check(["cat", "/proc/mounts"]).splitlines() if " nfs" in line]


def rules(world, share_id):
    return world.user.get(f"/share-access-rules?share_id={share_id}")


def test_five_machines_share_files_after_one_request(world, machines, servers):
    share_id = world.share()
    found = attach(world, share_id, servers.values())
    place = f"/mnt/{share_id}"
    assert all(mounts(machine) == [place] for machine in machines)
    one, two = machines[:2]
    one.check(["sh", "-c", f"echo hello > {place}/file && sync -f {place}/file"])
    assert two.check(["cat", f"{place}/file"]) == "hello\n"
    # a lock that one holds keeps the other out
    one.script(f"(flock {place}/file sleep 1000 & echo $! > /tmp/locker) > /dev/null 2>&1")
    wait_until(lambda: two.run(["flock", "-n", f"{place}/file", "true"]).code == 1)
    one.script("kill $(cat /tmp/locker); killall sleep; true")
    wait_until(lambda: two.run(["flock", "-n", f"{place}/file", "true"]).code == 0)
    with pytest.raises(caller.Refused, match="403"):
        world.post_delete(share_id)
    detach(world, *(one["id"] for one in found))
    assert all(mounts(machine) == [] for machine in machines)
    wait_until(lambda: rules(world, share_id) == [])
    assert all(machine.run(["test", "-e", place]).code == 1 for machine in machines)
    world.delete(share_id)


def test_a_rebooted_machine_comes_back_mounted(world, machines, servers):
    share_id = world.share()
    (found,) = attach(world, share_id, [servers["one"]], mount_point="/srv/kept")
    machines[0].check(["sh", "-c", "echo kept > /srv/kept/file && sync -f /srv/kept/file"])
    machines[0].kill()
    machines[0].start()
    wait_until(lambda: machines[0].run(["cat", "/srv/kept/file"]).stdout == "kept\n", every_s=0.2)
    until(world, found["id"], "active")
    detach(world, found["id"])
    world.delete(share_id)


def test_what_was_unmounted_by_hand_is_mounted_again(world, machines, servers):
    share_id = world.share()
    (found,) = attach(world, share_id, [servers["two"]], mount_point="/srv/again")
    machines[1].check(["umount", "/srv/again"])
    verified(world, found["id"])
    assert mounts(machines[1]) == ["/srv/again"]
    detach(world, found["id"])
    world.delete(share_id)


def test_what_is_copied_from_the_connect_document_mounts_the_share(world, machines, servers):
    share_id, machine, place = world.share(), machines[0], "/srv/typed"
    for address in (machine.ipv4, machine.ipv6):
        world.allow(share_id, address)
    asked = f"//abaca/v1/shares/{share_id}/connect?server={servers['one']}&mount_point={place}"
    for level in ("rw", "ro"):
        said = world.user.get(f"{asked}&access_level={level}")
        volume = yaml.safe_load(said["kubernetes"])["spec"]
        source = f"{volume['nfs']['server']}:{volume['nfs']['path']}"
        for typed in (
            "; ".join(said["commands"][1:]),
            f"echo {shlex.quote(said['fstab'])} > /etc/fstab; mount {place}; : > /etc/fstab",
            f"mount -t nfs -o {level},{','.join(volume['mountOptions'])} {source} {place}",  # as a node of Kubernetes
        ):
            machine.check(["sh", "-ec", typed])
            assert mounts(machine) == [place]
            may_write = machine.script(f"echo text > {place}/file && sync -f {place}/file").code == 0
            assert may_write == (level == "rw")
            machine.check(["umount", place])
    machine.check(["rmdir", place])
    world.delete(share_id)


def test_a_busy_machine_names_who_holds_it_until_it_is_forced(world, machines, servers):
    share_id, machine = world.share(), machines[2]
    (found,) = attach(world, share_id, [servers["three"]], mount_point="/srv/busy")
    machine.script("cd /srv/busy && (sleep 1000 & echo $! > /tmp/holder) > /dev/null 2>&1")
    pid = machine.check(["cat", "/tmp/holder"]).strip()
    world.user.call("DELETE", f"{DOOR}/{found['id']}")
    busy = until(world, found["id"], "error")
    assert busy["error"]["code"] == "MountInUse"
    assert f"process {pid} (sleep 1000)" in busy["error"]["message"]
    assert mounts(machine) == ["/srv/busy"]
    detach(world, found["id"], force=True)
    assert mounts(machine) == []
    machine.script(f"kill {pid}")
    world.delete(share_id)


def test_a_machine_that_is_away_holds_up_nobody_and_is_attached_when_it_is_back(world, machines, servers):
    share_id, away = world.share(), machines[3]
    away.kill()
    wish = {"attachment": {"share_id": share_id, "server_ids": [servers["four"], servers["five"]]}}
    made = {one["server_id"]: one["id"] for one in world.user.call("POST", DOOR, wish).body["attachments"]}
    until(world, made[servers["five"]], "active")
    lost = until(world, made[servers["four"]], "error")
    assert lost["error"]["code"] == "MachineUnreachable"
    away.start()
    wait_until(lambda: answers(away), every_s=0.1)
    verified(world, lost["id"])
    assert mounts(away) == [f"/mnt/{share_id}"]
    detach(world, *made.values())
    world.delete(share_id)


def test_a_pulled_network_is_told_and_mended_and_holds_up_nobody(world, machines, servers):
    """At once: two writes, three is being detached, four is about to be attached, five is in the middle of mounting."""
    two, three, four, five = machines[1:]
    kept, other = world.share(), world.share()
    wrote, goes = attach(world, kept, [servers["two"], servers["three"]], mount_point="/srv/kept")
    for address in (five.ipv4, five.ipv6):
        world.allow(other, address)
    begun = time.monotonic()
    attach(world, kept, [servers["one"]])
    usual_s = time.monotonic() - begun
    writer = Writer(two, "/srv/kept/lines")
    with processes.frozen(world.local.pid()):
        mounting = ask(world, other, servers["five"])
        wait_until(lambda: "mount -t nfs4" in five.check(["ps", "-o", "args"]), every_s=0.05)
        five.unplug()
    four.unplug()
    starting = ask(world, other, servers["four"])
    world.user.call("DELETE", f"{DOOR}/{goes['id']}")
    wait_until(lambda: has_connection(three), every_s=0.005)
    three.unplug()
    two.unplug()
    begun = time.monotonic()
    attach(world, other, [servers["one"]])
    assert time.monotonic() - begun < 3 * usual_s + 4
    for attachment_id in (wrote["id"], goes["id"], starting, mounting):
        error = until(world, attachment_id, "error")["error"]
        assert error["code"] in ("MachineUnreachable", "MachineTimedOut"), error
        assert error["mend"]
    for machine in (two, three, four, five):
        machine.plug_in()
    for attachment_id in (wrote["id"], starting, mounting):
        assert until(world, attachment_id, "active")["error"] is None
    wait_until(lambda: is_gone(world, goes["id"]), every_s=0.1)
    writer.finish()
    assert [mounts(machine) for machine in (two, three, four, five)] == [
        ["/srv/kept"],
        [],
        [f"/mnt/{other}"],
        [f"/mnt/{other}"],
    ]
    wait_until(lambda: not any(has_connection(machine) for machine in machines))
    wait_until(lambda: all(sessions(machine) == 0 for machine in machines), every_s=0.2)
    for share_id in (kept, other):
        detach(world, *(found["id"] for found in world.user.get(f"{DOOR}?share_id={share_id}")))
    assert all(mounts(machine) == [] for machine in machines)
    wait_until(lambda: rules(world, kept) == [])
    assert {rule["access_to"] for rule in rules(world, other)} == {five.ipv4, five.ipv6}, "those that the user made"
    world.delete(kept, other)


def ask(world, share_id, server_id, **more):
    """The id of an attachment that is on its way."""
    wish = {"attachment": {"share_id": share_id, "server_id": server_id, **more}}
    return world.user.call("POST", DOOR, wish).body["attachment"]["id"]


def has_connection(machine):
    """Whether this host has a connection to its SSH server."""
    there = f"{socket.inet_aton(machine.ssh.host)[::-1].hex().upper()}:{machine.ssh.port:04X}"
    lines = Path("/proc/net/tcp").read_text().splitlines()
    return any(line.split()[2:4] == [there, "01"] for line in lines)


def sessions(machine):
    """How many are logged in by SSH; one process only listens."""
    return len(machine.run(["pidof", "dropbear"]).stdout.split()) - 1


def test_a_machine_that_is_off_is_detached_when_it_is_on_or_by_force(world, machines, servers):
    machine, server_id = machines[0], servers["one"]
    patient, hasty = world.share(), world.share()
    (waits,) = attach(world, patient, [server_id], mount_point="/srv/patient")
    (forced,) = attach(world, hasty, [server_id], mount_point="/srv/hasty")
    machine.kill()
    set_status(world, server_id, "SHUTOFF")
    for attachment_id in (waits["id"], forced["id"]):
        world.user.call("DELETE", f"{DOOR}/{attachment_id}")
        found = until(world, attachment_id, "error")
        assert (found["error"]["code"], found["next_try_at"]) == ("ServerOff", None)
    detach(world, forced["id"], force=True)
    wait_until(lambda: rules(world, hasty) == [])
    assert shown(world, waits["id"])["state"] == "error"
    machine.start()
    assert len(lines_of_boot(machine)) == 4, "two lines and their marks"
    set_status(world, server_id, "ACTIVE")
    wait_until(lambda: is_gone(world, waits["id"]), every_s=0.1)
    wait_until(lambda: lines_of_boot(machine) == [], every_s=0.1)
    assert mounts(machine) == []
    assert [machine.run(["test", "-e", place]).code for place in ("/srv/patient", "/srv/hasty")] == [1, 1]
    wait_until(lambda: rules(world, patient) == [])
    world.delete(patient, hasty)


def set_status(world, server_id, status):
    world.user.call("PUT", f"//abaca/v1/servers/{server_id}", {"server": {"status": status}})


def lines_of_boot(machine):
    """What a boot of the machine mounts."""
    return machine.check(["cat", "/etc/fstab"]).splitlines()


def test_a_user_takes_his_rule_away_under_a_machine_that_writes(world, machines, servers):
    share_id, machine = world.share(), machines[1]
    mine = world.allow(share_id, machine.ipv4)
    (found,) = attach(world, share_id, [servers["two"]], mount_point="/srv/ruled")
    writer = Writer(machine, "/srv/ruled/lines")
    world.deny(share_id, mine)
    wait_until(lambda: {rule["state"] for rule in rules(world, share_id)} == {"active"})
    assert {rule["access_to"] for rule in rules(world, share_id)} == {machine.ipv4, machine.ipv6}
    writer.finish()
    detach(world, found["id"])
    wait_until(lambda: rules(world, share_id) == [])
    world.delete(share_id)


def test_a_share_goes_by_force_though_a_machine_is_away(world, machines, servers):
    share_id, away = world.share(), machines[3]
    attach(world, share_id, [servers["three"], servers["four"]], mount_point="/srv/forced")
    away.unplug()
    world.user.call("POST", f"/shares/{share_id}/action", {"force_delete": None})
    world.user.wait_gone(f"/shares/{share_id}")
    assert mounts(machines[2]) == []
    away.plug_in()
    wait_until(lambda: lines_of_boot(away) == [], every_s=0.1)
    assert mounts(away) == []


def test_killed_workers_leave_nothing_behind(world, machines, servers):
    share_id = world.share()
    wish = {"attachment": {"share_id": share_id, "server_ids": list(servers.values())}}
    made = [one["id"] for one in world.user.call("POST", DOOR, wish).body["attachments"]]
    wait_until(lambda: any(mounts(machine) for machine in machines), every_s=0.01)
    world.abaca.kill()
    world.abaca.start()
    assert all(until(world, one, "active", 120)["last_verified_at"] for one in made)
    assert [mounts(machine) for machine in machines] == [[f"/mnt/{share_id}"]] * 5
    assert [len(lines_of_boot(machine)) for machine in machines] == [2] * 5
    assert sorted(rule["access_to"] for rule in rules(world, share_id)) == sorted(
        address for machine in machines for address in (machine.ipv4, machine.ipv6)
    )
    for one in made:
        world.user.call("DELETE", f"{DOOR}/{one}")
    world.abaca.kill()
    world.abaca.start()
    wait_until(lambda: all(is_gone(world, one) for one in made), 120, 0.2)
    assert all(mounts(machine) == [] for machine in machines)
    wait_until(lambda: rules(world, share_id) == [])
    world.delete(share_id)


def test_a_machine_with_another_host_key_is_not_entered(world, machines, servers):
    share_id = world.share()
    server = world.user.get(f"//abaca/v1/servers/{servers['five']}")
    other = machines[0].ssh.host_key
    world.user.call("PUT", f"//abaca/v1/servers/{server['id']}", {"server": {"host_key": other}})
    wish = {"attachment": {"share_id": share_id, "server_id": server["id"]}}
    made = world.user.call("POST", DOOR, wish).body["attachment"]
    refused = until(world, made["id"], "error")
    assert refused["error"]["code"] == "HostKeyMismatch"
    world.user.call("PUT", f"//abaca/v1/servers/{server['id']}", {"server": {"host_key": machines[4].ssh.host_key}})
    verified(world, made["id"])
    detach(world, made["id"])
    world.delete(share_id)


def test_a_forgotten_machine_loses_its_rules_though_it_is_away(world, machines, servers):
    share_id = world.share()
    (found,) = attach(world, share_id, [servers["five"]], mount_point="/srv/forgotten")
    machines[4].unplug()
    begun = time.monotonic()
    world.user.call("DELETE", f"//abaca/v1/servers/{servers['five']}")
    wait_until(lambda: is_gone(world, found["id"]), every_s=0.05)
    wait_until(lambda: rules(world, share_id) == [], every_s=0.05)
    assert time.monotonic() - begun < 5, "nobody asks the machine first"
    machines[4].plug_in()
    machines[4].script("umount -l /srv/forgotten; true")
    world.delete(share_id)


@pytest.mark.parametrize("how", ["in time", "at once"])
def test_a_server_without_an_address_for_its_export_is_mounted_from_another(world, machines, servers, how):
    share_id, machine, server = world.share(), machines[2], f"//abaca/v1/servers/{servers['three']}"
    (found,) = attach(world, share_id, [servers["three"]], mount_point="/srv/renumbered")
    assert found["export_location"].startswith(world.network.host_ipv4)
    world.user.call("PUT", server, {"server": {"addresses": [machine.ipv6]}})
    if how == "at once":
        world.user.call("POST", f"{DOOR}/{found['id']}/verify")
    moved = wait_until(lambda: on(world, found["id"], "["), every_s=0.1)
    assert moved["addresses"] == [machine.ipv6]
    machine.check(["sh", "-c", "echo there > /srv/renumbered/file && sync -f /srv/renumbered/file"])
    assert mounts(machine) == ["/srv/renumbered"]
    assert f"[{world.network.host_ipv6}]:" in lines_of_boot(machine)[1]
    world.user.call("PUT", server, {"server": {"addresses": [machine.ipv4, machine.ipv6]}})
    detach(world, found["id"])
    world.delete(share_id)


def test_a_moved_export_address_is_followed_when_the_last_file_is_closed(world, network, machines, servers):
    share_id, machine = world.share(), machines[1]
    (found,) = attach(world, share_id, [servers["two"]], mount_point="/srv/moving")
    machine.script("exec 9> /srv/moving/open; (sleep 1000 & echo $! > /tmp/holder) > /dev/null 2>&1")
    new = network.address(2)
    world.move_exports(new)
    wait_until(lambda: shown(world, found["id"])["state"] in ("remounting", "error"), every_s=0.1)
    machine.script("kill $(cat /tmp/holder)")
    moved = wait_until(lambda: on(world, found["id"], new), 200, 0.2)
    assert moved["state"] == "active"
    machine.check(["sh", "-c", "echo there > /srv/moving/file && sync -f /srv/moving/file"])
    detach(world, found["id"])
    world.delete(share_id)


def test_what_hangs_at_an_address_that_is_gone_is_moved_by_one_command(world, network, machines, servers):
    share_id, machine = world.share(), machines[2]
    (found,) = attach(world, share_id, [servers["three"]], mount_point="/srv/hung")
    machine.script("exec 9> /srv/hung/open; (sleep 1000 & echo $! > /tmp/holder) > /dev/null 2>&1")
    old, new = found["export_location"].partition(":")[0], network.address(3)
    world.move_exports(new)
    until(world, found["id"], "error")
    network.remove_address(old)
    # this one waits for the old address for ever
    machine.script("(cat /srv/hung/nothing) > /dev/null 2>&1 &")
    world.user.call("POST", f"{DOOR}/{found['id']}/verify?force=true")
    moved = wait_until(lambda: on(world, found["id"], new), 120, 0.2)
    assert moved["state"] == "active"
    machine.check(["sh", "-c", "echo there > /srv/hung/file && sync -f /srv/hung/file"])
    assert "nosuid" in machine.check(["grep", "/srv/hung", "/proc/mounts"])
    machine.script("kill $(cat /tmp/holder)")
    network.add_address(old)
    detach(world, found["id"])
    world.delete(share_id)


def on(world, attachment_id, address):
    """The attachment when it is mounted from there."""
    found = shown(world, attachment_id)
    return found if found["state"] == "active" and (found["export_location"] or "").startswith(address) else None
