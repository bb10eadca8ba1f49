# SPDX-License-Identifier: Apache-2.0
"""Every capability without storage: a state file, faults to order, and one part for each area of the contract."""

from abaca.drivers.dummy.driver import Dummy

__all__ = ["Dummy"]
