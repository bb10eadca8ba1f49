# SPDX-License-Identifier: Apache-2.0
"""How a volume is handed to clients: by GlusterFS itself to certificates, or by the back end's NFS server to addresses.

A share of protocol NFS is a sealed volume as any other; the only client that it lets in is the NFS server.
"""

from __future__ import annotations

from collections.abc import Sequence

from abaca.drivers import contract
from abaca.drivers.exports import clients
from abaca.drivers.glusterfs import names
from abaca.drivers.glusterfs.nfs_server import NfsServer
from abaca.drivers.glusterfs.serving import Held, Serving


class Exporting(Serving):
    """Volumes of both protocols, and who is let in."""

    nfs: NfsServer | None = None
    protocols: tuple[str, ...]

    def server(self) -> NfsServer:
        """The NFS server. Raises `contract.Refused` where the back end has none."""
        if self.nfs is None:
            raise contract.Refused(reason="the back end has no NFS server: set export_ips, and start its worker anew")
        return self.nfs

    def check_export(self, instance: contract.ShareInstance, held: Held) -> None:
        """Raises `contract.Refused` where a volume cannot be handed out as the instance wants, before it is changed."""
        if instance.protocol not in self.protocols:
            wanted = f"{instance.protocol}: set export_ips for NFS" if is_nfs(instance) else instance.protocol
            raise contract.Refused(reason=f"the back end has no shares of protocol {wanted}")
        if is_nfs(instance):
            self.server().check(held.name, held.hosts)

    def exports(self, instance: contract.ShareInstance, held: Held) -> list[contract.Export]:
        """Where the volume can be mounted from."""
        if is_nfs(instance):
            return self.server().exports(held.name)
        paths = [f"[{host}]:/{held.name}" if ":" in host else f"{host}:/{held.name}" for host in held.hosts]
        return [contract.Export(path=path, preferred=path == paths[0]) for path in paths]

    def let_in_by(self, instance: contract.ShareInstance, held: Held) -> set[str]:
        """The clients of a volume that may stay when it is sealed, of those whom it lets in."""
        if is_nfs(instance):
            return {names.NFS}
        found = names.clients_in(held.info.options.get(names.ALLOW, ""))
        return {name for name in found if not names.problem_of_client(name)}

    def hand_out(
        self, instance: contract.ShareInstance, held: Held, wanted: Sequence[clients.Client] | None = None
    ) -> None:
        """A volume of NFS is exported to `wanted`, or to those whom its export has; others need nothing more."""
        if is_nfs(instance):
            self.server().serve(held.name, held.hosts, wanted)

    def take_back(self, instance: contract.ShareInstance, volumes: Sequence[str]) -> None:
        """None of the volumes is exported by NFS any more."""
        if is_nfs(instance) and self.nfs is not None:
            for volume in volumes:
                self.nfs.remove(volume)

    def untrue_export(self, instance: contract.ShareInstance, held: Held) -> list[str]:
        """What is wrong with how a volume of NFS is handed out."""
        if not is_nfs(instance):
            return []
        found = self.server().untrue(held.name, held.hosts)
        if names.clients_in(held.info.options.get(names.ALLOW, "")) != {names.NFS}:
            found.append("others than the NFS server were let in, or that was not")
        return found

    def is_ruled(self, instance: contract.ShareInstance, held: Held) -> bool:
        """Whether those who shall reach it, where that is told, are those whom it lets in."""
        if is_nfs(instance):
            export = self.server().get(held.name)
            if export is None:
                return False
            return instance.rules is None or export.clients == tuple(clients.from_rules(instance.rules)[0])
        if instance.rules is None:
            return True
        wanted = names.fitting((node.id for node in held.nodes), names.of_rules(instance.rules))
        return names.clients_in(held.info.options.get(names.ALLOW, "")) == wanted


def is_nfs(instance: contract.ShareInstance) -> bool:
    """Whether clients mount it by NFS."""
    return instance.protocol == "NFS"
