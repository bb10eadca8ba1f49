# SPDX-License-Identifier: Apache-2.0
"""`python -m abaca.db.migrations` writes the next revision, in a copy of the source."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import abaca
from abaca.db import migrations, tables

SOURCE = Path(abaca.__file__).parent
NUMBER = f"{int(migrations.HEAD) + 1:04d}"
ADDED = """
import sqlalchemy as added
metadata.tables["shares"].append_column(added.Column("colour", added.String(36), {options}))
"""
A_TABLE = """
colours = added.Table(
    "colours",
    metadata,
    added.Column("id", added.String(36).with_variant(added.String(36, collation="C"), "postgresql"), primary_key=True),
    added.Column("project_id", added.String(255), nullable=False),
    added.Column("created_at", added.DateTime, nullable=False),
    added.Index("ix_colours_project_id_created_at_id", "project_id", "created_at", "id"),
)
any_project = colours.c.project_id > added.literal_column("''")
added.Index("ix_colours_created_at", colours.c.created_at, sqlite_where=any_project)
"""


@pytest.fixture
def changed(tmp_path):
    """`changed(text)`: a copy of the source whose tables say that too."""
    copy = tmp_path / "abaca"

    def change(text):
        shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        with (copy / Path(tables.__file__).relative_to(SOURCE)).open("a") as file:
            file.write(text)
        return copy

    return change


def run(copy):
    return subprocess.run(
        [sys.executable, "-m", "abaca.db.migrations", "A share has a colour"],
        env={**os.environ, "PYTHONPATH": str(copy.parent)},
        cwd=copy.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_change_of_the_tables_becomes_a_revision_that_makes_all_of_it(changed):
    copy = changed(ADDED.format(options="") + A_TABLE)
    ran = run(copy)
    assert (ran.returncode, "by hand" in ran.stdout) == (0, False), ran.stdout + ran.stderr
    written = (copy / f"db/migrations/versions/{NUMBER}_a_share_has_a_colour.py").read_text()
    assert written.count("postgresql_where=") == written.count("sqlite_where=") == 2
    assert "ALTER TABLE colours ALTER COLUMN project_id SET (n_distinct = 1)" in written
    assert 'collation="C"' in written
    assert f'HEAD = "{NUMBER}"' in (copy / "db/migrations/__init__.py").read_text()


def test_a_column_that_rows_of_today_could_not_have_is_refused(changed):
    copy = changed(ADDED.format(options="nullable=False"))
    ran = run(copy)
    assert (ran.returncode, "server_default" in ran.stdout + ran.stderr) == (1, True)
    assert list((copy / "db/migrations/versions").glob(f"{NUMBER}*")) == []


def test_what_could_not_be_written_is_printed(changed):
    condition = "project_id > added.literal_column(\"'a'\")"
    index = "next(one for one in table.indexes if one.name == 'ix_shares_created_at_id')"
    planted = f"table = metadata.tables['shares']\n{index}.dialect_options['sqlite']['where'] = table.c.{condition}\n"
    ran = run(changed(ADDED.format(options="") + planted))
    assert "+ index ix_shares_created_at_id on shares" in ran.stdout
    assert "by hand" in ran.stdout + ran.stderr
