# SPDX-License-Identifier: Apache-2.0
"""What the dummy driver is made of: a ledger, a script of delays and failures, and the parts it plays."""
