# SPDX-License-Identifier: Apache-2.0
"""What operators run: services, pools, messages, locks, events, ensuring."""
