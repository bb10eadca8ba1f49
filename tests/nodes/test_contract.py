# SPDX-License-Identifier: Apache-2.0
"""What is promised of mounting on machines, for real ones and for those on paper: the same tests, a harness each."""

import msgspec
import pytest

from abaca.nodes import contract
from abaca.nodes.contract import Guest, Holder, Job
from tests.nodes.machines import wanted

POINT = "/mnt/a/b"


@pytest.fixture
def nodes(harness):
    return harness.nodes


@pytest.fixture
def login(harness):
    return harness.login


@pytest.fixture
def mount():
    return wanted(mount_point=POINT)


@pytest.fixture
def mounted(nodes, login, mount):
    """What is seen of `mount`, which is there."""
    return nodes.mount(login, mount)


def other(mount, **more):
    """The same mount with something else about it."""
    return msgspec.structs.replace(mount, **more)


class TestThereAndBack:
    def test_a_mount_is_seen_and_kept_and_repeating_it_changes_nothing(self, harness, nodes, login, mount):
        assert nodes.look(login, mount) is None
        seen = nodes.mount(login, mount)
        assert (seen.source, seen.mount_point) == (mount.source, mount.mount_point)
        assert (seen.is_read_only, seen.made_directory, seen.is_persistent) == (False, True, True)
        assert seen.boot_id
        kept = harness.kept()
        assert nodes.mount(login, mount) == nodes.look(login, mount) == seen
        assert harness.kept() == kept
        assert [line.split()[:2] for line in kept[1:]] == [[mount.source, POINT]]

    def test_after_unmounting_nothing_is_left_and_it_may_be_repeated(self, harness, nodes, login, mount, mounted):
        nodes.unmount(login, mount)
        nodes.unmount(login, mount)
        assert nodes.look(login, mount) is None
        assert (harness.paths(), harness.kept()) == ([], [])

    def test_another_worker_sees_the_same_machine(self, harness, login, mount, mounted):
        worker = harness.more_nodes()
        assert worker.look(login, mount) == mounted
        worker.unmount(login, mount)
        worker.close()
        assert harness.paths() == []

    def test_what_was_kept_is_mounted_after_a_boot_and_what_was_unmounted_is_not(self, harness, nodes, login, mount):
        gone = wanted(mount_point="/mnt/gone")
        nodes.mount(login, mount)
        nodes.mount(login, gone)
        nodes.unmount(login, gone)
        harness.reboot()
        again = nodes.look(login, mount)
        assert (again.source, again.made_directory, again.is_persistent) == (mount.source, True, True)
        assert nodes.look(login, gone) is None

    def test_six_at_once_on_one_machine_lose_nothing_of_each_other(self, harness, nodes, login):
        jobs = [Job(action="mount", login=login, mount=wanted()) for _ in range(6)]
        outcomes = nodes.many(jobs)
        assert [one.job for one in outcomes] == jobs
        assert [one.seen.mount_point for one in outcomes] == [job.mount.mount_point for job in jobs]
        assert len(harness.kept()) == 12
        away = nodes.many([Job(action="unmount", login=login, mount=job.mount) for job in jobs])
        assert [(one.seen, one.error) for one in away] == [(None, None)] * 6
        assert (harness.paths(), harness.kept()) == ([], [])


class TestLooking:
    def test_nothing_is_there(self, harness, nodes, login, mount, mounted):
        harness.unmount_by_hand(POINT)
        assert nodes.look(login, mount) is None
        assert nodes.mount(login, mount) == mounted, "and it is put right"

    def test_another_export_is_there(self, nodes, login, mount, mounted):
        assert nodes.look(login, other(mount, source="10.0.0.2:/other")) is None

    def test_a_read_only_share_is_not_a_writable_one(self, nodes, login, mount, mounted):
        read_only = other(mount, is_read_only=True)
        assert nodes.look(login, read_only) is None
        assert nodes.mount(login, read_only).is_read_only
        assert nodes.look(login, mount) is None
        assert not nodes.mount(login, mount).is_read_only

    def test_it_would_not_come_back_after_a_reboot(self, harness, nodes, login, mount, mounted):
        harness.forget_after_reboot(POINT)
        assert not nodes.look(login, mount).is_persistent
        assert nodes.mount(login, mount).is_persistent, "and it is put right"
        nodes.unmount(login, mount)
        assert harness.kept() == []

    def test_a_look_tells_that_a_boot_would_bring_it_back_with_options_of_before(
        self, harness, nodes, login, mount, mounted
    ):
        """The share has another export location by now: the mount stays, and what is kept for a boot is made anew."""
        now = other(mount, others=("10.0.0.2:/elsewhere",))
        assert (nodes.look(login, mount).is_outdated, nodes.look(login, now).is_outdated) == (False, True)
        assert nodes.mount(login, now).source == mount.source
        assert (nodes.look(login, mount).is_outdated, nodes.look(login, now).is_outdated) == (True, False)
        harness.reboot()
        assert (nodes.look(login, now).source, nodes.look(login, now).is_outdated) == (mount.source, False)

    def test_looking_changes_nothing(self, harness, nodes, login, mount):
        nodes.look(login, mount)
        assert (harness.paths(), harness.kept()) == ([], [])


