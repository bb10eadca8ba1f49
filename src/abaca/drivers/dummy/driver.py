# SPDX-License-Identifier: Apache-2.0
"""Every capability without any storage: the back end to rehearse with.

It remembers exactly what it was told to hold, in a file that survives and is shared by all workers of the back end, and
takes the time and fails the way its options say.
"""

from __future__ import annotations

from collections.abc import Sequence

from abaca.drivers import contract
from abaca.drivers.dummy.shares import Rehearsal
from abaca.drivers.dummy.storage import rehearsed


class Dummy(Rehearsal, contract.Ensures):
    """Every capability without storage, with delays and failures to order."""

    @rehearsed
    def ensure(self, instances: Sequence[contract.ShareInstance]) -> dict[str, contract.EnsureOutcome]:
        return self.looked_at(instances, mends=True)
