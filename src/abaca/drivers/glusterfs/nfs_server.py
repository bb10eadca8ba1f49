# SPDX-License-Identifier: Apache-2.0
"""The NFS server of a GlusterFS back end, on its worker's host: NFS-Ganesha, which mounts sealed volumes by itself.

It has a certificate of its own, which only the volumes of NFS shares let in. GlusterFS looks for certificates at one
place of a host; NFS-Ganesha finds its own there and nobody else does, so that the host may be a node or a client too.
Certificates are read when a volume is mounted: with another one NFS-Ganesha is started anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import socket
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import IO

import msgspec

from abaca import errors
from abaca.drivers import contract
from abaca.drivers.authority import Authority
from abaca.drivers.clients import commands
from abaca.drivers.exports.blocks import ExportBlock, GlusterVolume
from abaca.drivers.exports.clients import Client
from abaca.drivers.exports.daemon import GFAPI_LOG, Daemon, Settings, Shown, check_programs
from abaca.drivers.exports.ganesha import Ganesha, Patience
from abaca.drivers.glusterfs import nfs_certificate
from abaca.drivers.glusterfs.options import GlusterfsOptions

log = logging.getLogger(__name__)

_GLUSTERD_PORT, _REACH_S = 24007, 3.0
_VOLUMES = Path("/volumes")  # no place of this host: by it exports are told from each other
# Letting go of a volume takes some ten seconds, during which it answers nothing else.
_PATIENCE = Patience(answer_s=30.0)
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")
_MOST_NAME = 200  # of a volume; the name of a file is made of it


class NfsServer:
    """NFS-Ganesha and its exports, each of a volume under the volume's name. Raises what `Ganesha` raises."""

    def __init__(self, state_dir: Path, options: GlusterfsOptions, authority: Authority) -> None:
        self.directory = state_dir / "ganesha"
        self._options = options
        self.certificate = nfs_certificate.of(state_dir, authority)
        shown = Shown(self.certificate.link, nfs_certificate.place())
        settings = Settings(
            options.ganesha_port,
            netns=options.ganesha_netns,
            grace_s=options.grace_s,
            minor_versions=options.nfs_minor_versions,
            certificates=shown,
        )
        self.ganesha = Ganesha(Daemon(self.directory, settings, self._prefer_hosts), _VOLUMES, _PATIENCE)
        self._lock: IO[str] | None = None

    # Life

    def start(self) -> None:
        """Serve what is written. Raises `contract.Refused`, and `contract.Unreachable` while another process does."""
        self._be_alone()
        self.certificate.see_to_it()
        self.ganesha.start()
        self.ganesha.serve()

    def look(self) -> None:
        """Have it up, with a good certificate and what is written; what stands in the way is logged."""
        try:
            self.certificate.see_to_it()
            self._prefer_hosts()
            self.ganesha.serve()
        except errors.BackendError as error:  # whoever mounts the other shares by GlusterFS does not need it
            log.error("shares are not served by NFS: %s", error)

    def stop(self) -> None:
        """Let go; it goes on serving."""
        self.ganesha.stop()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def shut_down(self) -> None:
        """Nothing of it runs any more; what is written stays."""
        self.ganesha.shut_down()
        self.stop()

    def _be_alone(self) -> None:
        if self._lock is not None:
            return
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = (self.directory / "lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise contract.Unreachable(reason=f"another worker works with {self.directory}") from error
        self._lock = lock

    def _prefer_hosts(self) -> None:
        """No volume is asked for at a node that is away, which would take long for each; counts from the next start."""
        blocks = self.ganesha.blocks()
        away = _away({host for block in blocks if block.volume for host in block.volume.hosts})

        def preferred(block: ExportBlock) -> ExportBlock:
            if block.volume is None:
                return block
            volume = msgspec.structs.replace(block.volume, hosts=_ordered(block.volume.hosts, away))
            return msgspec.structs.replace(block, volume=volume)

        for block in blocks:  # clients may have been put out since, and exports taken away
            if block.volume is not None and block.volume.hosts[0] in away:
                self.ganesha.rewrite(block.name, preferred)

    # Exports

    def exports(self, volume: str) -> list[contract.Export]:
        """Where the volume can be mounted from."""
        return [
            contract.Export(path=f"{f'[{ip}]' if ':' in ip else ip}:{_pseudo(volume)}", preferred=number == 0)
            for number, ip in enumerate(self._options.export_ips)
        ]

    def get(self, volume: str) -> ExportBlock | None:
        """The volume's export as it is written."""
        return self.ganesha.get(volume)

    def untrue(self, volume: str, hosts: Sequence[str]) -> list[str]:
        """What is wrong with how the volume is exported."""
        held = self.get(volume)
        if held is None:
            return ["it had no export"]
        if held.volume is None or set(held.volume.hosts) != set(hosts) or not self.ganesha.is_true(held):
            return ["its export was not as written"]
        return []

    def serve(self, volume: str, hosts: Sequence[str], wanted: Sequence[Client] | None) -> None:
        """The volume, of which those hosts tell, is exported to `wanted`, or to those whom it has."""
        self.check(volume, hosts)
        held = self.get(volume)
        known = held.volume.hosts if held is not None and held.volume is not None else ()
        order = tuple(known) if set(known) == set(hosts) else _ordered(hosts, _away(hosts))
        named = GlusterVolume(volume, order, str(self.directory / GFAPI_LOG))
        self.ganesha.put(volume, _VOLUMES / volume, _pseudo(volume), wanted, named)

    def check(self, volume: str, hosts: Sequence[str]) -> None:
        """Raises `contract.Refused` for a volume that cannot be exported."""
        if len(volume) > _MOST_NAME or not hosts or not all(map(_HOST.fullmatch, hosts)):
            raise contract.Refused(reason=f"{volume} of {', '.join(hosts) or 'no host'} cannot be exported by NFS")

    def remove(self, volume: str) -> None:
        """Nobody mounts the volume by NFS any more. Absent is success."""
        self.ganesha.remove(volume)


def check_host() -> None:
    """Raises `contract.Refused`, with the mend, when this host cannot run it."""
    if os.geteuid() != 0:
        raise contract.Refused(reason="export_ips: NFS-Ganesha is started by root: run the worker as root")
    check_programs("gluster")
    for program in ("unshare", "nsenter"):
        commands.need(program, "util-linux")
    nfs_certificate.place()


def _pseudo(volume: str) -> str:
    return f"/{volume}"


def _ordered(hosts: Sequence[str], away: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted(hosts, key=lambda host: host in away))


def _away(hosts: Collection[str]) -> set[str]:
    """Those of the hosts whose glusterd cannot be reached; empty where none can."""

    def is_away(host: str) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((host, _GLUSTERD_PORT), _REACH_S):
            return False
        return True

    found = {host for host in hosts if is_away(host)}
    return found if len(found) < len(hosts) else set()
