# SPDX-License-Identifier: Apache-2.0
"""Where servers come from: one module a plug-in."""
