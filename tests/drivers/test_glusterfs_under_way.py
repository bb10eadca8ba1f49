# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811
"""What Heketi works on holds up no call of the GlusterFS driver, and is found again whoever is killed meanwhile."""

import time

import pytest

from abaca.drivers import contract
from tests.drivers.contract.calls import settled
from tests.drivers.test_glusterfs import rig, shared, volumes_of  # noqa: F401 (fixtures)


@pytest.fixture
def heketi(rig):
    return rig.bed.heketi


def under_way(call, *arguments):
    """The call has begun something, or waits its turn; what it says of that."""
    with pytest.raises(contract.UnderWay) as raised:
        call(*arguments)
    return raised.value


def begun(heketi, call, *arguments):
    """The call has begun what Heketi does not end before it is released."""
    heketi.is_held = True
    return under_way(call, *arguments)


def killed(heketi):
    """Heketi is killed in the middle of what it is at, and started anew."""
    heketi.restart()
    heketi.is_held = False


@pytest.fixture(params=["the same worker", "another worker"])
def going_on(rig, request):
    """The driver that goes on with a call: of a worker that has begun it, or of one that has not."""
    return (lambda: rig.driver) if request.param == "the same worker" else rig.start


def test_a_creation_that_takes_long_is_looked_at_and_made_once(rig, heketi, going_on):
    share = rig.instance()
    heketi.is_held = True
    for _ in range(3):
        told = under_way(rig.driver.create, share)
        assert f"abaca_{share.id}" in told.message
        assert 0 < told.look_again_s <= 5
    assert len(volumes_of(rig, share)) == 1
    driver = going_on()
    under_way(driver.create, share)
    heketi.release()
    assert settled(driver.create, share).exports
    assert (len(volumes_of(rig, share)), rig.size_gib(share)) == (1, 1)
    driver.delete(share)


def test_a_creation_in_which_heketi_was_killed_is_cleaned_up_and_made_again(rig, heketi, going_on):
    share = rig.instance()
    begun(heketi, rig.driver.create, share)
    killed(heketi)
    assert settled(going_on().create, share).exports
    assert (len(volumes_of(rig, share)), heketi.works) == (1, {})
    rig.driver.delete(share)


def test_deleting_waits_for_a_creation_that_heketi_hides(rig, heketi, going_on):
    share = rig.instance()
    begun(heketi, rig.driver.create, share)
    driver = going_on()
    under_way(driver.delete, share)
    heketi.release()
    settled(driver.delete, share)
    assert volumes_of(rig, share) == []


def test_deleting_cleans_up_a_creation_in_which_heketi_was_killed(rig, heketi, going_on):
    share = rig.instance()
    begun(heketi, rig.driver.create, share)
    killed(heketi)
    settled(going_on().delete, share)
    assert (volumes_of(rig, share), heketi.works) == ([], {})


def test_a_creation_that_has_failed_is_in_nobodys_way(rig, heketi, going_on):
    share = rig.instance()
    begun(heketi, rig.driver.create, share)
    heketi.fails["create-volume"] = "no route to host"
    heketi.release()
    settled(going_on().delete, share)
    assert (volumes_of(rig, share), heketi.works) == ([], {})


def test_a_deletion_that_takes_long_ends_when_heketi_has_ended_it(rig, heketi, going_on):
    share = rig.share()
    begun(heketi, rig.driver.delete, share)
    driver = going_on()
    under_way(driver.delete, share)
    heketi.release()
    settled(driver.delete, share)
    assert (volumes_of(rig, share), heketi.works) == ([], {})


def test_a_deletion_in_which_heketi_was_killed_is_cleaned_up(rig, heketi, going_on):
    """It hides the volume, which then looks as if it were gone."""
    share = rig.share()
    begun(heketi, rig.driver.delete, share)
    killed(heketi)
    settled(going_on().delete, share)
    assert (volumes_of(rig, share), heketi.works) == ([], {})


def test_the_deletion_of_a_volume_that_was_taken_over_is_ended_too(rig, heketi, going_on):
    old = rig.share()
    exports = rig.driver.create(old).exports
    rig.driver.unmanage(old)
    share = rig.instance(exports=exports)
    rig.driver.manage(share, {})
    begun(heketi, rig.driver.delete, share)
    driver = going_on()
    under_way(driver.delete, share)
    heketi.release()
    settled(driver.delete, share)
    assert (volumes_of(rig, old), heketi.works) == ([], {})


def test_why_a_deletion_failed_is_told_and_it_can_be_tried_again(rig, heketi):
    share = rig.share()
    begun(heketi, rig.driver.delete, share)
    heketi.fails["delete-volume"] = "volume delete: failed: Operation not permitted"
    heketi.release()
    with pytest.raises(contract.Refused, match="not permitted"):
        rig.driver.delete(share)
    heketi.fails.clear()
    settled(rig.driver.delete, share)
    assert (volumes_of(rig, share), heketi.works) == ([], {})


def test_growing_that_takes_long_is_not_begun_twice(rig, heketi, going_on):
    share = rig.share()
    heketi.is_held = True
    for _ in range(3):
        under_way(rig.driver.extend, share, 9)
    driver = going_on()
    under_way(driver.extend, share, 9)
    assert [work.kind for work in heketi.works.values()].count("expand-volume") == 1
    heketi.release()
    before = len(rig.bed.nodes.scripts)
    settled(driver.extend, share, 9)
    assert (volumes_of(rig, share)[0]["size"], rig.size_gib(share)) == (10, 9)
    written = [words for _, words in rig.bed.nodes.scripts[before:] if words[:2] == ["sync", "-f"]]
    assert all(any(brick.partition(":")[2] in words for words in written) for brick in rig.volume(share).bricks)
    driver.delete(share)


