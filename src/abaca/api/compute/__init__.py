# SPDX-License-Identifier: Apache-2.0
"""The compute door: as much of Nova's API as clients need to see servers and to attach shares to them."""
