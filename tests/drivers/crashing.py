# SPDX-License-Identifier: Apache-2.0
"""The life of a share in a process that kills itself at a given point: `python -m tests.drivers.crashing DIR JSON N`.

A point is the beginning or the end of any function that acts on the world; the last line printed is the step begun.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path

from abaca.drivers import contract, load
from abaca.drivers.clients import btrfs
from tests.drivers.harness import GIB, rules

ACTING = (
    "/drivers/pool.py",
    "/drivers/clients/",
    "/drivers/exports/",
    "/local/exporters.py",
    "/local/segments.py",
    "/local/server_network.py",
)


class Life:
    """Every call that the driver knows, with what must be so after it; each step may be repeated."""

    def __init__(self, driver, directory, ids):
        self.driver = driver
        share_id, clone_id, snapshot_id = ids
        self.share, self.clone = (
            contract.ShareInstance(id=id, share_id=id, project_id="p", size_gib=1, protocol="NFS", pool="pool")
            for id in (share_id, clone_id)
        )
        self.taken = contract.Snapshot(id=snapshot_id, instance=self.share)
        self.directory = directory
        self.steps = [
            driver.start,
            lambda: driver.create(self.share),
            lambda: driver.set_access(self.share, rules("10.0.0.1 rw", "10.0.0.0/8 ro")),
            lambda: self.write("before"),
            lambda: driver.create_snapshot(self.taken),
            lambda: self.write("after"),
            lambda: driver.extend(self.share, 2),
            lambda: driver.shrink(self.share, 1),
            lambda: driver.create_from_snapshot(self.clone, self.taken),
            lambda: self.check(self.clone, "before"),
            lambda: self.check(self.share, "after"),
            lambda: driver.revert(self.taken, rules("10.0.0.9 rw")),
            lambda: self.check(self.share, "before"),
            lambda: driver.export_snapshot(self.taken),
            lambda: driver.set_snapshot_access(self.taken, rules("10.0.0.1 ro")),
            lambda: self.same(driver.ensure([self.share])[self.share.id].reapply_access_rules, wanted=False),
            lambda: driver.delete(self.clone),
            lambda: driver.delete_snapshot(self.taken),
            lambda: self.check(self.share, "before"),
            lambda: driver.delete(self.share),
        ]

    def write(self, text):
        (self.directory / "shares" / self.share.id / "file").write_text(text)

    def check(self, instance, text):
        self.same((self.directory / "shares" / instance.id / "file").read_text(), wanted=text)
        btrfs.sync(self.directory / "pool")  # what has just been made may not be accounted for yet
        used_bytes = round(self.driver.measure_usage([instance])[instance.id].used_gib * GIB)
        self.same(used_bytes if not 0 < used_bytes < 1 << 20 else "little", wanted="little")

    def same(self, seen, *, wanted):
        if seen != wanted:
            raise SystemExit(f"{seen!r} is not {wanted!r}")


def build(directory, section, *, handles_share_servers=False):
    backend = contract.Backend(
        name="b1",
        host="h@b1",
        share_backend_name="B1",
        state_dir=Path(directory),
        driver_handles_share_servers=handles_share_servers,
    )
    return load.driver(backend, "local", section)


def kill_at(point):
    """Die at the `point`th beginning or end of an acting function; a list that counts them.

    Those of this thread count, and of the threads that it waits for in network namespaces.
    """
    seen = [0]

    def look_inside(frame, event, argument):
        if threading.current_thread().name == "network-namespace":
            look(frame, event, argument)

    def look(frame, event, argument):
        if event in ("call", "return") and any(part in frame.f_code.co_filename for part in ACTING):
            seen[0] += 1
            if seen[0] == point:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(look)
    threading.setprofile(look_inside)
    return seen


def live(life, point):
    """Take all steps, up to the point."""
    seen = kill_at(int(point))
    for number, step in enumerate(life.steps):
        os.write(1, f"{number}\n".encode())
        step()
    sys.setprofile(None)
    threading.setprofile(None)
    life.driver.stop()
    os.write(1, f"{seen[0]}\n".encode())


def main(directory, section, point, *ids):
    live(Life(build(directory, json.loads(section)), Path(directory), ids), point)


if __name__ == "__main__":
    main(*sys.argv[1:])