class TestMoving:
    @pytest.fixture
    def new(self, mount):
        return other(mount, source="10.0.0.2:/elsewhere")

    def test_it_moves_when_nobody_holds_it_and_a_boot_brings_the_new_one(
        self, harness, nodes, login, mount, new, mounted
    ):
        seen = nodes.remount(login, new, mount)
        assert (seen.source, seen.made_directory, seen.is_persistent) == (new.source, True, True)
        assert nodes.remount(login, new, mount) == nodes.look(login, new) == seen
        assert nodes.look(login, mount) is None
        harness.reboot()
        assert nodes.look(login, new).source == new.source
        nodes.unmount(login, new)
        assert (harness.paths(), harness.kept()) == ([], [])

    def test_while_it_is_held_it_stays_but_a_boot_brings_the_new_one(self, harness, nodes, login, mount, new, mounted):
        who = harness.hold(POINT)
        with pytest.raises(contract.InUse) as busy:
            nodes.remount(login, new, mount)
        assert busy.value.holders == (who,)
        assert nodes.look(login, mount).is_persistent
        assert harness.kept()[-1].split()[0] == new.source
        harness.let_go(POINT)
        harness.reboot()
        assert nodes.look(login, new).source == new.source

    def test_by_force_it_moves_from_under_its_holders(self, harness, nodes, login, mount, new, mounted):
        harness.hold(POINT)
        seen = nodes.remount(login, new, mount, force=True)
        assert (seen.source, seen.is_persistent) == (new.source, True)
        assert nodes.look(login, mount) is None
        harness.let_go(POINT)
        nodes.unmount(login, new)
        assert (harness.paths(), harness.kept()) == ([], [])

    def test_it_is_mounted_where_nothing_is_left_of_the_old(self, harness, nodes, login, mount, new, mounted):
        harness.unmount_by_hand(POINT)
        assert nodes.remount(login, new, mount).source == new.source
        nodes.unmount(login, new)
        assert harness.paths() == []

    def test_what_a_killed_worker_moved_half_way_is_known_as_its_own(self, nodes, login, mount, new, mounted):
        assert nodes.mount(login, new).source == new.source

    def test_a_held_share_does_not_become_read_only(self, harness, nodes, login, mount, mounted):
        harness.hold(POINT)
        with pytest.raises(contract.InUse):
            nodes.mount(login, other(mount, is_read_only=True))
        assert not nodes.look(login, mount).is_read_only
        harness.let_go(POINT)


class TestBeingHeld:
    def test_it_stays_and_stays_kept_and_its_holder_is_named(self, harness, nodes, login, mount, mounted):
        who = harness.hold(POINT)
        with pytest.raises(contract.InUse, match=f"in use .* process {who.pid} .sleep 1000.") as busy:
            nodes.unmount(login, mount)
        assert busy.value.holders == (who,)
        assert busy.value.may_pass
        assert nodes.look(login, mount) == mounted
        harness.let_go(POINT)
        nodes.unmount(login, mount)
        assert harness.paths() == []

    def test_force_takes_it_from_its_holders(self, harness, nodes, login, mount, mounted):
        harness.hold(POINT)
        nodes.unmount(login, mount, force=True)
        assert nodes.look(login, mount) is None
        assert (harness.paths(), harness.kept()) == ([], [])
        nodes.unmount(login, mount, force=True)

    def test_a_mount_below_holds_it_and_is_named(self, harness, nodes, login, mount, mounted):
        harness.occupy(f"{POINT}/below", "x")
        with pytest.raises(contract.InUse) as busy:
            nodes.unmount(login, mount)
        assert busy.value.holders == (Holder(0, f"a mount at {POINT}/below"),)
        harness.unmount_by_hand(f"{POINT}/below")


