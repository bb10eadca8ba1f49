# SPDX-License-Identifier: Apache-2.0
"""Where the addresses of share servers come from: one module a plug-in."""
