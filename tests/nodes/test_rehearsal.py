# SPDX-License-Identifier: Apache-2.0
"""Machines on paper keep the promises of real ones, and fail as they are told to."""

import pytest

from abaca.nodes import contract
from abaca.nodes.contract import Holder, Job, Mount
from abaca.nodes.rehearsal import Rehearsal
from tests.nodes.machines import Entry

ENTRY = Entry(host="10.0.0.7", host_key="ssh-ed25519 AAAA", key="file:/nowhere")
WANTED = Mount(name="one", source="10.0.0.10:/shares/x", mount_point="/mnt/x")


@pytest.fixture
def made(tmp_path):
    def make(**options):
        return Rehearsal(tmp_path / "nodes.sqlite", **options)

    return make


def test_a_mount_is_seen_repeated_and_gone(made):
    nodes = made()
    assert nodes.look(ENTRY, WANTED) is None
    seen = nodes.mount(ENTRY, WANTED)
    assert (seen.source, seen.mount_point, seen.is_persistent) == (WANTED.source, WANTED.mount_point, True)
    assert nodes.mount(ENTRY, WANTED) == nodes.look(ENTRY, WANTED) == seen
    nodes.unmount(ENTRY, WANTED)
    nodes.unmount(ENTRY, WANTED)
    assert nodes.look(ENTRY, WANTED) is None
    assert nodes.tables() == {}


def test_an_occupied_mount_point_is_refused(made):
    nodes = made()
    nodes.mount(ENTRY, WANTED)
    with pytest.raises(contract.MountRefused):
        nodes.mount(ENTRY, Mount(name="two", source="10.0.0.10:/shares/y", mount_point="/mnt/x"))


def test_what_is_in_use_stays_unless_forced_and_moves_when_it_is_free(made):
    nodes = made()
    nodes.mount(ENTRY, WANTED)
    nodes.hold(ENTRY.host, WANTED.mount_point, Holder(7, "tail"))
    elsewhere = Mount(name="one", source="10.0.0.20:/shares/x", mount_point="/mnt/x")
    with pytest.raises(contract.InUse, match="process 7"):
        nodes.unmount(ENTRY, WANTED)
    with pytest.raises(contract.InUse, match="process 7"):
        nodes.remount(ENTRY, elsewhere, WANTED)
    nodes.hold(ENTRY.host, WANTED.mount_point, None)
    assert nodes.remount(ENTRY, elsewhere, WANTED).source == elsewhere.source
    nodes.hold(ENTRY.host, WANTED.mount_point, Holder(7, "tail"))
    nodes.unmount(ENTRY, elsewhere, force=True)
    assert nodes.tables() == {}


def test_only_what_bears_the_name_is_cleared(made):
    nodes = made()
    nodes.mount(ENTRY, WANTED)
    nodes.hold(ENTRY.host, WANTED.mount_point, Holder(7, "tail"))
    nodes.clear(ENTRY, Mount(name="two", source=WANTED.source, mount_point=WANTED.mount_point))
    assert nodes.look(ENTRY, WANTED) is not None
    assert nodes.many([Job(action="clear", entry=ENTRY, mount=WANTED)])[0].error is None
    assert nodes.look(ENTRY, WANTED) is None


def test_two_workers_see_the_same_machines(made):
    made().mount(ENTRY, WANTED)
    assert made().look(ENTRY, WANTED) is not None


def test_it_fails_as_ordered_on_one_machine_or_on_all(made):
    nodes = made(failures=["mount:TimedOut:10.0.0.7", "look:Unreachable"])
    jobs = [Job(action="mount", entry=entry, mount=WANTED) for entry in (ENTRY, Entry(host="b", host_key="", key=""))]
    assert [type(outcome.error) for outcome in nodes.many(jobs)] == [contract.TimedOut, type(None)]
    with pytest.raises(contract.Unreachable):
        nodes.look(ENTRY, WANTED)


@pytest.mark.parametrize("order", ["mount", "paint:Unreachable", "mount:Happy", ""])
def test_an_order_that_makes_no_sense_is_said(made, order):
    with pytest.raises(ValueError, match="is not method:Error"):
        made(failures=[order])
