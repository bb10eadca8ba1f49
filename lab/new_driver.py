# SPDX-License-Identifier: Apache-2.0
"""`make new-driver NAME=cephfs`: a storage driver with all that the contract wants, to be filled in."""

import re
import sys
from pathlib import Path

DRIVERS = Path(__file__).resolve().parent.parent / "src/abaca/drivers"

TEMPLATE = '''# SPDX-License-Identifier: Apache-2.0
"""{title}: say in one sentence where the data lives and how it is exported.

Say here what this file must not do, and which failures of the back end it has to survive.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from abaca.drivers import contract


class {title}(contract.Driver):
    """What the operator gets from it. Its capabilities become base classes: contract.Resizes, contract.Snapshots."""

    class Options(msgspec.Struct, frozen=True, kw_only=True):
        """Each field is a setting: typed, with a default and `msgspec.Meta(description=...)`."""

    def start(self) -> None:
        """Look whether the back end answers and make ready what is missing."""
        raise contract.Refused(reason="The {name} driver cannot start a back end yet")

    def stop(self) -> None:
        """Nothing is held between calls."""

    def pools(self) -> list[contract.PoolStats]:
        """One entry per pool; None for a size that the back end cannot tell."""
        return []

    def create(self, instance: contract.ShareInstance) -> contract.Created:
        """Named by `instance.id`; a repeated call finds its own half-made share and completes it."""
        raise contract.Refused(reason="The {name} driver cannot create shares yet")

    def delete(self, instance: contract.ShareInstance) -> None:
        """Absent is success."""
        raise contract.Refused(reason="The {name} driver cannot delete shares yet")

    def set_access(
        self, instance: contract.ShareInstance, rules: Sequence[contract.AccessRule]
    ) -> dict[str, contract.AccessOutcome]:
        """Make `rules` the whole set."""
        raise contract.Refused(reason="The {name} driver cannot change access yet")
'''


def write(name: str, folder: Path = DRIVERS) -> Path:
    """The file written for the driver `name`. Raises ValueError, saying why, when that name cannot be used."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{1,30}", name):
        raise ValueError("Name the driver with small letters, digits and underscores: make new-driver NAME=cephfs")
    path = folder / f"{name}.py"
    if path.exists() or (folder / name).exists():
        raise ValueError(f"{name} exists already in {folder}")
    path.write_text(TEMPLATE.format(name=name, title="".join(word.capitalize() for word in name.split("_"))))
    return path


def main() -> None:
    """Write the file and say what comes next."""
    try:
        path = write(sys.argv[1] if len(sys.argv) > 1 else "")
    except ValueError as refusal:
        sys.exit(str(refusal))
    print(f"Wrote {path}. It is complete but refuses all work; fill in its methods.")
    print(f"Then add an entry {path.stem!r} to tests/drivers/harness.py, so that the contract tests run on it:")
    print(f"    .venv/bin/python -m pytest tests/drivers -k {path.stem}")


if __name__ == "__main__":
    main()
