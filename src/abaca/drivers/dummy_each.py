# SPDX-License-Identifier: Apache-2.0
"""The dummy without a way to ensure many shares in one call: to rehearse how that is done one by one."""

from __future__ import annotations

from abaca.drivers import contract
from abaca.drivers.dummy.driver import DummyParts
from abaca.drivers.dummy.storage import with_faults


class DummyEach(DummyParts, contract.EnsuresEach):
    """As `dummy`, but ensuring share by share."""

    @with_faults
    def ensure_share(self, instance: contract.ShareInstance) -> contract.EnsureOutcome | None:
        return self.looked_at([instance], mends=True).get(instance.id)
