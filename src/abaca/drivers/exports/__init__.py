# SPDX-License-Identifier: Apache-2.0
"""How shares are handed to clients."""
