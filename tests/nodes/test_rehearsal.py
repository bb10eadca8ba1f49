# SPDX-License-Identifier: Apache-2.0
"""What only machines on paper do: they fail as they are told to, and show what is on them. The rest is the contract."""

import msgspec
import pytest

from abaca.nodes import contract
from abaca.nodes.contract import Guest, Job, Mount
from abaca.nodes.rehearsal import Rehearsal
from tests.nodes.machines import Login

ENTRY = Login(host="10.0.0.7", host_key="ssh-ed25519 AAAA", key="file:/nowhere")
WANTED = Mount(name="one", source="10.0.0.10:/shares/x", mount_point="/mnt/x")
GUEST = Guest(tag="data", qmp_socket="/run/web.qmp")
HANDED = msgspec.structs.replace(WANTED, guest=GUEST)


@pytest.fixture
def made(tmp_path):
    def make(**options):
        return Rehearsal(tmp_path / "nodes.sqlite", **options)

    return make


def test_what_is_on_the_machines_can_be_looked_at(made):
    nodes = made()
    line = {"name": "one", "source": WANTED.source, "mount_point": "/mnt/x"}
    nodes.mount(ENTRY, WANTED)
    assert nodes.tables() == {"10.0.0.7 22 /mnt/x": line}
    nodes.forget(ENTRY.host, "/mnt/x")
    assert nodes.tables() == {"10.0.0.7 22 /mnt/x": line | {"source": ""}}
    nodes.unmount(ENTRY, WANTED)
    assert nodes.tables() == {}


def test_a_machine_is_what_listens_on_a_port_of_a_host(made):
    nodes = made()
    nodes.mount(ENTRY, WANTED)
    assert nodes.look(msgspec.structs.replace(ENTRY, port=2222), WANTED) is None


def test_a_boot_is_known_by_its_id(made):
    nodes = made()
    before = nodes.mount(ENTRY, WANTED)
    nodes.reboot(ENTRY.host)
    after = nodes.look(ENTRY, WANTED)
    assert after.boot_id != before.boot_id
    assert msgspec.structs.replace(after, boot_id=before.boot_id) == before


def test_a_machine_without_a_client_gets_one(made):
    nodes = made()
    nodes.uninstall(ENTRY.host)
    assert nodes.mount(ENTRY, WANTED).fstype == "nfs4"


def test_a_hypervisor_has_a_place_for_each_attachment(made):
    nodes = made()
    assert nodes.mount(ENTRY, HANDED).mount_point == "/run/abaca-guests/one.share"
    nodes.unmount(ENTRY, HANDED)
    assert (nodes.tables(), nodes.tree(ENTRY.host)) == ({}, {})


def test_a_guest_has_its_device_until_it_is_unplugged(made):
    nodes = made()
    assert nodes.mount(ENTRY, HANDED) == nodes.mount(ENTRY, HANDED) == nodes.look(ENTRY, HANDED)
    assert nodes.handed() == {"one": ["chardev", "device", "virtiofsd"]}
    nodes.unmount(ENTRY, HANDED)
    nodes.unmount(ENTRY, HANDED)
    assert (nodes.handed(), nodes.tables()) == ({}, {})


def test_a_guest_that_is_off_has_no_devices_and_takes_none(made):
    nodes = made()
    nodes.mount(ENTRY, HANDED)
    nodes.switch_off(ENTRY.host, GUEST.qmp_socket)
    assert nodes.look(ENTRY, HANDED) is None
    with pytest.raises(contract.MachineUnreachable, match="the guest is off"):
        nodes.mount(ENTRY, HANDED)
    assert (nodes.handed(), nodes.tables()) == ({}, {})
    nodes.switch_on(ENTRY.host, GUEST.qmp_socket)
    assert nodes.mount(ENTRY, HANDED) == nodes.look(ENTRY, HANDED)


