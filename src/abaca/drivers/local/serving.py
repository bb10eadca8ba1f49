# SPDX-License-Identifier: Apache-2.0
"""What all parts of the local driver stand on: the pool, the NFS server, and how what is in one gets to the other."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from abaca.drivers import contract
from abaca.drivers.clients.names import safe
from abaca.drivers.exports import clients
from abaca.drivers.local.exporters import Exporter, Servers
from abaca.drivers.local.fences import Fences
from abaca.drivers.local.options import LocalOptions
from abaca.drivers.local.pool import Pool

log = logging.getLogger(__name__)

SHARES, SNAPSHOTS = "shares", "snapshots"
PSEUDO = "pseudo"  # Of what the service keeps: by which path clients mount a share that was taken over.
_AT_ONCE = 8  # so many share servers are started side by side


class Serving:
    """Subvolumes that are mounted and exported, one thread at each."""

    backend: contract.Backend
    options: LocalOptions
    pool: Pool
    host: Exporter
    servers: Servers
    fences: Fences
    reviving: threading.Lock

    def exporters(self) -> Sequence[Exporter]:
        """All who hand out shares: the host, or its share servers."""
        return self.servers.all() if self.backend.driver_handles_share_servers else [self.host]

    def exporter(self, instance: contract.ShareInstance) -> Exporter:
        """Who hands out this one. Raises `contract.Gone`, `contract.Refused` without a share server that it needs."""
        if not self.backend.driver_handles_share_servers:
            return self.host
        if instance.server is None:
            raise contract.Refused(reason=f"share instance {instance.id} names no share server")
        return self.servers.need(instance.server.id)

    def begin(self) -> None:
        """Everything that is written is mounted and served."""
        written = [(exporter, exporter.ganesha.start()) for exporter in self.exporters()]
        self.pool.start()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda each: self._begin(*each), written))

    def _begin(self, exporter: Exporter, names: Sequence[str]) -> None:
        exporter.serve([name for name in names if self._mount_again(name)])

    def end_if_read_only(self) -> None:
        """A pool that the kernel keeps from being written is mounted no more, so that it can be mounted anew."""
        if not self.pool.is_writable():
            for exporter in self.exporters():
                exporter.ganesha.shut_down()
            self.pool.unmount_all()

    def revive(self) -> None:
        """The pool can be written and the NFS server runs. Raises `Unreachable`, `Busy`."""
        with self.reviving, contextlib.ExitStack() as stack:
            if not self.pool.is_writable():
                self.pool.check_disk()
                log.warning("the pool of %s is read-only and is mounted anew; its clients wait", self.backend.name)
                for lock in self.fences.locks:
                    stack.enter_context(lock)
                self.end_if_read_only()
                self.begin()
            for exporter in self.exporters():
                try:
                    exporter.revive()
                except contract.Unreachable as error:
                    if exporter is self.host:
                        raise
                    log.error("a share server does not come back: %s", error)  # the others go on

    def _mount_again(self, name: str) -> bool:
        """Mount what an export serves; whether it was not. What cannot be mounted is kept from being exported empty."""
        kind, _, id = name.partition("/")
        try:
            return self.pool.mount(kind, id)
        except (contract.Gone, contract.Refused) as error:
            log.error("%s cannot be served: %s", name, error)
            self.pool.unmount(kind, id)
            return True

    def serve(
        self, exporter: Exporter, kind: str, id: str, pseudo: str, wanted: Sequence[clients.Client] | None
    ) -> bool:
        """Mounted and exported to `wanted`, or to those it has; what the server holds of an older mount is renewed.

        Whether anything had to be done for that.
        """
        name, ganesha = f"{kind}/{id}", exporter.ganesha
        with exporter.lock:
            exporter.check()
            if self.pool.mount(kind, id):
                ganesha.suspend(name)
            held = ganesha.get(name)
            unchanged = held is not None and wanted is None and held.pseudo == pseudo and ganesha.is_true(held)
            if not unchanged:
                ganesha.put(name, self.pool.mount_point(kind, id), pseudo, wanted)
            return not unchanged

    def withdraw(self, instance: contract.ShareInstance, kind: str, id: str) -> None:
        """Nobody hands it out any more: not its share server, or none at all where that is not known."""
        try:
            exporters: Sequence[Exporter] = [self.exporter(instance)]
        except (contract.Gone, contract.Refused):
            exporters = self.exporters()
        for exporter in exporters:
            exporter.ganesha.remove(f"{kind}/{id}")

    def pseudo(self, instance: contract.ShareInstance) -> str:
        kept = None if instance.mount_point_name else instance.driver_data.get(PSEUDO)
        return kept or f"/{SHARES}/{safe(instance.mount_point_name or instance.id, most=255)}"

    @contextlib.contextmanager
    def one(self, instance: contract.ShareInstance) -> Iterator[None]:
        """Nobody else works on it meanwhile.

        Raises `Unreachable` while the pool is not mounted or not ours, `Busy`.
        """
        with self.fences.alone(instance.id):
            self.pool.check_locked()
            self.pool.check_mounted()
            yield

    @contextlib.contextmanager
    def changing(self, instance: contract.ShareInstance) -> Iterator[None]:
        """The same, for a change. Raises `Superseded` when it comes too late."""
        with self.one(instance):
            self.fences.see(instance.id, instance.generation)
            yield


def snapshot_pseudo(id: str) -> str:
    """The path of a snapshot as clients mount it."""
    return f"/{SNAPSHOTS}/{safe(id)}"
