# SPDX-License-Identifier: Apache-2.0
"""The house rules about migrations: what a database somewhere was made by stays what it was."""

import hashlib
import sys
from pathlib import Path

from tests.house_rules import files, imports, is_within, python, rule

MIGRATIONS = "src/abaca/db/migrations"
ROOT = Path(__file__).resolve().parents[1]
RELEASED = f"{MIGRATIONS}/released.txt"


def released(root: Path) -> dict[str, str]:
    """The files of the released revisions with their checksums, as `sha256sum` writes them."""
    path = root / RELEASED
    lines = path.read_text().splitlines() if path.exists() else []
    return {name: checksum for checksum, name in (line.split() for line in lines)}


@rule
def released_revisions_never_change(root: Path) -> list[str]:
    """A released revision stays as it is, to the byte, for databases have been made by it; the first is released.

    Mend: `git checkout` the revision and write the next one: `python -m abaca.db.migrations "What becomes possible"`.
    """
    listed = released(root)
    there = {path.name: path for path in files(root, f"{MIGRATIONS}/versions/[0-9]*.py")}
    found = [f"{RELEASED}: {name} is gone" for name in listed if name not in there]
    newest = max(listed, default="0001~")
    for name, path in there.items():
        if name in listed:
            changed = hashlib.sha256(path.read_bytes()).hexdigest() != listed[name]
            found += [f"{MIGRATIONS}/versions/{name}: has changed since its release"] if changed else []
        elif name < newest:
            found += [f"{RELEASED}: {name} is missing"]
    return found


@rule
def revisions_stand_alone(root: Path) -> list[str]:
    """A revision imports alembic, sqlalchemy and the standard library: what is ours will be something else by then.

    Mend: write into the revision what it needs: its tables, its constants, its queries.
    """
    allowed = {*sys.stdlib_module_names, "alembic", "sqlalchemy"}
    return [
        f"{name}:{line}: imports {module}"
        for name, tree in python(root, f"{MIGRATIONS}/versions")
        for line, module in imports(tree)
        if not is_within(module, allowed)
    ]