def test_a_second_device_with_the_tag_is_refused_and_leaves_nothing(made):
    nodes = made()
    nodes.mount(ENTRY, HANDED)
    with pytest.raises(contract.MountRefused, match="with the tag data already"):
        nodes.mount(ENTRY, msgspec.structs.replace(HANDED, name="two", source="10.0.0.10:/shares/y"))
    assert [line["name"] for line in nodes.tables().values()] == ["one"]


def test_a_virtiofsd_or_a_hypervisor_that_ended_is_seen_and_made_good(made):
    nodes = made()
    nodes.mount(ENTRY, HANDED)
    for harm in (lambda: nodes.end_virtiofsd(ENTRY.host, "one"), lambda: nodes.reboot(ENTRY.host)):
        harm()
        assert nodes.look(ENTRY, HANDED) is None
        assert nodes.mount(ENTRY, HANDED) == nodes.look(ENTRY, HANDED)
    assert nodes.handed() == {"one": ["chardev", "device", "virtiofsd"]}


def test_a_guest_that_does_not_let_go_keeps_its_device_and_what_force_left_goes_with_the_next(made):
    nodes = made()
    nodes.mount(ENTRY, HANDED)
    nodes.hold_on(ENTRY.host, GUEST.qmp_socket)
    with pytest.raises(contract.TimedOut, match="does not let go"):
        nodes.unmount(ENTRY, HANDED)
    assert nodes.look(ENTRY, HANDED) is not None
    nodes.end_virtiofsd(ENTRY.host, "one")
    with pytest.raises(contract.TimedOut, match="switch it off and on"):
        nodes.unmount(ENTRY, HANDED)
    nodes.unmount(ENTRY, HANDED, force=True)
    assert (nodes.handed(), nodes.tables()) == ({"one": ["chardev", "device"]}, {})
    nodes.hold_on(ENTRY.host, GUEST.qmp_socket, is_so=False)
    other = msgspec.structs.replace(HANDED, name="two", source="10.0.0.10:/shares/y")
    nodes.mount(ENTRY, other)
    assert nodes.handed() == {"two": ["chardev", "device", "virtiofsd"]}


def test_a_share_moves_under_a_guest_only_when_it_does_not_have_it(made):
    nodes = made()
    nodes.mount(ENTRY, HANDED)
    elsewhere = msgspec.structs.replace(HANDED, source="10.0.0.20:/shares/x")
    with pytest.raises(contract.InUse, match="the guest, which has it as data"):
        nodes.remount(ENTRY, elsewhere, HANDED)
    assert nodes.look(ENTRY, HANDED) is not None
    nodes.switch_off(ENTRY.host, GUEST.qmp_socket)
    nodes.switch_on(ENTRY.host, GUEST.qmp_socket)
    assert nodes.remount(ENTRY, elsewhere, HANDED) == nodes.look(ENTRY, elsewhere)


def test_it_fails_as_ordered_on_one_machine_or_on_all(made):
    nodes = made(failures=["mount:TimedOut:10.0.0.7", "look:Unreachable"])
    jobs = [Job(action="mount", login=login, mount=WANTED) for login in (ENTRY, Login(host="b", host_key="", key=""))]
    assert [type(outcome.error) for outcome in nodes.many(jobs)] == [contract.TimedOut, type(None)]
    with pytest.raises(contract.MachineUnreachable):
        nodes.look(ENTRY, WANTED)


@pytest.mark.parametrize("order", ["mount", "paint:Unreachable", "mount:Happy", ""])
def test_an_order_that_makes_no_sense_is_said(made, order):
    with pytest.raises(ValueError, match="is not method:Error"):
        made(failures=[order])


def test_where_its_file_cannot_be_the_machines_are_unreachable(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(contract.MachineUnreachable, match=r"10\.0\.0\.7 cannot be reached"):
        Rehearsal(tmp_path / "file" / "nodes.sqlite").look(ENTRY, WANTED)
