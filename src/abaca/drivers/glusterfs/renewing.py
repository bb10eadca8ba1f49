# SPDX-License-Identifier: Apache-2.0
"""New certificates on all nodes of a GlusterFS back end, and volumes that serve by them."""

from __future__ import annotations

from collections.abc import Iterator

from abaca import errors
from abaca.drivers import contract
from abaca.drivers.authority import Authority
from abaca.drivers.clients import heketi
from abaca.drivers.clients.gluster import Gluster
from abaca.drivers.glusterfs import names, nfs_certificate
from abaca.drivers.glusterfs.seal import host_of, when
from abaca.drivers.glusterfs.serving import Serving, serving


class Renewing(Serving):
    """What an operator asks for, or does before the old certificates end."""

    authority: Authority

    def renew(self, *, restarts: bool) -> Iterator[str]:
        """What was done, sentence by sentence, as it is done: nodes first, then, with `restarts`, volumes of shares.

        With `restarts` NFS-Ganesha has a new one too, with which the worker that has it starts it anew.

        A volume that is started anew is away for some seconds, and whoever has it mounted gets errors meanwhile. One
        node at a time, so that what fails is met with most of them in order: it raises as `seal.close` does, after the
        last volume for one that could not be started anew, and may be repeated.
        """
        for id in self.clusters().values():
            nodes = serving(self.nodes(id))
            for node in nodes:
                before = self.seal.left(node).own
                self.seal.renew(node)
                yield f"node {host_of(node)}: a new certificate, it {_had(before)}"
            if restarts:
                yield from self._restart(id, nodes)
                self.seal.settle(nodes)
        if restarts and self.options.export_ips:
            yield self._renew_nfs()

    def _renew_nfs(self) -> str:
        certificate = nfs_certificate.of(self.backend.state_dir, self.authority)
        before = certificate.days_left()
        certificate.renew()
        return f"NFS-Ganesha: a new certificate, it {_had(before)}; its worker starts it anew"

    def _restart(self, cluster: str, nodes: list[heketi.Node]) -> Iterator[str]:
        failed: errors.BackendError | None = None
        for sized in self.volumes.ordered(nodes, self.client.cluster(cluster).volumes):
            try:
                if self._start_anew(self.gluster(nodes, sized.name), sized.name):
                    yield f"volume {sized.name}: started anew"
            except contract.Gone:
                continue  # it has just been deleted
            except errors.BackendError as error:
                failed = error
                yield f"volume {sized.name}: not started anew: {error.message}"
        if failed:
            raise failed

    def _start_anew(self, gluster: Gluster, volume: str) -> bool:
        """Whether it is a share's; one that is stopped was left so by somebody who was killed here."""
        info = gluster.info(volume)
        if info.options.get(names.MARK) in {None, names.NOBODY, names.RETIRED}:
            return False
        if info.is_started:
            gluster.stop(volume)
        gluster.start(volume)
        return True


def _had(left_days: float | None) -> str:
    """What there was before."""
    if left_days is None:
        return "had none"
    return f"had one for {left_days:.0f} days" if left_days > 0 else f"had one that {when(left_days)}"
