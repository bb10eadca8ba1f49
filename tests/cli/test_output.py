# SPDX-License-Identifier: Apache-2.0
"""How commands show what they found, on terminals and for programs."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from abaca.cli import tables
from abaca.db.engine.database import Database
from abaca.db.journal import operations

DOCUMENT = Path(__file__).parents[2] / "docs" / "operating" / "README.md"
KINDS = ("share-create", "share-delete", "share-extend")
SHARE_ID = "01a203a2-2bfa-75b1-8bd3-ab1a8a38e126"


@pytest.fixture
def file(abaca, config, tmp_path):
    """A configuration whose journal holds three operations, of one share."""
    file = config()
    abaca("db", "upgrade", "--config-file", file)
    db = Database(f"sqlite:///{tmp_path / 'state' / 'abaca.sqlite'}")
    with db.write() as tx:
        for kind in KINDS:
            row = {"kind": kind, "queue": "here@dummy", "keys": [f"share:{SHARE_ID}"], "args": {}}
            operations.add(tx, {**row, "resource_type": "share", "resource_id": SHARE_ID})
    db.close()
    return file


def on_terminal(width, *arguments):
    """What a command shows on a terminal of so many columns, line by line."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(width), "TERM": "dumb"}
    command = [sys.executable, "-m", "abaca", *map(str, arguments)]
    with subprocess.Popen(command, stdout=theirs, stdin=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        said = b""
        with os.fdopen(ours, "rb", buffering=0) as screen:
            try:
                while part := screen.read(65536):
                    said += part
            except OSError:  # the other end is closed
                pass
        assert process.wait() == 0, said
    return said.decode().replace("\r", "").splitlines()


def test_a_list_fits_a_terminal_of_a_hundred_columns_with_a_line_a_row(file):
    lines = [line for line in on_terminal(100, "operation", "list", "--config-file", file) if line.strip()]
    assert max(map(len, lines)) <= 100
    assert len(lines) == 2 + len(KINDS)
    rows = [line.split() for line in lines[2:]]
    assert [row[1] for row in rows] == list(reversed(KINDS))
    assert len({row[0] for row in rows}) == len(KINDS)


def test_ids_are_cut_to_where_they_differ():
    alike = ["01a203a2-2bfa-75b1-8bd3-ab1a8a38e126", "01a203a2-2bfa-75b1-8bd3-ab1a8a38e999"]
    other = "01a203a2-2bfb-75b1-8bd3-ab1a8a38e126"
    assert tables.short_ids([*alike, other]) == {
        alike[0]: "01a203a2-2bfa-75b1-8bd3-ab1a8a38e1",
        alike[1]: "01a203a2-2bfa-75b1-8bd3-ab1a8a38e9",
        other: "01a203a2-2bfb",
    }


def test_programs_get_whole_ids_as_json_and_as_yaml(abaca, file):
    said = [abaca("operation", "list", "--config-file", file, *form) for form in (["--json"], ["-o", "json"])]
    rows = json.loads(said[0].out)
    assert said[0].out == said[1].out
    assert {row["resource_id"] for row in rows} == {SHARE_ID}
    assert yaml.safe_load(abaca("operation", "list", "--config-file", file, "-o", "yaml").out) == rows


def test_wide_abbreviates_nothing(abaca, file):
    rows = json.loads(abaca("operation", "list", "--config-file", file, "--json").out)
    said = abaca("operation", "list", "--config-file", file, "-o", "wide").out
    assert all(row["id"] in said for row in rows)
    assert "here@dummy" in said


def test_columns_are_chosen_by_name_in_their_order(abaca, file):
    rows = json.loads(abaca("operation", "list", "--config-file", file, "--json", "--columns", "state,kind").out)
    assert [list(row) for row in rows] == [["state", "kind"]] * len(KINDS)
    said = abaca("operation", "list", "--config-file", file, "--columns", "colour")
    assert said.status == 1
    assert "There is no column colour; there are: id, kind," in said.err


@pytest.mark.parametrize(("typed", "meant"), [(["operatoin"], "operation"), (["operation", "lsit"], "list")])
def test_a_mistyped_command_is_told_what_looks_like_it(abaca, typed, meant):
    said = abaca(*typed)
    assert said.status == 2
    assert f"Did you mean '{meant}'?" in said.err


def test_shells_complete_commands():
    asked = {"_ABACA_COMPLETE": "bash_complete", "COMP_WORDS": "abaca oper", "COMP_CWORD": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'abaca'; from abaca.cli.main import main; main()"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.strip() == "plain,operation"


def test_the_line_for_a_shells_profile_completes_as_it_stands_in_the_documents(tmp_path):
    (line,) = re.findall(r"^    (eval .*_ABACA_COMPLETE=bash_source.*?)\s+#", DOCUMENT.read_text(), re.MULTILINE)
    command = tmp_path / "abaca"
    command.write_text(f"#!{sys.executable}\nfrom abaca.cli.main import main\nmain()\n")
    command.chmod(0o755)
    script = f"""{line}
        complete -p abaca
        COMP_WORDS=(abaca operation li) COMP_CWORD=2
        "$(complete -p abaca | sed 's/.*-F //; s/ .*//')" abaca
        echo "completed: ${{COMPREPLY[@]}}"
    """
    path = f"{tmp_path}:{os.environ['PATH']}"
    bash = ["bash", "--norc", "-c", script]
    ended = subprocess.run(bash, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)
    assert "completed: list" in ended.stdout.splitlines(), ended
