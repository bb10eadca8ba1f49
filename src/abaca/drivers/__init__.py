# SPDX-License-Identifier: Apache-2.0
"""Storage drivers: one file a product, each a class whose base classes are its capabilities."""
