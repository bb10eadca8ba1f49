# SPDX-License-Identifier: Apache-2.0
"""Where a share may be mounted: what is accepted can stand in a command line, and members cannot become root by it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abaca import errors
from abaca.domain.attachments import mount_points
from abaca.domain.attachments.mount_points import Roots

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
        mount_points.check(path)


@pytest.mark.parametrize("path", ["/net/mymount", "/mnt/x", "/srv/a.b_c-d+e@f", "/home/u/x", "/data", "/var/lib/app",
                                  "/usr/local/share/x", "/mnt/.hidden", "/" + "x" * 254])  # fmt: skip
def test_an_ordinary_mount_point_is_taken_as_it_is(path):
    assert mount_points.check(path) == path


@given(st.text(max_size=40).map(lambda text: "/mnt/" + text))
def test_what_is_accepted_has_no_character_that_a_shell_or_a_unit_file_reads(path):
    try:
        taken = mount_points.check(path)
    except errors.Invalid:
        return
    assert taken.isascii()
    assert not set(taken) & set(" \t\n'\"\\$`;&|<>(){}[]*?!#~%^=,")


TAKES_OVER = [
    "/usr/local/sbin", "/usr/local/bin", "/usr/local/lib/x", "/root/.ssh", "/root/x", "/home/ann/.ssh", "/home/ann",
    "/home/ann/.config/x", "/home/ann/project/.git", "/var/spool/cron/crontabs", "/var/lib/systemd", "/var/lib/app",
    "/opt/app/bin", "/net/x", "/tmp/x", "/datax", "/mntx/y", "/home2/ann/x", "/x",
]  # fmt: skip


@pytest.mark.parametrize("path", TAKES_OVER)
def test_members_choose_no_place_by_which_they_take_a_machine_over(path):
    with pytest.raises(errors.Invalid) as refused:
        Roots().check(path, "project", "server")
    for root in (*mount_points.ROOTS, mount_points.HOME):
        assert root in refused.value.message


@pytest.mark.parametrize(
    "path", ["/mnt/x", "/srv/a/b", "/media/x", "/data", "/data/x", "/home/ann/data", "/mnt/.hidden"]
)
def test_members_choose_below_the_roots(path):
    Roots().check(mount_points.check(path), "project", "server")


@pytest.mark.parametrize(
    ("said", "where"),
    [
        ("/net", {("project", "server"), ("project", "one"), ("other", "one"), ("other", "server")}),
        ("project:/net", {("project", "server"), ("project", "one")}),
        ("one:/net", {("project", "one"), ("other", "one")}),
    ],
)
def test_an_operator_adds_roots_for_all_for_a_project_or_for_a_server(said, where):
    roots = mount_points.read_roots([said, "nobody:/opt/x"])
    for place in [("project", "server"), ("project", "one"), ("other", "one"), ("other", "server")]:
        if place in where:
            roots.check("/net/mymount", *place)
            continue
        with pytest.raises(errors.Invalid) as refused:
            roots.check("/net/mymount", *place)
        assert "/opt/x" not in refused.value.message, "what others may is not told"


@pytest.mark.parametrize("said", ["/", "/etc", "net", "/net/../etc", "/net/", "x:/usr", ":/net", "/a b"])
def test_a_root_that_cannot_be_one_is_refused(said):
    with pytest.raises(errors.Invalid):
        mount_points.read_roots([said])
