# SPDX-License-Identifier: Apache-2.0
"""Run the benchmarks, or those named: `python -m benchmarks [idle] [reads] [creates] [access] [attach] ...`."""

from __future__ import annotations

import importlib
import sys
import time

from benchmarks import figures
from benchmarks.stand import Stand

# In this order: each finds what those before it have left. `scale` and `glusterfs` stand alone.
ALL = (
    "idle",
    "reads",
    "creates",
    "pools",
    "access",
    "attach",
    "clusters",
    "servers",
    "live_networks",
    "snapshots",
    "ensure",
    "millions",
)


def main(names: list[str]) -> int:
    """Print each figure as it is known, and all of them as a table at the end."""
    if names[:1] == ["scale"]:
        from benchmarks import scale

        return scale.run(names[1:])
    if names[:1] == ["glusterfs"]:
        from benchmarks import glusterfs

        return glusterfs.run(names[1:])
    unknown = set(names) - set(ALL)
    if unknown:
        print(f"There is no benchmark {', '.join(sorted(unknown))}; there are: {', '.join(ALL)}.", file=sys.stderr)
        return 2
    begun_s = time.monotonic()
    found: list[figures.Figure] = []
    with Stand() as stand:
        for name in ALL:
            if not names or name in names:
                for figure in importlib.import_module(f"benchmarks.{name}").run(stand):
                    found.append(figure)
                    print(figure, flush=True)
    print(f"\n{figures.table(found)}\n\n{time.monotonic() - begun_s:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
