# SPDX-License-Identifier: Apache-2.0
"""Who hands out the shares: the host at its own addresses, or share servers, each in a network of its own.

A share server is a directory `servers/<id>`: what it was set up with, the file that holds its network namespace, and
its NFS server's files. After a reboot only the directory is left, and all is made from it again.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from abaca import errors
from abaca.drivers import contract
from abaca.drivers.clients.names import safe
from abaca.drivers.exports.daemon import Daemon, Limits, Settings
from abaca.drivers.exports.ganesha import Ganesha
from abaca.drivers.local.options import LocalOptions
from abaca.drivers.local.segments import Segments

log = logging.getLogger(__name__)


class Exporter:
    """An NFS server with its addresses, the preferred one first; `lock` is held while what it exports changes."""

    def __init__(self, ganesha: Ganesha, addresses: Callable[[], Sequence[str]]) -> None:
        self.ganesha = ganesha
        self.lock = threading.RLock()
        self._addresses = addresses

    def exports(self, pseudo: str) -> list[contract.Export]:
        """Where the path can be mounted from."""
        return [
            contract.Export(path=f"{f'[{address}]' if ':' in address else address}:{pseudo}", preferred=number == 0)
            for number, address in enumerate(self._addresses())
        ]

    def check(self) -> None:
        """Raises `contract.Gone` when it has been taken away."""

    def revive(self) -> None:
        """Start it when it is not up. Raises `contract.Unreachable` when it does not come."""
        self.ganesha.revive()

    def serve(self, renewed: Sequence[str]) -> None:
        """Be up and stay so, with what is written. Raises `contract.Unreachable`."""
        self.ganesha.serve(renewed)

    def shut_down(self) -> None:
        """Nothing of it runs any more; what is written stays."""
        self.ganesha.shut_down()


def host(state_dir: Path, options: Callable[[], LocalOptions]) -> Exporter:
    """The host itself, at the addresses of the options as they are now."""
    now = options()
    settings = Settings(
        now.ganesha_port, netns=now.ganesha_netns, grace_s=now.grace_s, minor_versions=now.nfs_minor_versions
    )
    return Exporter(Ganesha(Daemon(state_dir / "ganesha", settings), state_dir), lambda: options().export_ips)


# By which id a share server is known that was given up.
NOBODY = ""


class Kept(msgspec.Struct, frozen=True):
    """What is written of a share server; one that was taken over is `known_as` another id than its directory's name."""

    share_network_id: str
    subnets: list[contract.Subnet]
    known_as: str | None = None


