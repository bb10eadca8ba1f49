# SPDX-License-Identifier: Apache-2.0
"""What shares, rules and operations are and how they may change. Pure: no I/O, no clock, no framework."""
