# SPDX-License-Identifier: Apache-2.0
"""Share networks, their subnets, and security services, as projects ask for them."""
