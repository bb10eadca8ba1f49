# SPDX-License-Identifier: Apache-2.0
"""Write the next migration from the difference between the chain and the tables.

`python -m abaca.db.migrations "A share remembers its colour"`. Read what it wrote: a rename looks like a column that
goes and one that comes, and only you know how rows are brought over. What it could not write, it prints.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import sqlalchemy as sa
from alembic import command

from abaca import errors
from abaca.db import tables
from abaca.db.engine import schema
from abaca.db.engine.database import Database
from abaca.db.migrations import HEAD, autogenerate, description

HERE = Path(__file__).parent
VERSIONS = HERE / "versions"


def write(sentence: str) -> Path:
    """The file of the new revision, which is the head from now on. Raises `ConfigError` for what no row could bear."""
    number = f"{int(HEAD) + 1:04d}"
    config = schema.alembic_config()
    with tempfile.TemporaryDirectory() as scratch:
        url = f"sqlite:///{scratch}/scratch.sqlite"
        schema.upgrade(url)
        autogenerate.limit_on_postgresql(tables.metadata)
        with sa.create_engine(url).connect() as connection:
            config.attributes["connection"] = connection
            config.set_main_option("file_template", "%%(rev)s_%%(slug)s")
            completed = autogenerate.complete
            command.revision(config, sentence, autogenerate=True, rev_id=number, process_revision_directives=completed)
    made = next(VERSIONS.glob(f"{number}_*.py"))
    made.write_text(re.sub(r"^ *# ###.*\n", "", made.read_text(), flags=re.MULTILINE))
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", str(made)], check=False)
    package = HERE / "__init__.py"
    package.write_text(package.read_text().replace(f'HEAD = "{HEAD}"', f'HEAD = "{number}"'))
    return made


def missing() -> list[str]:
    """On SQLite, what the chain makes and the tables do not say (-), and what they say and it does not make (+)."""
    with tempfile.TemporaryDirectory() as scratch:
        made, wanted = f"sqlite:///{scratch}/made.sqlite", f"sqlite:///{scratch}/wanted.sqlite"
        schema.upgrade(made)
        empty = Database(wanted)
        schema.create_if_empty(empty)
        empty.close()
        there, said = _described(made), _described(wanted)
    return [f"- {line}" for line in sorted(there - said)] + [f"+ {line}" for line in sorted(said - there)]


def _described(url: str) -> set[str]:
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        return description.lines(connection)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentence", help="what becomes possible, for the revision's docstring")
    try:
        written = write(parser.parse_args().sentence)
    except errors.ConfigError as error:
        parser.exit(1, f"{error}\n")
    for line in (open_ends := missing()):
        sys.stdout.write(f"{line}\n")
    told = "To be written by hand: the lines above.\n" if open_ends else ""
    parser.exit(0, f"{told}{written}\n")
