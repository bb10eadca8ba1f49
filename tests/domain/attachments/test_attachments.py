# SPDX-License-Identifier: Apache-2.0
"""Where a share may be mounted, and under which tag: what is accepted can stand in a command line as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abaca import errors
from abaca.domain.attachments import attachments

BAD = [
    "", "mnt/x", "../x", "/", "//", "/mnt//x", "/mnt/x/", "/mnt/./x", "/mnt/../etc", "/mnt/x/..", "/mnt/a b",
    "/mnt/a\nb", "/mnt/a\0b", "/mnt/a'b", '/mnt/a"b', "/mnt/$(reboot)", "/mnt/`id`", "/mnt/a;b", "/mnt/a\\b",
    "/mnt/-rf",
    "/etc", "/etc/x", "/proc/1", "/sys", "/dev/shm/x", "/usr", "/usr/bin/x", "/usr/local", "/bin", "/boot/x", "/run/x",
    "/lib64/x", "/var", "/var/run/x", "/var/lib", "/home", "/root", "/mnt", "/tmp", "/mnt/ü", "/mnt/%i",
    "/" + "x" * 255, "/mnt/\x7f", "/mnt/a*", "/mnt/~x", "/mnt/{a,b}", "/mnt/#x", "/mnt/\ud800",
]  # fmt: skip


@pytest.mark.parametrize("path", BAD)
def test_a_mount_point_that_could_hurt_is_refused(path):
    with pytest.raises(errors.Invalid):
        attachments.check_mount_point(path)


@pytest.mark.parametrize("path", ["/net/mymount", "/mnt/x", "/srv/a.b_c-d+e@f", "/home/u/x", "/data", "/var/lib/app",
                                  "/usr/local/share/x", "/mnt/.hidden", "/" + "x" * 254])  # fmt: skip
def test_an_ordinary_mount_point_is_taken_as_it_is(path):
    assert attachments.check_mount_point(path) == path


@given(st.text(max_size=40).map(lambda text: "/mnt/" + text))
def test_what_is_accepted_has_no_character_that_a_shell_or_a_unit_file_reads(path):
    try:
        taken = attachments.check_mount_point(path)
    except errors.Invalid:
        return
    assert taken.isascii()
    assert not set(taken) & set(" \t\n'\"\\$`;&|<>(){}[]*?!#~%^=,")


@pytest.mark.parametrize("tag", ["", "a b", "a_b", "x" * 256, "ä", "a\n"])
def test_a_tag_that_nova_would_refuse_is_refused(tag):
    with pytest.raises(errors.Invalid):
        attachments.check_tag(tag, "share")


def test_without_a_tag_the_shares_id_is_one():
    assert attachments.check_tag(None, "7f3c") == "7f3c"
    assert attachments.check_tag("my-Tag-1", "7f3c") == "my-Tag-1"


def test_the_delays_between_tries_grow_up_to_an_hour():
    delays = [attachments.retry_delay_s(attempts) for attempts in range(1, 12)]
    assert delays == sorted(delays)
    assert delays[0] == 30
    assert delays[-1] == 3600
