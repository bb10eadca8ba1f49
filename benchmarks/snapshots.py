# SPDX-License-Identifier: Apache-2.0
"""What snapshots and taking over take on a `local` back end, from the request on, beside the same made by hand."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from abaca.drivers.clients import mounts
from benchmarks.figures import Figure
from benchmarks.stand import Stand
from lab import caller, processes, service

ROUNDS = 11
# What a share holds of which snapshots are taken.
CONTENT_MIB = 256
LOOK_EVERY_S = 0.002
# What has not come after so many seconds does not come.
PATIENCE_S = 60.0
_ABLE = ("snapshot_support", "create_share_from_snapshot_support", "revert_to_snapshot_support")


def run(stand: Stand) -> Iterator[Figure]:
    """An `abaca run` on PostgreSQL with a `local` back end of its own; by hand is the btrfs command in its pool."""
    sections: dict[str, dict[str, object]] = {
        "DEFAULT": {"host": "bench", "enabled_share_backends": "local", "default_share_type": "default"},
        "database": {"connection": stand.postgres.create_database("snapshots")},
        "local": {
            "driver": "local",
            "pool_size_gib": 4,
            "export_ips": "127.0.0.1",
            "ganesha_port": processes.free_port("::"),
        },
    }
    abaca = service.Service(stand.run, sections, directory=stand.run.path("snapshots"))
    abaca.upgrade_database()
    with abaca:
        user = caller.Caller(abaca.url, {})
        caller.ensure_type(user, name="default", **dict.fromkeys(_ABLE, True))
        (pool,) = caller.wait_for_pools(user)
        for what, ours_s, by_hand_s in Bench(
            user, pool, abaca.directory / "state" / "backends" / "local" / "pool"
        ).all():
            ours_ms, by_hand_ms = (statistics.median(took) * 1000 for took in (ours_s, by_hand_s))
            yield Figure(f"{what}: median", ours_ms, "ms")
            yield Figure(f"{what}, by hand: median", by_hand_ms, "ms")
            yield Figure(f"{what}, times by hand", ours_ms / by_hand_ms, "times")


class Bench:
    """Each thing in turn, ours and by hand round by round, so that both meet the same machine."""

    def __init__(self, user: caller.Caller, pool_name: str, pool: Path) -> None:
        self._user = user
        self._pool_name = pool_name
        self._pool = pool
        self._hand = pool / "by-hand"

    def all(self) -> Iterator[tuple[str, list[float], list[float]]]:
        """What was done, and the seconds that each took of us and by hand."""
        share = self._made("/shares", "share", share_proto="NFS", size=1)
        (path,) = (self._pool / "shares").iterdir()
        with (path / "content").open("wb") as file:
            for _ in range(CONTENT_MIB):
                file.write(bytes(1 << 20))
        taken = self._made("/snapshots", "snapshot", share_id=share)
        (snapshot,) = (self._pool / "snapshots").iterdir()
        yield self._rounds(
            f"a snapshot of a share with {CONTENT_MIB} MiB, to available",
            lambda: self._made("/snapshots", "snapshot", share_id=share),
            lambda one: self._gone(f"/snapshots/{one}"),
            lambda: self._btrfs("snapshot", "-r", str(path), str(self._hand)),
        )
        yield self._rounds(
            f"a share from a snapshot with {CONTENT_MIB} MiB, to available",
            lambda: self._made("/shares", "share", share_proto="NFS", size=1, snapshot_id=taken),
            lambda one: self._gone(f"/shares/{one}"),
            lambda: self._share_by_hand("snapshot", str(snapshot), str(self._hand)),
        )
        yield self._managed()

    def _managed(self) -> tuple[str, list[float], list[float]]:
        wish = {"service_host": self._pool_name, "protocol": "NFS", "export_path": "found"}
        ours_s, by_hand_s = [], []
        for _ in range(ROUNDS):
            self._btrfs("create", str(self._pool / "found"))
            begun_s = time.perf_counter()
            one = self._made("/shares/manage", "share", **wish, driver_options={"size": "1"})
            ours_s.append(time.perf_counter() - begun_s)
            self._gone(f"/shares/{one}")
            self._btrfs("create", str(self._pool / "found"))
            begun_s = time.perf_counter()
            (self._pool / "found").rename(self._hand)
            self._serve_by_hand()
            by_hand_s.append(time.perf_counter() - begun_s)
            self._clear()
        return "a subvolume taken over as a share, to available", ours_s, by_hand_s

    def _rounds(
        self, what: str, make: Callable[[], str], undo: Callable[[str], None], by_hand: Callable[[], None]
    ) -> tuple[str, list[float], list[float]]:
        ours_s, by_hand_s = [], []
        for _ in range(ROUNDS):
            begun_s = time.perf_counter()
            one = make()
            ours_s.append(time.perf_counter() - begun_s)
            undo(one)
            begun_s = time.perf_counter()
            by_hand()
            by_hand_s.append(time.perf_counter() - begun_s)
            self._clear()
        return what, ours_s, by_hand_s

    def _made(self, path: str, key: str, **wish: object) -> str:
        """The id of what is made, as soon as it is available."""
        one = str(self._user.post(path, key, **wish)["id"])
        collection = path.removesuffix("/manage")
        end_s = time.perf_counter() + PATIENCE_S
        while (status := self._user.get(f"{collection}/{one}")["status"]) != "available":
            if "error" in status or time.perf_counter() > end_s:
                raise RuntimeError(f"{path}: {one} is {status}")
            time.sleep(LOOK_EVERY_S)
        return one

    def _gone(self, path: str) -> None:
        self._user.call("DELETE", path)
        self._user.wait_gone(path)

    def _share_by_hand(self, *words: str) -> None:
        self._btrfs(*words)
        self._serve_by_hand()

    def _serve_by_hand(self) -> None:
        """With its limit and mounted, but exported to nobody."""
        processes.command(["btrfs", "qgroup", "limit", "1G", str(self._hand)])
        point = self._pool.parent / "by-hand"
        point.mkdir(exist_ok=True)
        device = processes.command(["findmnt", "-no", "SOURCE", str(self._pool)]).split("[")[0].strip()
        processes.command(["mount", "-t", "btrfs", "-o", f"subvol={self._hand.name}", device, str(point)])
        processes.command(["btrfs", "filesystem", "sync", str(self._pool)])

    def _clear(self) -> None:
        mounts.unmount(self._pool.parent / "by-hand")
        self._btrfs("delete", str(self._hand))

    def _btrfs(self, *words: str) -> None:
        processes.command(["btrfs", "subvolume", *words])
        processes.command(["btrfs", "filesystem", "sync", str(self._pool)])
