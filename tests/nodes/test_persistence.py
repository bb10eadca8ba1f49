# SPDX-License-Identifier: Apache-2.0
"""What makes a mount come back: names and texts of units and fstab lines, against systemd's own tools."""

import shutil
import string
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abaca.nodes import persistence
from abaca.nodes.contract import Mount

OPTIONS = ("rw", "vers=4.2", "hard")
PATHS = {
    "plain": "/mnt/data",
    "deep": "/srv/a/b/c",
    "dashes": "/mnt/6e8b-11/x-y",
    "a dot first": "/.hidden/x.y",
    "space": "/mnt/my share",
    "quotes": '/mnt/it\'s "here"',
    "shell": "/mnt/$(reboot);`id`|x&y",
    "percent": "/mnt/100%n",
    "letters": "/mnt/größe/数据",
}


def wanted(mount_point="/mnt/data", source="10.0.0.10:/shares/x"):
    return Mount(name="a1", source=source, mount_point=mount_point)


def has(program):
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is missing: apt-get install systemd")


def escaped_by_systemd(paths):
    command = ["systemd-escape", "--path", "--suffix=mount", *paths]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


@has("systemd-escape")
@pytest.mark.system
@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_unit_has_the_name_that_systemd_gives_it(path):
    assert persistence.unit_name(path) == escaped_by_systemd([path])[0]


@has("systemd-escape")
@pytest.mark.system
@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(string.printable + "äß¥", min_size=1, max_size=20), min_size=1, max_size=30))
def test_any_path_that_is_let_through_has_the_name_that_systemd_gives_it(texts):
    paths = [path for text in texts if not persistence.path_problem(path := f"/mnt/{text}")]
    if paths:
        assert [persistence.unit_name(path) for path in paths] == escaped_by_systemd(paths)


@has("systemd-analyze")
@pytest.mark.system
@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_systemd_finds_nothing_wrong_with_a_unit(tmp_path, path):
    unit = tmp_path / persistence.unit_name(path)
    unit.write_text(persistence.unit_text(wanted(path), path, "nfs4", OPTIONS) + "\n")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "mnt/x",
        "/mnt/../etc",
        "/mnt/./x",
        "/mnt//x",
        "/mnt/x/",
        "/mnt/a\nb",
        "/mnt/a\0b",
        "/mnt/a\tb",
        "/mnt/a\x7fb",
        "/mnt/a\u2028b",
        "/mnt/a\\",
        "/mnt/x ",
        "/" + "x" * 255,
        "/mnt/\udc80",
    ],
)
def test_a_path_that_some_file_would_read_differently_is_refused(path):
    assert persistence.path_problem(path)


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_field_of_a_table_reads_back_as_it_was(path):
    field = persistence.escaped_for_table(path)
    assert " " not in field
    assert persistence.read_from_table(field) == path


def test_spaces_stand_in_the_fstab_as_octal_numbers():
    lines = persistence.fstab_lines(wanted("/mnt/my share"), "/mnt/my share", "nfs4", OPTIONS).splitlines()
    assert lines == [
        "# abaca a1 made=/mnt/my\\040share",
        "10.0.0.10:/shares/x /mnt/my\\040share nfs4 rw,vers=4.2,hard,nofail,_netdev 0 0",
    ]


def test_a_mark_says_whose_it_is_and_what_was_made():
    assert persistence.read_mark(persistence.mark("a1", "/mnt/my share")) == ("a1", "/mnt/my share")
    assert persistence.read_mark(persistence.mark("a1", "")) == ("a1", "")
    assert persistence.read_mark("# a comment of abaca") is None


@pytest.mark.parametrize("name", ["", "a b", "a\nb", "../x", "x" * 65, "$(id)"])
def test_a_name_is_never_more_than_a_name(name):
    assert persistence.name_problem(name)