class Server(Exporter):
    """A share server; what it was set up with is `kept`. Its `id` names its directory and its links, for ever."""

    def __init__(self, id: str, state_dir: Path, options: LocalOptions, segments: Segments) -> None:
        from abaca.drivers.local.server_network import ServerNetwork  # its library is of no use to other back ends

        self.id = id
        self.directory = state_dir / "servers" / safe(id)
        self.kept = Kept("", [])
        self.network = ServerNetwork(id, self.directory / "netns", segments)
        self.is_gone = False
        settings = Settings(
            options.ganesha_port,
            netns=str(self.directory / "netns"),
            grace_s=options.grace_s,
            minor_versions=options.nfs_minor_versions,
            limits=Limits(options.server_memory_mib, options.server_open_files),
            socket=state_dir / f"bus-{hashlib.sha256(id.encode()).hexdigest()[:11]}.sock",
        )
        super().__init__(Ganesha(Daemon(self.directory, settings, self._need_network), state_dir), self.addresses)

    @property
    def known_as(self) -> str:
        """By which id the service knows it; `NOBODY` when it was given up."""
        return self.id if self.kept.known_as is None else self.kept.known_as

    def addresses(self) -> list[str]:
        return [one.ip_address for subnet in self.kept.subnets for one in subnet.allocations]

    def details(self) -> dict[str, str]:
        """What the service keeps of it."""
        return {
            "identifier": self.id,
            "addresses": ",".join(self.addresses()),
            "namespace": str(self.directory / "netns"),
        }

    def check(self) -> None:
        if self.is_gone:
            raise contract.Gone(reason=f"there is no share server {self.id}")

    def prepare(self) -> None:
        """Have its network as it was set up. Raises `contract.Unreachable`, `Refused`."""
        self.network.make(self.kept.subnets)

    def restore(self) -> None:
        """Have its network as it was set up, as far as that can be."""
        with contextlib.suppress(errors.BackendError):
            self.prepare()

    def _need_network(self) -> None:
        if not self.network.is_there(self.kept.subnets):
            self.prepare()

    def revive(self) -> None:
        self._need_network()
        super().revive()

    def serve(self, renewed: Sequence[str]) -> None:
        try:
            self.prepare()
            super().serve(renewed)
        except errors.BackendError as error:  # the others serve, and this one as soon as it can
            log.error("share server %s does not serve: %s", self.id, error)
            self.ganesha.watch()

    def shut_down(self) -> None:
        super().shut_down()
        self.network.remove()

    def keep(self, kept: Kept) -> None:
        """Have it written; a crash leaves the old or the new."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self.directory / "server.json.new"
        with draft.open("wb") as file:
            file.write(msgspec.json.encode(kept))
            file.flush()
            os.fsync(file.fileno())
        draft.rename(self.directory / "server.json")
        self.kept = kept

    def keep_subnets(self, subnets: list[contract.Subnet]) -> None:
        """Have it written that it is on these, if that is not so."""
        if subnets != self.kept.subnets:
            self.keep(msgspec.structs.replace(self.kept, subnets=subnets))

    def load(self) -> bool:
        """Whether it could be read."""
        try:
            self.kept = msgspec.json.decode((self.directory / "server.json").read_bytes(), type=Kept)
        except (OSError, msgspec.MsgspecError) as error:
            log.error("share server %s cannot be read and waits to be set up again: %s", self.id, error)
            return False
        return True

    def remove(self) -> None:
        """Nothing of it is left. Its directory goes in one step, so that one half gone is not taken for one that is."""
        self.shut_down()
        self.is_gone = True
        going = self.directory.with_name(f".gone-{self.id}")
        shutil.rmtree(going, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            self.directory.rename(going)
            shutil.rmtree(going)


class Servers:
    """The share servers of a back end; those that were given up go on beside those that have an owner."""

    def __init__(self, state_dir: Path, options: LocalOptions) -> None:
        self._state_dir = state_dir
        self._options = options
        self._held: dict[str, Server] = {}
        self.segments = Segments(state_dir, options.segment_bridges)

    def load(self) -> None:
        """Know those that are written, if none is known yet."""
        place = self._state_dir / "servers"
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        for directory in sorted(place.iterdir()):
            if directory.name.startswith(".gone-"):
                shutil.rmtree(directory)
            elif directory.name not in self._held:
                server = self.fresh(directory.name)
                if server.load():
                    self._held[server.id] = server

    def fresh(self, id: str) -> Server:
        """One that is not held yet."""
        return Server(id, self._state_dir, self._options, self.segments)

    def all(self) -> list[Server]:
        return list(self._held.values())

    def at(self, id: str) -> Server | None:
        """That of this directory, whoever it is known as."""
        return self._held.get(id)

    def get(self, id: str) -> Server | None:
        """That which the service knows by this id."""
        one = self._held.get(id)
        if one is not None and one.known_as == id:
            return one
        return next((one for one in self.all() if one.known_as == id), None)

    def need(self, id: str) -> Server:
        """Raises `contract.Gone`."""
        server = self.get(id)
        if server is None:
            raise contract.Gone(reason=f"there is no share server {id}")
        return server

    def add_subnets(self, wanted: Sequence[tuple[Server, list[contract.Subnet]]]) -> list[Server]:
        """Have each on these subnets as well as on its own; those of which that went well. Their locks are held."""
        from abaca.drivers.local.server_network import Work, add_missing

        works = [Work(server.network, subnets, server.kept.subnets) for server, subnets in wanted]
        add_missing(works, self.segments)
        done = []
        for (server, subnets), work in zip(wanted, works, strict=True):
            if work.error is None:
                server.keep_subnets(subnets)
                done.append(server)
            else:
                log.warning("share server %s gets no subnet: %s", server.id, work.error)
                server.restore()
        return done

    def hold(self, server: Server) -> None:
        self._held[server.id] = server

    def drop(self, server: Server) -> None:
        self._held.pop(server.id, None)