def test_every_node_has_a_certificate_before_heketi_begins_to_grow_a_volume(rig, heketi):
    share = rig.share()
    place = rig.bed.nodes.ssl("127.0.7.2")
    for file in place.iterdir():
        file.unlink()
    driver = rig.start()
    begun(heketi, driver.extend, share, 9)
    assert {file.name for file in place.iterdir()} >= {"glusterfs.pem", "glusterfs.key", "glusterfs.ca"}
    heketi.release()
    settled(driver.extend, share, 9)
    driver.delete(share)


def test_growing_in_which_heketi_was_killed_is_begun_anew(rig, heketi, going_on):
    share = rig.share()
    begun(heketi, rig.driver.extend, share, 9)
    killed(heketi)
    settled(going_on().extend, share, 9)
    assert (volumes_of(rig, share)[0]["size"], rig.size_gib(share), heketi.works) == (10, 9, {})
    rig.driver.delete(share)


def cut_short(rig, share):
    """Heketi is killed when GlusterFS has the bricks by which the share's volume grows, and Heketi has not heard it."""
    begun(rig.bed.heketi, rig.driver.extend, share, 9)
    (work,) = rig.bed.heketi.works.values()
    rig.bed.gluster.expand(f"abaca_{share.id}", work.bricks)
    killed(rig.bed.heketi)


def test_bricks_that_cannot_leave_since_others_are_full_are_told_and_leave_later(rig, heketi):
    share = rig.share("text")
    cut_short(rig, share)
    rig.volume(share).is_crowded = True
    # Days, and Heketi has its own hour after them: its waits are told from this one by how long they may last.
    assert under_way(rig.driver.extend, share, 9).within_s > 86400
    for _ in range(2):
        with pytest.raises(contract.Busy, match="do the other bricks have room"):
            rig.driver.extend(share, 9)
    rig.volume(share).is_crowded = False
    settled(rig.driver.extend, share, 9)
    assert (rig.size_gib(share), heketi.works, rig.read(share)) == (9, {}, "text")
    rig.driver.delete(share)


def test_growing_in_which_heketi_was_killed_at_its_end_leaves_no_brick_that_it_does_not_know(rig, heketi, going_on):
    share = rig.share("text")
    cut_short(rig, share)
    settled(going_on().extend, share, 9)
    (volume,) = volumes_of(rig, share)
    assert (volume["size"], rig.size_gib(share), heketi.works, rig.read(share)) == (10, 9, {}, "text")
    known = [brick["id"] for brick in volume["bricks"][-3:]]
    assert [brick.split("brick_")[1].removesuffix("/brick") for brick in rig.volume(share).bricks[1:]] == known
    rig.driver.delete(share)


@pytest.mark.parametrize("is_at_its_end", [False, True])
def test_a_share_of_which_heketi_gave_up_the_growing_can_be_deleted(rig, heketi, going_on, is_at_its_end):
    """As long as Heketi has such work it deletes nothing of the volume."""
    share = rig.share()
    if is_at_its_end:
        cut_short(rig, share)
    else:
        begun(heketi, rig.driver.extend, share, 9)
        heketi.fails["expand-volume"] = "no route to host"
        heketi.release()
        heketi.fails.clear()
    free = [device["storage"]["used"] for node in heketi.nodes.values() for device in node["devices"]]
    assert any(free)
    settled(going_on().delete, share)
    assert (volumes_of(rig, share), heketi.works) == ([], {})
    assert not any(device["bricks"] for node in heketi.nodes.values() for device in node["devices"])


def test_all_that_is_under_way_is_looked_at_in_one_moment(rig, heketi):
    """The journal takes up together what is due together, at less cost."""
    shares = [rig.instance() for _ in range(8)]
    heketi.is_held = True
    for share in shares:
        under_way(rig.driver.create, share)
    every_s, slack_s = 0.8, 1e-6
    for share in shares:
        from_s = time.monotonic()
        pause_s = under_way(rig.driver.create, share).look_again_s
        until_s = time.monotonic()
        # a moment that is divisible by the time between two looks, whenever the call came to set it
        assert (until_s + pause_s + slack_s) // every_s > (from_s + pause_s - slack_s) // every_s
    heketi.release()
    for share in shares:
        settled(rig.driver.create, share)
        rig.driver.delete(share)


def test_what_heketi_has_no_hand_free_for_waits_its_turn(rig, heketi):
    shares = [rig.instance() for _ in range(20)]
    heketi.is_held = True
    told = [under_way(rig.driver.create, share) for share in shares]
    assert {one.within_s for one in told} == {3600}
    assert len(heketi.works) == 8
    # The more there are in the line, the later each asks again: together they ask four times a second.
    assert [one.look_again_s for one in told[8:]] == [max(0.25, number / 4) for number in range(1, 13)]
    assert under_way(rig.driver.create, shares[8]).look_again_s == 3
    heketi.release()
    for share in shares:
        assert settled(rig.driver.create, share).exports
        rig.driver.delete(share)