class TestDirectories:
    def test_what_is_made_again_because_somebody_removed_it_goes_too(self, harness, nodes, login, mount):
        harness.put("/mnt/a", "directory")
        nodes.mount(login, mount)
        harness.unmount_by_hand(POINT)
        for path in (POINT, "/mnt/a"):
            harness.put(path, "")
        nodes.mount(login, mount)
        nodes.unmount(login, mount)
        assert (harness.paths(), harness.kept()) == ([], [])

    def test_what_was_there_stays(self, harness, nodes, login, mount):
        harness.put(POINT, "directory")
        assert not nodes.mount(login, mount).made_directory
        nodes.unmount(login, mount)
        assert harness.paths() == ["/mnt/a", "/mnt/a/b"]

    def test_of_what_was_made_only_the_empty_goes(self, harness, nodes, login, mount, mounted):
        harness.put("/mnt/a/mine", "file")
        nodes.unmount(login, mount)
        assert harness.paths() == ["/mnt/a", "/mnt/a/mine"]

    def test_a_neighbour_keeps_the_directory_that_both_are_in(self, harness, nodes, login, mount, mounted):
        neighbour = wanted(mount_point="/mnt/a/c")
        nodes.mount(login, neighbour)
        nodes.unmount(login, mount)
        assert harness.paths() == ["/mnt/a", "/mnt/a/c"]
        assert nodes.look(login, neighbour).is_persistent

    def test_a_link_on_the_way_is_refused(self, harness, nodes, login, mount):
        harness.put("/mnt/a", "link /etc")
        with pytest.raises(contract.MountRefused, match="/mnt/a is a link to /etc: name the real place"):
            nodes.mount(login, mount)

    @pytest.mark.parametrize(
        ("path", "reason"), [(f"{POINT}/file", "is not empty"), (POINT, "is a file")], ids=["filled", "file"]
    )
    def test_what_a_mount_would_hide_is_left_alone(self, harness, nodes, login, mount, path, reason):
        harness.put(path, "file")
        before = harness.paths()
        with pytest.raises(contract.MountRefused, match=f"{POINT} {reason}"):
            nodes.mount(login, mount)
        nodes.unmount(login, mount)
        assert (harness.paths(), harness.kept()) == (before, [])


class TestStrangers:
    def test_a_place_that_is_taken_is_refused_with_what_is_there_and_left_alone(self, harness, nodes, login, mount):
        harness.occupy(POINT, "someone-elses")
        with pytest.raises(contract.MountRefused, match=f"{POINT} is taken by someone-elses .tmpfs."):
            nodes.mount(login, mount)
        nodes.unmount(login, mount)
        nodes.unmount(login, mount, force=True)
        assert nodes.look(login, other(mount, source="someone-elses")), "it is still there"
        assert harness.kept() == []

    @pytest.mark.parametrize("is_same_share", [False, True], ids=["another share", "the same share"])
    def test_the_place_of_another_attachment_is_refused_and_left_alone(
        self, harness, nodes, login, mount, mounted, is_same_share
    ):
        second = wanted(mount_point=POINT, **({"source": mount.source} if is_same_share else {}))
        with pytest.raises(contract.MountRefused, match=f"belongs to the attachment {mount.name}"):
            nodes.mount(login, second)
        nodes.unmount(login, second)
        assert nodes.look(login, mount) == mounted

    def test_a_place_that_is_kept_for_another_attachment_is_refused(self, harness, nodes, login, mount, mounted):
        harness.unmount_by_hand(POINT)
        with pytest.raises(contract.MountRefused, match=f"belongs to the attachment {mount.name}"):
            nodes.mount(login, wanted(mount_point=POINT))

    def test_a_share_that_somebody_mounted_by_hand_is_taken_over(self, harness, nodes, login, mount):
        harness.occupy(POINT, mount.source)
        seen = nodes.mount(login, mount)
        assert (seen.made_directory, seen.is_persistent) == (False, True)
        nodes.unmount(login, mount)
        assert (harness.paths(), harness.kept()) == (["/mnt/a", "/mnt/a/b"], [])

    def test_a_share_that_somebody_mounted_and_keeps_himself_is_refused_and_stays(self, harness, nodes, login, mount):
        harness.occupy(POINT, mount.source)
        harness.keep_by_hand(POINT, mount.source)
        kept = harness.kept()
        with pytest.raises(contract.MountRefused, match=f"/etc/fstab has a line for {POINT} that is not Abaca's"):
            nodes.mount(login, mount)
        nodes.unmount(login, mount)
        nodes.unmount(login, mount, force=True)
        assert nodes.look(login, mount), "it is still there"
        assert harness.kept() == kept

    def test_what_was_seen_is_unmounted_though_somebody_has_taken_its_mark(self, harness, nodes, login, mount, mounted):
        harness.forget_after_reboot(POINT)
        harness.keep_by_hand(POINT, mount.source)
        kept = harness.kept()
        nodes.unmount(login, other(mount, was_seen=True))
        assert nodes.look(login, mount) is None
        assert harness.kept() == kept


