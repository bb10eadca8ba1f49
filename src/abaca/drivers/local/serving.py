# SPDX-License-Identifier: Apache-2.0
"""What all parts of the local driver stand on: the pool, the NFS server, and how what is in one gets to the other."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator, Sequence

from abaca.drivers import contract
from abaca.drivers.clients.names import safe
from abaca.drivers.exports import clients
from abaca.drivers.exports.ganesha import Ganesha
from abaca.drivers.local.fences import Fences
from abaca.drivers.local.options import LocalOptions
from abaca.drivers.local.pool import Pool

log = logging.getLogger(__name__)

SHARES, SNAPSHOTS = "shares", "snapshots"


class Serving:
    """Subvolumes that are mounted and exported, one thread at each."""

    backend: contract.Backend
    options: LocalOptions
    pool: Pool
    ganesha: Ganesha
    fences: Fences
    reviving: threading.Lock

    def begin(self) -> None:
        """Everything that is written is mounted and served."""
        names = self.ganesha.start()
        self.pool.start()
        self.ganesha.serve([name for name in names if self._mount_again(name)])

    def end_if_read_only(self) -> None:
        """A pool that the kernel keeps from being written is mounted no more, so that it can be mounted anew."""
        if not self.pool.is_writable():
            self.ganesha.shut_down()
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
            self.ganesha.revive()

    def _mount_again(self, name: str) -> bool:
        """Mount what an export serves; whether it was not. What cannot be mounted is kept from being exported empty."""
        kind, _, id = name.partition("/")
        try:
            return self.pool.mount(kind, id)
        except (contract.Gone, contract.Refused) as error:
            log.error("%s cannot be served: %s", name, error)
            self.pool.unmount(kind, id)
            return True

    def serve(self, kind: str, id: str, pseudo: str, wanted: Sequence[clients.Client] | None) -> bool:
        """Mounted and exported to `wanted`, or to those it has; what the server holds of an older mount is renewed.

        Whether anything had to be done for that.
        """
        name = f"{kind}/{id}"
        if self.pool.mount(kind, id):
            self.ganesha.suspend(name)
        held = self.ganesha.get(name)
        unchanged = held is not None and wanted is None and held.pseudo == pseudo and self.ganesha.is_true(held)
        if not unchanged:
            self.ganesha.put(name, self.pool.mount_point(kind, id), pseudo, wanted)
        return not unchanged

    def pseudo(self, instance: contract.ShareInstance) -> str:
        return f"/{SHARES}/{safe(instance.mount_point_name or instance.id, most=255)}"

    def exports(self, pseudo: str) -> list[contract.Export]:
        return [
            contract.Export(path=f"{f'[{address}]' if ':' in address else address}:{pseudo}", preferred=number == 0)
            for number, address in enumerate(self.options.export_ips)
        ]

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
