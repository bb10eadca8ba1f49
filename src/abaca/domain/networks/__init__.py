# SPDX-License-Identifier: Apache-2.0
"""Share networks, their subnets, and security services: their states and rules."""