class TestTakingOver:
    """What an attachment that nobody knows any more has left."""

    @pytest.fixture
    def heir(self, mount):
        return wanted(mount_point=POINT, source=mount.source, former=mount.name)

    def test_the_same_share_stays_mounted_and_goes_with_its_heir(self, harness, nodes, login, mount, heir, mounted):
        who = harness.hold(POINT)
        assert nodes.mount(login, heir) == mounted
        assert len(harness.kept()) == 2
        with pytest.raises(contract.MountRefused, match=f"belongs to the attachment {heir.name}"):
            nodes.mount(login, mount)
        with pytest.raises(contract.InUse) as busy:
            nodes.unmount(login, heir)
        assert busy.value.holders == (who,)
        harness.let_go(POINT)
        assert nodes.mount(login, heir) == mounted, "it is repeated"
        nodes.unmount(login, heir)
        assert (harness.paths(), harness.kept()) == ([], [])

    def test_what_only_a_boot_would_bring_back_is_mounted(self, harness, nodes, login, heir, mounted):
        harness.unmount_by_hand(POINT)
        assert nodes.mount(login, heir) == mounted
        nodes.unmount(login, heir)
        assert (harness.paths(), harness.kept()) == ([], [])

    def test_another_share_is_nobodys_to_take(self, harness, nodes, login, mount, heir, mounted):
        kept = harness.kept()
        with pytest.raises(contract.MountRefused, match=f"belongs to the attachment {mount.name}") as refused:
            nodes.mount(login, other(heir, source="10.0.0.2:/other"))
        assert refused.value.details["owner"] == mount.name
        assert nodes.look(login, mount) == mounted
        assert harness.kept() == kept


class TestClearing:
    def test_what_bears_its_mark_goes_as_by_force(self, harness, nodes, login, mount, mounted):
        harness.hold(POINT)
        nodes.clear(login, mount)
        nodes.clear(login, mount)
        assert nodes.look(login, mount) is None
        assert (harness.paths(), harness.kept()) == ([], [])

    def test_the_same_share_of_another_attachment_stays(self, nodes, login, mount, mounted):
        nodes.clear(login, other(mount, name="another"))
        assert nodes.look(login, mount) == mounted

    def test_what_somebody_mounted_by_hand_stays(self, harness, nodes, login, mount):
        harness.occupy(POINT, mount.source)
        nodes.clear(login, mount)
        assert nodes.look(login, mount)


