# SPDX-License-Identifier: Apache-2.0
"""Write the next migration from the difference between the chain and db/tables.

`python -m abaca.db.migrations "A share remembers its colour"`; `--initial` writes 0001 anew, until the first release.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.script import ScriptDirectory

from abaca.db.engine import schema

VERSIONS = Path(__file__).parent / "versions"


def write(sentence: str, *, initial: bool) -> Path:
    """The file of the new revision. Read it before you commit it: Alembic does not see renames."""
    if initial:
        (VERSIONS / "0001_initial.py").unlink(missing_ok=True)
    config = schema.alembic_config()
    number = f"{len(list(VERSIONS.glob('[0-9]*.py'))) + 1:04d}"
    with tempfile.TemporaryDirectory() as scratch:
        url = f"sqlite:///{scratch}/scratch.sqlite"
        if ScriptDirectory.from_config(config).get_current_head() is not None:
            schema.upgrade(url)
        with sa.create_engine(url).connect() as connection:
            config.attributes["connection"] = connection
            config.set_main_option("file_template", "%%(rev)s_%%(slug)s")
            command.revision(config, sentence, autogenerate=True, rev_id=number)
    return next(VERSIONS.glob(f"{number}_*.py"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sentence", nargs="?", default="", help="what becomes possible, for its docstring")
    parser.add_argument("--initial", action="store_true", help="write the first revision anew")
    arguments = parser.parse_args()
    made = write("initial" if arguments.initial else arguments.sentence, initial=arguments.initial)
    parser.exit(0, f"{made}\n")
