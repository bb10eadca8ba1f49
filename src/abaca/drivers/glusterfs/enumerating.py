# SPDX-License-Identifier: Apache-2.0
"""Which instances Heketi has volumes of, those that nobody asked for included."""

from __future__ import annotations

from abaca.drivers import contract
from abaca.drivers.glusterfs import names
from abaca.drivers.glusterfs.serving import Serving


class Enumerating(Serving, contract.Enumerates):
    """The volumes in the clusters of the back end that are called as Abaca calls them.

    One that was taken over keeps the name that it had, and is not among them; one that was given up is.
    """

    def instances_after(self, after: str, most: int) -> list[str]:
        ids = (id for cluster in self.clusters().values() for id in self.client.cluster(cluster).volumes)
        found = (names.instance_of(name) for name in self.volumes.names(ids))
        return sorted({one for one in found if one is not None and one > after})[:most]
