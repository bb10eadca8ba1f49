# SPDX-License-Identifier: Apache-2.0
"""Shares that hypervisors hand in stay true: guests that end and run again, exports that move."""

import ipaddress

import pytest
import sqlalchemy as sa

from abaca.db.attachments import servers
from abaca.db.tables.shares import export_locations
from tests.operations import cases, machines
from tests.reconcile.test_attachments import DOOR, force, left, make_due, reconciler, shown, until_swept


@pytest.fixture
def attachment(theatre):
    return shown(theatre, cases.a_handed_in_share(theatre))


def guest(attachment):
    """The guest's hypervisor, and its QEMU there."""
    (host,) = attachment["addresses"]
    return host, f"/run/{int(ipaddress.ip_address(host)) - int(machines.HYPERVISORS)}.qmp"


def test_a_guest_that_ended_is_said_and_gets_its_share_when_it_runs_again(theatre, attachment):
    theatre.nodes.switch_off(*guest(attachment))
    reconciler(theatre).verify()
    theatre.settle()
    lost = shown(theatre, attachment["id"])
    assert (lost["state"], lost["error"]["code"]) == ("error", "MachineUnreachable")
    assert "the guest is off" in lost["error"]["message"]
    assert theatre.nodes.tables() == {}
    theatre.nodes.switch_on(*guest(attachment))
    make_due(theatre)
    assert reconciler(theatre).heal() == 1
    theatre.settle()
    assert shown(theatre, attachment["id"])["state"] == "active"
    assert theatre.nodes.handed() == {attachment["id"]: ["chardev", "device", "virtiofsd"]}


def test_a_share_of_a_guest_that_ended_is_detached_all_the_same(theatre, attachment):
    theatre.nodes.switch_off(*guest(attachment))
    theatre.ask("DELETE", f"{DOOR}/{attachment['id']}")
    theatre.settle()
    assert theatre.world.ask("member", "GET", f"{DOOR}/{attachment['id']}").status == 404
    assert (theatre.nodes.handed(), theatre.nodes.tables()) == ({}, {})


def test_a_share_whose_exports_move_moves_when_its_guest_was_switched_off_and_on(theatre, attachment):
    """Whether the guest has it mounted nobody outside can see, so it is not taken from a running one."""
    with theatre.db.write() as tx:
        tx.execute(sa.update(export_locations).values(path="10.0.0.99:/shares/moved"))
    assert reconciler(theatre).heal() == 1
    theatre.settle()  # the theatre's patience is short
    waits = shown(theatre, attachment["id"])
    assert (waits["state"], waits["error"]["code"]) == ("error", "StillOpen")
    assert "the guest, which has it as" in waits["error"]["message"]
    assert theatre.nodes.handed() == {attachment["id"]: ["chardev", "device", "virtiofsd"]}
    theatre.nodes.switch_off(*guest(attachment))
    theatre.nodes.switch_on(*guest(attachment))
    make_due(theatre)
    reconciler(theatre).heal()
    theatre.settle()
    moved = shown(theatre, attachment["id"])
    assert (moved["state"], moved["export_location"]) == ("active", "10.0.0.99:/shares/moved")
    assert [line["source"] for line in theatre.nodes.tables().values()] == ["10.0.0.99:/shares/moved"]


def test_a_guest_without_a_free_port_gets_its_share_when_another_one_goes(theatre, attachment):
    theatre.nodes.give_ports(*guest(attachment), 1)
    more = cases.hand_in(theatre, (cases.a_share(theatre), attachment["server_id"]))
    theatre.settle()
    waits = shown(theatre, more)
    assert (waits["state"], waits["error"]["code"]) == ("error", "MountRefused")
    assert "no free pcie-root-port" in waits["error"]["message"]
    cases.detach(theatre, attachment["id"])
    theatre.settle()
    make_due(theatre)
    reconciler(theatre).heal()
    theatre.settle()
    assert shown(theatre, more)["state"] == "active"


def test_what_was_given_up_on_a_hypervisor_that_was_away_goes_when_it_is_back(theatre, attachment):
    host, _ = guest(attachment)
    theatre.nodes.take_away(host)
    force(theatre, attachment["id"])
    theatre.nodes.bring_back(host)
    assert theatre.nodes.handed() == {attachment["id"]: ["chardev", "device", "virtiofsd"]}
    until_swept(theatre)
    assert (theatre.nodes.handed(), theatre.nodes.tables()) == ({}, {})


@pytest.mark.parametrize("how", ["moved", "removed"])
def test_what_was_given_up_on_a_hypervisor_goes_there_whatever_became_of_the_guest(theatre, attachment, how):
    host, _ = guest(attachment)
    theatre.nodes.take_away(host)
    force(theatre, attachment["id"])
    if how == "moved":
        place = {"hypervisor_id": cases.a_server(theatre, "10.7.200.1"), "qmp_socket": "/run/moved.qmp"}
        with theatre.db.write() as tx:
            servers.update(tx, attachment["server_id"], place, None)
        again = cases.hand_in(theatre, (attachment["share_id"], attachment["server_id"]))
        theatre.settle()
        assert shown(theatre, again)["state"] == "active"
        cases.detach(theatre, again)
        theatre.settle()
    else:
        theatre.world.ask("admin", "DELETE", f"//abaca/v1/servers/{attachment['server_id']}")
    assert left(theatre).sweep() == 1
    theatre.nodes.bring_back(host)
    assert theatre.nodes.handed() == {attachment["id"]: ["chardev", "device", "virtiofsd"]}
    until_swept(theatre)
    assert (theatre.nodes.handed(), theatre.nodes.tables()) == ({}, {})


def test_what_a_dead_hypervisor_has_left_keeps_no_share_from_its_former_guest(theatre, attachment):
    host, _ = guest(attachment)
    theatre.nodes.take_away(host)
    force(theatre, attachment["id"])
    now = {
        "hypervisor_id": None,
        "qmp_socket": None,
        "ssh_host": "10.9.8.1",
        "host_key": machines.KEY,
        "key": "file:/k",
    }
    with theatre.db.write() as tx:
        servers.update(tx, attachment["server_id"], now, [("10.9.8.1", "default")])
    again = cases.attach(theatre, (attachment["share_id"], attachment["server_id"]))
    theatre.settle()
    assert (shown(theatre, again)["state"], shown(theatre, again)["error"]) == ("active", None)


def test_by_force_a_share_moves_from_under_a_running_guest(theatre, attachment):
    with theatre.db.write() as tx:
        tx.execute(sa.update(export_locations).values(path="10.0.0.99:/shares/moved"))
    theatre.ask("POST", f"{DOOR}/{attachment['id']}/verify?force=true")
    theatre.settle()
    moved = shown(theatre, attachment["id"])
    assert (moved["state"], moved["export_location"]) == ("active", "10.0.0.99:/shares/moved")
    assert theatre.nodes.handed() == {attachment["id"]: ["chardev", "device", "virtiofsd"]}
