# SPDX-License-Identifier: Apache-2.0
"""What a host copies is the same afterwards, however often it has to begin again, and what is not is seen."""

import os

import pytest

from abaca.drivers import contract, copying


@pytest.fixture
def places(tmp_path):
    """A directory with all kinds of things in it, and an empty one."""
    source, destination = tmp_path / "source", tmp_path / "destination"
    (source / "deep" / "er").mkdir(parents=True)
    destination.mkdir()
    (source / "file").write_text("text")
    (source / "file").chmod(0o640)
    (source / "deep" / "er" / "empty").touch()
    (source / "link").symlink_to("../outside")
    os.link(source / "file", source / "deep" / "same")
    os.utime(source / "deep", (1_000_000, 1_000_000))
    return source, destination


def test_a_copy_has_all_that_the_source_has(places):
    source, destination = places
    copying.copy(source, destination)
    assert copying.differences(source, destination) == []
    assert (destination / "deep" / "same").samefile(destination / "file")
    assert (destination / "link").readlink() == (source / "link").readlink()
    assert (destination / "deep").stat().st_mtime == 1_000_000


def test_a_copy_that_is_begun_again_copies_only_what_changed(places):
    source, destination = places
    copying.copy(source, destination)
    inode = (destination / "deep" / "er" / "empty").stat().st_ino
    (source / "file").write_text("later")
    copying.copy(source, destination)
    assert copying.differences(source, destination) == []
    assert (destination / "deep" / "er" / "empty").stat().st_ino == inode


def test_a_file_that_was_half_copied_is_copied_again(places):
    source, destination = places
    (destination / "file").write_text("te")
    copying.copy(source, destination)
    assert (destination / "file").read_text() == "text"


def test_what_is_in_the_way_and_what_is_too_much_goes(places):
    source, destination = places
    (destination / "file").mkdir()
    (destination / "deep").write_text("in the way")
    (destination / "link").write_text("in the way")
    (destination / "old" / "er").mkdir(parents=True)
    copying.copy(source, destination)
    assert copying.differences(source, destination) == []


def test_a_pipe_is_left_out(places):
    source, destination = places
    os.mkfifo(source / "pipe")
    copying.copy(source, destination)
    assert not (destination / "pipe").exists()
    assert copying.differences(source, destination) == []


def test_progress_is_told_in_files_and_bytes(places):
    seen = []
    copying.copy(*places, seen=lambda files, size: seen.append((files, size)))
    assert seen[-1] == (4, 2 * len("text") + len("../outside"))
    assert seen == sorted(seen)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda place: (place / "file").write_text("tent"), id="another content"),
        pytest.param(lambda place: (place / "file").chmod(0o600), id="other permissions"),
        pytest.param(lambda place: (place / "link").unlink(), id="something less"),
        pytest.param(lambda place: (place / "more").touch(), id="something more"),
        pytest.param(lambda place: os.utime(place / "deep", (5, 5)), id="another time"),
    ],
)
def test_whatever_is_not_the_same_is_seen(places, damage):
    source, destination = places
    copying.copy(source, destination)
    damage(destination)
    assert copying.differences(source, destination)


def test_a_copied_file_with_the_size_and_time_of_the_source_but_other_bytes_is_seen(places):
    source, destination = places
    copying.copy(source, destination)
    (destination / "file").write_text("tent")
    os.utime(destination / "file", ns=(0, (source / "file").stat().st_mtime_ns))
    assert copying.differences(source, destination) == ["deep/same differs", "file differs"]


def test_a_source_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(contract.Refused):
        copying.copy(tmp_path / "nothing", tmp_path)
