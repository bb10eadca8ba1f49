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


@rule
def revisions_are_one_chain(root: Path) -> list[str]:
    """Each revision has a number of its own and stands on the one before; `HEAD` in the package names the last.

    Mend: of two with one number the one that is merged later takes the next: its file's name, `revision`,
    `down_revision` and `HEAD`.
    """
    names = [path.name for path in sorted(files(root, f"{MIGRATIONS}/versions/[0-9]*.py"))]
    found = []
    for at, name in enumerate(names, 1):
        number, before = f"{at:04}", f"{at - 1:04}"
        text = (root / MIGRATIONS / "versions" / name).read_text()
        if not name.startswith(f"{number}_") or f'\nrevision = "{number}"\n' not in text:
            found.append(f"{MIGRATIONS}/versions/{name}: is the {at}. revision, {number}")
        elif at > 1 and f'\ndown_revision = "{before}"\n' not in text:
            found.append(f"{MIGRATIONS}/versions/{name}: does not stand on {before}")
    package = root / MIGRATIONS / "__init__.py"
    if names and package.exists() and f'\nHEAD = "{len(names):04}"\n' not in package.read_text():
        found.append(f"{MIGRATIONS}/__init__.py: HEAD is not {len(names):04}")
    return found
