# SPDX-License-Identifier: Apache-2.0
"""A cloud of two regions with an Abaca each, of which one has a Neutron, and Horizon over both."""

import contextlib
import re

from lab import horizon, keystone
from tests.clients.dashboard_region import Region, Tenants
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "operating" / "clients.md"


def features():
    """What the operators' page tells Horizon."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    said = {}
    exec(code, said)  # noqa: S102 (an operator's file of settings is code)
    return said["OPENSTACK_MANILA_FEATURES"]


class Site:
    """All of it, running."""

    def __init__(self, run):
        self.region, self.tenants = Region(run), Tenants(run)
        self.keystone = keystone.Keystone(run, self.region.abaca.url)
        self.horizon = horizon.Horizon(run, self.keystone, features())
        # as it is without a word of its operator: it shows all that there could be
        self.untold = horizon.Horizon(run, self.keystone, {}, name="horizon-untold")
        self._ends = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as ends:
            ends.enter_context(self.keystone)
            for region in (self.region, self.tenants):
                ends.callback(region.stop)
                region.start(self.keystone)
            ends.enter_context(self.horizon)
            ends.enter_context(self.untold)
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *exception):
        self._ends.close()
