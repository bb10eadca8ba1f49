# SPDX-License-Identifier: Apache-2.0
"""Shares that are whole GlusterFS volumes, which Heketi makes and takes away.

Any host can serve the back end: all is done over Heketi's REST interface, and by gluster's own command on the nodes,
over SSH. Only what is shared by NFS is bound to a host: NFS-Ganesha runs beside the worker. Nobody reaches a volume
without a certificate, from its first moment on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from abaca.domain.attachments.servers import Login
from abaca.drivers import contract
from abaca.drivers.authority import Authority
from abaca.drivers.clients.machines import HostKeys, Machines
from abaca.drivers.glusterfs import names
from abaca.drivers.glusterfs.ensuring import Ensuring
from abaca.drivers.glusterfs.enumerating import Enumerating
from abaca.drivers.glusterfs.examining import Examining
from abaca.drivers.glusterfs.nfs_server import NfsServer, check_host
from abaca.drivers.glusterfs.options import GlusterfsOptions
from abaca.drivers.glusterfs.pools import Pools
from abaca.drivers.glusterfs.renewing import Renewing
from abaca.drivers.glusterfs.reverting import Reverting
from abaca.drivers.glusterfs.seal import Seal
from abaca.drivers.glusterfs.snapshots import Snapshots
from abaca.nodes.shell import Limits

_LIMITS = Limits(connect_s=15.0, command_s=120.0)
_OF_SNAPSHOTS = ("snapshot_support", "create_share_from_snapshot_support", "revert_to_snapshot_support")


class Glusterfs(
    Snapshots,
    Reverting,
    Ensuring,
    Enumerating,
    Examining,
    Renewing,
    Pools,
    contract.IssuesCertificates,
    contract.Driver,
):
    """GlusterFS volumes made by Heketi, sealed by certificates, reached by their common names."""

    Options = GlusterfsOptions

    vendor: ClassVar[str] = "Abaca"
    protocols: tuple[str, ...] = ("GLUSTERFS", "NFS")

    def __init__(self, backend: contract.Backend, options: GlusterfsOptions) -> None:
        super().__init__(backend, options)
        if not options.export_ips:
            self.protocols = ("GLUSTERFS",)
        self.announces = dict.fromkeys(_OF_SNAPSHOTS, options.snapshots_per_share > 0)
        self.machines = Machines(self._login, _LIMITS)
        self.authority = authority(backend, options)
        self.seal = Seal(self.machines, self.authority, options.tls_directory)

    def start(self) -> None:
        self.log_in()
        if self.options.export_ips:
            check_host()
            if self.nfs is None:
                self.nfs = NfsServer(self.backend.state_dir, self.options, self.authority)
            self.nfs.start()

    def log_in(self) -> None:
        """Be ready to work with the nodes; nothing is served. Raises as `start` does."""
        self.options.check()
        self.connect()
        if not self.options.authority_certificate:
            self.authority.make()
        self.authority.check()
        known = set(self.client.clusters())
        for name, id in self.options.clusters.items():
            if id not in known:
                raise contract.Refused(reason=f"clusters: Heketi has no cluster {id} for the pool {name}")

    def issue(self, name: str, request_pem: str) -> contract.Certificate:
        problem = names.problem_of_client(name)
        if problem:
            raise contract.Refused(reason=f"{name!r} is no client: {problem}")
        return contract.Certificate(pem=self.authority.sign(request_pem, name), authority=self.authority.pem)

    def authority_pem(self) -> str:
        try:
            self.authority.check()
        except contract.Refused as refused:
            if self.options.authority_certificate:
                raise
            where = "run this on the host whose worker serves the back end, once that has started"
            raise contract.Refused(reason=f"{refused.details['reason']}; {where}") from refused
        return self.authority.pem

    def renew(self, *, restarts: bool) -> Iterator[str]:
        if not hasattr(self, "client"):
            self.log_in()
        yield from super().renew(restarts=restarts)

    def stop(self) -> None:
        if self.nfs is not None:
            self.nfs.stop()
        self.machines.close()
        if hasattr(self, "client"):  # one that was never started has none
            self.client.close()

    def shutdown(self) -> None:
        """End the NFS server; what it exports is written, and `start` brings it back.

        For the operator who takes the back end out of service: clients of NFS hang from now on.
        """
        if self.nfs is not None:
            self.nfs.shut_down()

    def backend_info(self) -> dict[str, str]:
        nfs = {"export_ips": ",".join(self.options.export_ips)} if self.options.export_ips else {}
        return {"layout": "1", "tls_directory": self.options.tls_directory} | nfs

    def _login(self, host: str) -> Login:
        options = self.options
        return Login(
            host=host,
            port=options.ssh_port,
            user=options.ssh_user,
            host_key=HostKeys(Path(options.ssh_known_hosts)).of(host, options.ssh_port),
            key=f"file:{options.ssh_key_file}",
        )


def authority(backend: contract.Backend, options: GlusterfsOptions) -> Authority:
    """The certificate authority of the back end: the one that is given, or its own."""
    own = backend.state_dir / "authority"
    return Authority(
        Path(options.authority_certificate or own / "ca.pem"),
        Path(options.authority_key or own / "ca.key"),
        days=options.certificate_days,
    )
