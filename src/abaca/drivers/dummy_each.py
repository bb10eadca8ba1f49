# SPDX-License-Identifier: Apache-2.0
"""The dummy as a lesser product: it ensures shares one by one, and does what comes too late all the same."""

from __future__ import annotations

from abaca.drivers import contract
from abaca.drivers.dummy.driver import DummyParts
from abaca.drivers.dummy.storage import with_faults


class DummyEach(DummyParts, contract.EnsuresEach):
    """As `dummy`, but ensuring share by share, and not fencing."""

    @with_faults
    def ensure_share(self, instance: contract.ShareInstance) -> contract.EnsureOutcome | None:
        return self.looked_at([instance], mends=True).get(instance.id)
