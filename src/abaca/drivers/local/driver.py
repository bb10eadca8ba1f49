# SPDX-License-Identifier: Apache-2.0
"""Shares on this host: btrfs subvolumes with a limit each, exported by NFS-Ganesha.

Everything is done on the host itself, so the worker of this back end runs there, as root. The NFS server and the mounts
outlive the worker; a worker that starts takes them over, and nobody notices.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import threading
from collections.abc import Mapping
from typing import Any, ClassVar

from abaca.drivers import contract
from abaca.drivers.clients import commands
from abaca.drivers.clients.names import safe
from abaca.drivers.exports.daemon import check_programs
from abaca.drivers.local import exporters
from abaca.drivers.local.ensuring import Ensuring
from abaca.drivers.local.fences import Fences
from abaca.drivers.local.managing import Managing
from abaca.drivers.local.options import LocalOptions
from abaca.drivers.local.pool import GIB, Pool
from abaca.drivers.local.serving import SHARES
from abaca.drivers.local.share_servers import ShareServers
from abaca.drivers.local.shares import Shares
from abaca.drivers.local.snapshots import Snapshots

POOL = "pool"


class Local(Shares, Snapshots, Managing, Ensuring, ShareServers, contract.Driver):
    """Shares on this host: btrfs subvolumes with a limit each, exported by NFS-Ganesha, by share servers if wanted."""

    Options = LocalOptions

    vendor: ClassVar[str] = "Abaca"
    announces: Mapping[str, Any] = {"mount_point_name_support": True, "thin_provisioning": True}
    changeable: ClassVar[frozenset[str]] = frozenset({"export_ips", "root_mode"})

    def __init__(self, backend: contract.Backend, options: LocalOptions) -> None:
        super().__init__(backend, options)
        self.change(options)
        self.pool = Pool(
            backend.name, backend.state_dir, options.pool_device, options.pool_image, options.pool_size_gib
        )
        self.host = exporters.host(backend.state_dir, lambda: self.options)
        self.servers = exporters.Servers(backend.state_dir, options)
        # One instance at a time, even when ensuring runs beside a request.
        self.fences = Fences(backend.state_dir / "fences")
        self.reviving = threading.Lock()

    def change(self, options: LocalOptions) -> None:
        super().change(options)
        versions = {ipaddress.ip_address(address).version for address in options.export_ips}
        self.ip_versions = (4, 6) if self.backend.driver_handles_share_servers else tuple(sorted(versions))

    def start(self) -> None:
        if os.geteuid() != 0:
            raise contract.Refused(reason="it mounts file systems and must run as root: run the worker as root")
        for program, package in (("mkfs.btrfs", "btrfs-progs"), ("losetup", "mount"), ("blkid", "util-linux")):
            commands.need(program, package)
        check_programs()
        if self.backend.driver_handles_share_servers:
            for program in ("nsenter", "prlimit"):
                commands.need(program, "util-linux")
        safe(self.backend.name)
        with contextlib.ExitStack() as undo:
            self.pool.lock()
            undo.callback(self.pool.unlock)
            self.fences.start()
            if self.backend.driver_handles_share_servers:
                self.servers.load()
            self.end_if_read_only()
            self.begin()
            self.fences.forget(self._is_held)
            undo.pop_all()

    def _is_held(self, id: str) -> bool:
        """A share or a share server."""
        return self.pool.holds(SHARES, id) or self.servers.get(id) is not None

    def stop(self) -> None:
        for exporter in self.exporters():
            exporter.ganesha.stop()
        self.pool.unlock()

    def shutdown(self) -> None:
        """End the NFS server, unmount everything, free the loop device; all data stays, and `start` brings it back.

        For the operator who takes the back end out of service: clients hang from now on. Raises `Busy`, `Unreachable`.
        """
        self.pool.lock()
        try:
            for exporter in self.exporters():
                exporter.shut_down()
            self.pool.shut_down()
        finally:
            self.pool.unlock()

    def backend_info(self) -> dict[str, str]:
        own = not self.backend.driver_handles_share_servers
        return {
            "export_ips": ",".join(self.options.export_ips if own else ()),
            "ganesha_port": str(self.options.ganesha_port),
            "layout": "1",
        }

    def pools(self) -> list[contract.PoolStats]:
        self.revive()
        self.pool.see_to_counting()
        total_bytes, free_bytes = self.pool.space()
        limited = (most for _, most in self.pool.usages().values() if most < 2**63)
        return [
            contract.PoolStats(
                name=POOL,
                total_gib=round(total_bytes / GIB, 2),
                free_gib=round(free_bytes / GIB, 2),
                allocated_gib=sum(limited) / GIB,
                capabilities={"thin_provisioning": True},
            )
        ]