class TestRefusals:
    @pytest.mark.parametrize("path", ["/mnt/a\nb", "/mnt/a\0b", "/mnt/../etc/x", "/mnt//x", "/mnt/x/", "mnt", "/", ""])
    @pytest.mark.parametrize("call", ["mount", "look", "unmount"])
    def test_a_path_that_is_no_mount_point_goes_nowhere(self, nodes, login, path, call):
        with pytest.raises(contract.MountRefused, match="is no mount point"):
            getattr(nodes, call)(login, wanted(mount_point=path))

    @pytest.mark.parametrize("name", ["a b", "x\nmore", "", "x" * 65])
    def test_a_name_that_is_none_goes_nowhere(self, nodes, login, name):
        with pytest.raises(contract.MountRefused, match="is no name"):
            nodes.mount(login, wanted(name=name))

    def test_a_source_that_is_none_of_the_protocol_goes_nowhere(self, nodes, login):
        with pytest.raises(contract.MountRefused, match="an empty name"):
            nodes.mount(login, wanted(source=""))

    def test_a_protocol_that_nobody_serves_is_said(self, nodes, login, mount):
        with pytest.raises(contract.Unsupported, match="no mounter serves the protocol CIFS"):
            nodes.mount(login, other(mount, protocol="CIFS"))

    def test_a_guest_that_cannot_be_meant_goes_nowhere(self, nodes, login, mount):
        with pytest.raises(contract.MountRefused, match="is none for a guest"):
            nodes.mount(login, other(mount, guest=Guest(tag="a b", qmp_socket="/run/x.sock")))

    def test_what_the_server_refuses_leaves_nothing(self, harness, nodes, login, mount):
        with pytest.raises(contract.MountRefused, match=r"bad option|nonsense|wrong fs") as refused:
            nodes.mount(login, harness.refused(mount))
        assert not refused.value.may_pass
        assert (harness.paths(), harness.kept()) == ([], [])

    def test_what_hangs_ends_and_leaves_nothing(self, harness, nodes, login, mount):
        with pytest.raises(contract.TimedOut, match=f"mounting {POINT} hangs") as hung:
            nodes.mount(login, harness.hung(mount))
        assert hung.value.may_pass
        assert (harness.paths(), harness.kept()) == ([], [])

    def test_a_move_that_is_refused_is_tried_again_by_the_next_call(self, harness, nodes, login, mount, mounted):
        with pytest.raises(contract.MountRefused):
            nodes.remount(login, harness.refused(other(mount, source="10.0.0.2:/x")), mount)
        nodes.unmount(login, mount)
        assert (harness.paths(), harness.kept()) == ([], [])


def steps(found):
    return [(one.name, one.is_well) for one in found]


WAY_IN = [("key", True), ("ssh", True), ("host key", True), ("login", True)]


class TestProbing:
    def test_each_step_is_ticked(self, harness, nodes, login):
        assert steps(nodes.probe(login, "MEMORY")) == [*WAY_IN, ("sudo", True), ("client", True)]
        assert (harness.paths(), harness.kept()) == ([], [])

    def test_the_step_that_fails_is_the_last(self, harness, nodes, login):
        assert steps(nodes.probe(harness.stranger(), "MEMORY")) == [*WAY_IN[:2], ("host key", False)]
        with harness.away():
            *before, last = nodes.probe(login, "MEMORY")
        assert (steps(before), last.name, last.is_well) == (WAY_IN[:1], "ssh", False)
        assert "cannot be reached" in last.said


class TestReaching:
    def test_a_machine_that_is_away_is_unreachable_until_it_is_back(self, harness, nodes, login, mount, mounted):
        with harness.away():
            for call in (nodes.look, nodes.mount, nodes.unmount):
                with pytest.raises(contract.MachineUnreachable) as away:
                    call(login, mount)
                assert away.value.may_pass
        assert nodes.look(login, mount) == mounted

    def test_a_machine_with_another_host_key_is_not_entered(self, harness, nodes, mount):
        with pytest.raises(contract.HostKeyMismatch, match="shows another host key") as stranger:
            nodes.mount(harness.stranger(), mount)
        assert not stranger.value.may_pass
        assert harness.paths() == []

    def test_each_of_many_has_an_outcome_of_its_own(self, harness, nodes, login, mount):
        jobs = [
            Job(action="mount", login=login, mount=mount),
            Job(action="mount", login=harness.stranger(), mount=wanted()),
            Job(action="look", login=login, mount=wanted(mount_point="none")),
            Job(action="unmount", login=login, mount=wanted()),
            Job(action="clear", login=login, mount=wanted()),
        ]
        outcomes = nodes.many(jobs)
        errors = [type(None), contract.HostKeyMismatch, contract.MountRefused, type(None), type(None)]
        assert [type(one.error) for one in outcomes] == errors
        assert [one.seen is None for one in outcomes] == [False, True, True, True, True]
        move = Job(action="remount", login=login, mount=other(mount, source="10.0.0.2:/x"), old=mount)
        force = Job(action="unmount", login=login, mount=move.mount, force=True)
        assert nodes.many([move])[0].seen.source == "10.0.0.2:/x"
        harness.hold(POINT)
        assert nodes.many([force])[0].error is None
        assert nodes.many([]) == []

    def test_who_is_closed_reaches_nothing(self, harness, login, mount):
        nodes = harness.more_nodes()
        nodes.close()
        with pytest.raises(contract.MachineUnreachable, match="the worker is stopping"):
            nodes.look(login, mount)
