# SPDX-License-Identifier: Apache-2.0
"""The local driver's share servers: a network namespace each, with an NFS server of its own in it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import msgspec

from abaca import errors
from abaca.drivers import contract
from abaca.drivers.local import segments
from abaca.drivers.local.exporters import NOBODY, Kept, Server
from abaca.drivers.local.serving import Serving


class ShareServers(Serving, contract.RunsServers, contract.ManagesServers, contract.UpdatesServerNetworks):
    """Share servers on any number of subnets, which may come and go while they serve."""

    share_server_multiple_subnet_support: ClassVar[bool] = True

    def set_up_server(self, setup: contract.ServerSetup) -> dict[str, str]:
        self._check_handled()
        if not any(subnet.allocations for subnet in setup.subnets):
            raise contract.Refused(reason=f"share server {setup.id} has no address to serve at")
        check_services(setup)
        with self._changing(setup.id, setup.generation):
            self.pool.check_locked()
            self.pool.check_mounted()
            server = self.servers.get(setup.id)
            if server is None and (given_up := self.servers.at(setup.id)) is not None:
                with given_up.lock:
                    server = self._take(setup.id, setup.id)
            if server is None:
                return self._make(setup)
            with server.lock:
                self._change(server, list(setup.subnets))
                server.revive()
                return server.details()

    def _make(self, setup: contract.ServerSetup) -> dict[str, str]:
        server = self.servers.fresh(setup.id)
        try:
            server.keep(Kept(setup.share_network_id, list(setup.subnets)))
            server.prepare()
            server.ganesha.start()
            server.ganesha.serve()
        except BaseException:
            server.remove()
            raise
        self.servers.hold(server)
        return server.details()

    def tear_down_server(self, server: contract.ShareServer) -> None:
        with self._changing(server.id, server.generation):
            held = self.servers.get(server.id)
            if held is None:
                if self.servers.at(server.id) is None:
                    self.servers.fresh(server.id).remove()
                return
            with held.lock:
                shares = [name for name in held.ganesha.names() if self.pool.holds(*name.split("/", 1))]
                if shares:
                    raise contract.Refused(reason=f"share server {server.id} still has {', '.join(shares[:3])}")
                held.remove()
                self.servers.drop(held)

    def find_server_addresses(self, identifier: str, options: Mapping[str, str]) -> Sequence[str]:
        self._check_handled()
        return self._nobodys(identifier).addresses()

    def manage_server(self, setup: contract.ServerSetup, identifier: str, options: Mapping[str, str]) -> dict[str, str]:
        self._check_handled()
        check_services(setup)
        with self._changing(setup.id, setup.generation):
            server = self.servers.get(setup.id) or self._nobodys(identifier)
            with server.lock:
                self._check_same(server, setup)
                server = self._take(identifier, setup.id)
                self._change(server, list(setup.subnets))
                server.keep(msgspec.structs.replace(server.kept, share_network_id=setup.share_network_id))
                server.revive()
                return server.details()

    def unmanage_server(self, server: contract.ShareServer) -> None:
        with self._changing(server.id, server.generation):
            held = self.servers.get(server.id)
            if held is not None:
                with held.lock:
                    held.keep(msgspec.structs.replace(held.kept, known_as=NOBODY))

    def _nobodys(self, identifier: str) -> Server:
        """That of this directory, which was given up. Raises `Gone`, `Refused`."""
        server = self.servers.at(identifier)
        if server is None:
            raise contract.Gone(reason=f"there is no share server {identifier}; its identifier is its directory's name")
        if server.known_as != NOBODY:
            raise contract.Refused(
                reason=f"{identifier} is share server {server.known_as}; release that share server first"
            )
        return server

    def _take(self, identifier: str, id: str) -> Server:
        """That of this directory, known by the id from now on. Raises `Gone`, `Refused` where it is another's."""
        server = self.servers.at(identifier)
        if server is None or server.known_as != id:
            server = self._nobodys(identifier)
            server.keep(msgspec.structs.replace(server.kept, known_as=id))
        return server

    def _check_same(self, server: Server, setup: contract.ServerSetup) -> None:
        """Raises `Refused` where it is not at the same addresses, or on a segment with another number."""
        told = [one.ip_address for subnet in setup.subnets for one in subnet.allocations]
        if set(told) != set(server.addresses()):
            raise contract.Refused(reason=f"share server {server.id} is at {', '.join(server.addresses())}")
        has, wanted = (segments.numbers(one) for one in (server.kept.subnets, setup.subnets))
        if has and wanted and has != wanted:
            raise contract.Refused(
                reason=f"share server {server.id} is on {', '.join(sorted(has))}, and the subnet on "
                f"{', '.join(sorted(wanted))}: name the share network in which it answers"
            )

    def check_server_network(
        self, server: contract.ShareServer, current: Sequence[contract.Subnet], new: contract.Subnet
    ) -> bool:
        if self.servers.get(server.id) is None:
            return False
        try:
            self.servers.segments.check(new)
        except contract.Unreachable:
            return False
        return True

    def update_server_network(
        self,
        server: contract.ShareServer,
        current: Sequence[contract.Subnet],
        new: contract.Subnet,
        instances: Sequence[contract.ShareInstance],
    ) -> contract.ServerNetworkOutcome:
        with self._changing(server.id, server.generation):
            held = self.servers.need(server.id)
            with held.lock:
                self._change(held, with_subnet(held, new), adds=True)
                return self._outcome(held, instances)

    def update_server_networks(
        self, changes: Sequence[contract.ServerNetworkChange]
    ) -> Mapping[str, contract.ServerNetworkOutcome]:
        """Those that nobody else works on get it together."""
        with contextlib.ExitStack() as stack:
            found: dict[str, Server] = {}
            for change in changes:
                with contextlib.suppress(contract.Busy, contract.Gone, contract.Superseded):
                    found[change.server.id] = self._take_now(stack, change.server)
            wanted = [
                (found[change.server.id], with_subnet(found[change.server.id], change.new))
                for change in changes
                if change.server.id in found
            ]
            done = self.servers.add_subnets(wanted)
            return {
                change.server.id: self._outcome(found[change.server.id], change.instances)
                for change in changes
                if found.get(change.server.id) in done
            }

    def _take_now(self, stack: contextlib.ExitStack, server: contract.ShareServer) -> Server:
        """Nobody else works on it until the stack ends. Raises `Busy` where somebody does, `Gone`, `Superseded`.

        It waits for nobody: others wait for the servers that it has taken before.
        """
        stack.enter_context(self.fences.alone_now(server.id))
        self.fences.see(server.id, server.generation)
        held = self.servers.need(server.id)
        if not held.lock.acquire(blocking=False):
            raise contract.Busy(reason="another call changes what it exports")
        stack.callback(held.lock.release)
        return held

    def remove_server_network(
        self, server: contract.ShareServer, old: contract.Subnet, instances: Sequence[contract.ShareInstance]
    ) -> contract.ServerNetworkOutcome:
        with self._changing(server.id, server.generation):
            held = self.servers.need(server.id)
            with held.lock:
                left = [subnet for subnet in held.kept.subnets if subnet.id != old.id]
                if not any(subnet.allocations for subnet in left):
                    raise contract.Refused(reason=f"share server {server.id} has no address on another subnet")
                self._change(held, left)
                return self._outcome(held, instances)

    def _change(self, server: Server, subnets: list[contract.Subnet], *, adds: bool = False) -> None:
        """Have exactly these, or those that it lacks; when that cannot be, all is as before."""
        try:
            if adds:
                server.network.add(subnets, server.kept.subnets)
            else:
                server.network.make(subnets)
        except errors.BackendError:
            server.restore()
            raise
        server.keep_subnets(subnets)

    def _outcome(self, server: Server, instances: Sequence[contract.ShareInstance]) -> contract.ServerNetworkOutcome:
        exports = {instance.id: server.exports(self.pseudo(instance)) for instance in instances}
        return contract.ServerNetworkOutcome(details=server.details(), exports=exports)

    @contextlib.contextmanager
    def _changing(self, id: str, generation: int | None) -> Iterator[None]:
        """Nobody else works on that server meanwhile. Raises `Busy`, and `Superseded` when it comes too late."""
        with self.fences.alone(id):
            self.fences.see(id, generation)
            yield

    def _check_handled(self) -> None:
        if not self.backend.driver_handles_share_servers:
            raise contract.Refused(reason="this back end handles no share servers: driver_handles_share_servers = true")


def with_subnet(server: Server, new: contract.Subnet) -> list[contract.Subnet]:
    """Its subnets with this one more, or as it is now."""
    return list({subnet.id: subnet for subnet in [*server.kept.subnets, new]}.values())


def check_services(setup: contract.ServerSetup) -> None:
    """Raises `Refused` for a server that shall join a directory."""
    if setup.security_services:
        types = ", ".join(sorted(service.type for service in setup.security_services))
        raise contract.Refused(reason=f"it joins no {types}: take the security service off the share network")
