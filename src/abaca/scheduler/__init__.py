# SPDX-License-Identifier: Apache-2.0
"""Where a share goes, and why not elsewhere."""
