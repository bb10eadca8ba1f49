# SPDX-License-Identifier: Apache-2.0
"""The dummy without a way to ensure many shares in one call: to rehearse how that is done one by one."""

from __future__ import annotations

from abaca.drivers import contract
from abaca.drivers.dummy.shares import Rehearsal
from abaca.drivers.dummy.storage import rehearsed


class DummyEach(Rehearsal, contract.EnsuresEach):
    """As `dummy`, but ensuring share by share."""

    @rehearsed
    def ensure_share(self, instance: contract.ShareInstance) -> contract.EnsureOutcome | None:
        return self.looked_at([instance], mends=True).get(instance.id)
